"""Every type that tailrace reads, in one table: type oid (or kind, or name) -> the functions of its family.

A type that is not here raises UnsupportedWal when a column of it is met. A new built-in type is a line here and functions
in its family's file; a type of an extension is one `register(Codec(...), name=...)` by whoever knows it.
Importing this compiles nothing: kernels compile (or load from Numba's cache) at their first call.
"""

from __future__ import annotations

from tailrace.types import (
    arrays,
    arraytexts,
    binary,
    composites,
    decimals,
    enums,
    floats,
    integers,
    intervals,
    jsonb,
    jsontexts,
    networks,
    numerics,
    ranges,
    shapes,
    strings,
    times,
    timetexts,
)
from tailrace.types.codec import (
    ArrowStyle,
    Codec,
    arrow_type,
    codec_of,
    format_values,
    parse_texts,
    quoting,
    register,
    to_arrow,
)
from tailrace.types.enums import printed_bool
from tailrace.types.style import TextStyle

__all__ = [
    "ArrowStyle",
    "Codec",
    "TextStyle",
    "arrow_type",
    "codec_of",
    "format_values",
    "parse_texts",
    "printed_bool",
    "quoting",
    "register",
    "to_arrow",
]

_INTEGERS = (integers.format_integers, integers.parse_integers, integers.arrow_integers, integers.integers_to_arrow)

# Whole numbers: int8 int2 int4 oid | xid cid xid8 | money | pg_lsn
register(Codec(*_INTEGERS, quoting="bare"), oids=(20, 21, 23, 26))
register(Codec(*_INTEGERS), oids=(28, 29, 5069))
register(Codec(integers.format_money, integers.parse_money), oids=(790,))
register(Codec(integers.format_lsns, integers.parse_lsns), oids=(3220,))
# numeric
register(
    Codec(numerics.format_numerics, numerics.parse_numerics, decimals.arrow_numerics, decimals.numerics_to_arrow, "bare"),
    oids=(1700,),
)
# Words: bool | enums | domains (whose Arrow form is their base's)
register(Codec(enums.format_bools, enums.parse_bools, enums.arrow_bools, enums.bools_to_arrow, "bare"), oids=(16,))
register(Codec(enums.format_enums, enums.parse_enums), kind="e")
register(Codec(enums.format_domains, enums.parse_domains, enums.arrow_domains, enums.domains_to_arrow), kind="d")
# Texts: text json xml bpchar varchar | name | "char"
register(Codec(strings.format_strings, strings.parse_strings), oids=(25, 114, 142, 1042, 1043))
register(Codec(strings.format_names, strings.parse_names), oids=(19,))
register(Codec(strings.format_chars, strings.parse_chars), oids=(18,))
# Times: date | timestamp timestamptz | time | timetz
register(Codec(times.format_dates, timetexts.parse_dates, times.arrow_times, times.dates_to_arrow), oids=(1082,))
register(
    Codec(times.format_timestamps, timetexts.parse_timestamps, times.arrow_times, times.timestamps_to_arrow), oids=(1114, 1184)
)
register(Codec(times.format_times, timetexts.parse_times), oids=(1083,))
register(Codec(times.format_timetzs, timetexts.parse_times), oids=(1266,))
# Floats
register(Codec(floats.format_floats, floats.parse_floats, floats.arrow_floats, floats.floats_to_arrow, "bare"), oids=(700, 701))
# Bytes: bytea | uuid macaddr macaddr8 | bit varbit
register(Codec(binary.format_byteas, binary.parse_byteas, binary.arrow_byteas, binary.byteas_to_arrow), oids=(17,))
register(Codec(binary.format_hex_groups, binary.parse_hex_groups), oids=(2950, 829, 774))
register(Codec(binary.format_bits, binary.parse_bits, quoting="bits"), oids=(1560, 1562))
# Trees and lists: jsonb | every array | int2vector oidvector
register(Codec(jsonb.format_jsonbs, jsontexts.parse_jsonbs), oids=(3802,))
register(Codec(arrays.format_arrays, arraytexts.parse_arrays, arrays.arrow_arrays, arrays.arrays_to_arrow), kind="a")
register(Codec(arrays.format_vectors, arraytexts.parse_vectors), oids=(22, 30))
# Ranges | multiranges | composites
register(Codec(ranges.format_ranges, ranges.parse_ranges), kind="r")
register(Codec(ranges.format_multiranges, ranges.parse_multiranges), kind="m")
register(Codec(composites.format_composites, composites.parse_composites), kind="c")
# Rare in tables, so printed row by row: interval | tid | inet cidr | point lseg path box polygon line circle
register(Codec(intervals.format_intervals, intervals.parse_intervals), oids=(1186,))
register(Codec(intervals.format_tids, intervals.parse_tids), oids=(27,))
register(Codec(networks.format_networks, networks.parse_networks), oids=(650, 869))
register(Codec(shapes.format_shapes, shapes.parse_shapes), oids=(600, 601, 602, 603, 604, 628, 718))
