"""Every type that tailrace reads, in one table: type oid (or kind, or name) -> the functions of its family.

A new built-in type is a line here and functions in its family's file. A type of an extension is one `register(Codec(...),
name=...)`: its oid differs from database to database, so it is known by its name, and found in any schema. The codec's functions
take whole columns in stored form (`values.Values`: payloads without length words) and give texts; `codec.format_each` and
`parse_each` make such functions from ones that take a value each:

    def print_one(payload: bytes) -> str: ...
    def read_one(text: str) -> bytes: ...
    register(Codec(format=lambda values, pg_type, style: format_each(values, print_one),
                   parse=lambda texts, valid, pg_type: parse_each(texts, valid, pg_type, read_one)), name="complex")

With `send` and `receive` it has a binary form too, with `arrow` and `to_arrow` an Arrow type other than string. Registering must
happen in every process that prints, before it does. A type that is not here raises UnsupportedWal when a column of it is met,
unless the policy `unknown_types` is hex.

Importing this compiles nothing: kernels compile (or load from Numba's cache) at their first call.
"""

from __future__ import annotations

from tailrace.types import binary_forms as sends
from tailrace.types import enums
from tailrace.types import geometric as shapes
from tailrace.types import network as networks
from tailrace.types import oid_aliases as references
from tailrace.types.arrays import binary as sendarrays
from tailrace.types.arrays import parsing as arraytexts
from tailrace.types.arrays import text as arrays
from tailrace.types.codec import (
    ArrowStyle,
    Codec,
    arrow_type,
    codec_of,
    format_binary,
    format_values,
    has_binary,
    parse_binary,
    parse_texts,
    quoting,
    register,
    to_arrow,
)
from tailrace.types.composites import stored as composites
from tailrace.types.enums import printed_bool
from tailrace.types.extensions import hstore as extensions
from tailrace.types.extensions import pgvector as vectors
from tailrace.types.json import jsonpath as jsonpaths
from tailrace.types.json.jsonb import stored as jsontexts
from tailrace.types.json.jsonb import text as jsonb
from tailrace.types.numbers import integers
from tailrace.types.numbers.floats import text as floats
from tailrace.types.numbers.numeric import arrow as decimals
from tailrace.types.numbers.numeric import text as numerics
from tailrace.types.ranges import stored as ranges
from tailrace.types.strings import bytea as binary
from tailrace.types.strings import character as strings
from tailrace.types.strings import xml as xmls
from tailrace.types.style import TextStyle
from tailrace.types.system import internal_types as internals
from tailrace.types.text_search import tsvector as textsearch
from tailrace.types.text_search.tsquery import stored as tsqueries
from tailrace.types.times import interval as intervals
from tailrace.types.times import parsing as timetexts
from tailrace.types.times import text as times

__all__ = [
    "ArrowStyle",
    "Codec",
    "TextStyle",
    "arrow_type",
    "codec_of",
    "format_binary",
    "format_values",
    "has_binary",
    "parse_binary",
    "parse_texts",
    "printed_bool",
    "quoting",
    "register",
    "to_arrow",
]

_INTEGERS = (integers.format_integers, integers.parse_integers, integers.arrow_integers, integers.integers_to_arrow)
_TIMES = times.arrow_times
_STRINGS = Codec(strings.format_strings, strings.parse_strings, None, None, "quoted", sends.send_bytes, sends.receive_bytes)

# Whole numbers: int2 | int4 oid | int8 | xid cid | xid8 | money | pg_lsn
register(Codec(*_INTEGERS, "bare", *sends.swapped(2)), oids=(21,))
register(Codec(*_INTEGERS, "bare", *sends.swapped(4)), oids=(23, 26))
register(Codec(*_INTEGERS, "bare", *sends.swapped(8)), oids=(20,))
register(Codec(*_INTEGERS, "quoted", *sends.swapped(4)), oids=(28, 29))
register(Codec(*_INTEGERS, "quoted", *sends.swapped(8)), oids=(5069,))
register(Codec(integers.format_money, integers.parse_money, None, None, "quoted", *sends.swapped(8)), oids=(790,))
register(Codec(integers.format_lsns, integers.parse_lsns, None, None, "quoted", *sends.swapped(8)), oids=(3220,))
# numeric
register(
    Codec(
        numerics.format_numerics, numerics.parse_numerics, decimals.arrow_numerics, decimals.numerics_to_arrow, "bare",
        sends.send_numerics, sends.receive_numerics,
    ),
    oids=(1700,),
)  # fmt: skip
# Words: bool | enums | domains (whose forms are their base's)
register(
    Codec(enums.format_bools, enums.parse_bools, enums.arrow_bools, enums.bools_to_arrow, "bare", *sends.swapped(1)), oids=(16,)
)
register(Codec(enums.format_enums, enums.parse_enums, None, None, "quoted", enums.format_enums, enums.parse_enums), kind="e")
register(
    Codec(
        enums.format_domains, enums.parse_domains, enums.arrow_domains, enums.domains_to_arrow, "quoted",
        enums.send_domains, enums.receive_domains,
    ),
    kind="d",
)  # fmt: skip
# Texts: text json bpchar varchar refcursor, and citext | xml | name | "char"
register(_STRINGS, oids=(25, 114, 1042, 1043, 1790), name="citext")
register(Codec(xmls.format_xmls, strings.parse_strings, None, None, "quoted", xmls.format_xmls, sends.receive_bytes), oids=(142,))
register(
    Codec(strings.format_names, strings.parse_names, None, None, "quoted", strings.send_names, strings.receive_names), oids=(19,)
)
register(Codec(strings.format_chars, strings.parse_chars, None, None, "quoted", *sends.swapped(1)), oids=(18,))
# Times: date | timestamp timestamptz | time | timetz
register(
    Codec(times.format_dates, timetexts.parse_dates, _TIMES, times.dates_to_arrow, "quoted", *sends.swapped(4)), oids=(1082,)
)
register(
    Codec(times.format_timestamps, timetexts.parse_timestamps, _TIMES, times.timestamps_to_arrow, "quoted", *sends.swapped(8)),
    oids=(1114, 1184),
)
register(Codec(times.format_times, timetexts.parse_times, None, None, "quoted", *sends.swapped(8)), oids=(1083,))
register(Codec(times.format_timetzs, timetexts.parse_times, None, None, "quoted", *sends.swapped(8, 4)), oids=(1266,))
# Floats: float4 | float8
_FLOATS = (floats.format_floats, floats.parse_floats, floats.arrow_floats, floats.floats_to_arrow)
register(Codec(*_FLOATS, "bare", *sends.swapped(4)), oids=(700,))
register(Codec(*_FLOATS, "bare", *sends.swapped(8)), oids=(701,))
# Bytes: bytea | uuid | macaddr | macaddr8 | bit varbit
register(
    Codec(
        binary.format_byteas, binary.parse_byteas, binary.arrow_byteas, binary.byteas_to_arrow, "quoted",
        sends.send_bytes, sends.receive_bytes,
    ),
    oids=(17,),
)  # fmt: skip
for _oid, _width in ((2950, 16), (829, 6), (774, 8)):
    _send, _receive = sends.swapped(*(1,) * _width)
    register(Codec(binary.format_hex_groups, binary.parse_hex_groups, None, None, "quoted", _send, _receive), oids=(_oid,))
register(Codec(binary.format_bits, binary.parse_bits, None, None, "bits", sends.send_bits, sends.receive_bits), oids=(1560, 1562))
# Trees and lists: jsonb | jsonpath | every array | int2vector oidvector
register(
    Codec(jsonb.format_jsonbs, jsontexts.parse_jsonbs, None, None, "quoted", jsonb.send_jsonbs, jsontexts.receive_jsonbs),
    oids=(3802,),
)
register(Codec(jsonpaths.format_jsonpaths, jsonpaths.refuse_jsonpaths, send=jsonpaths.send_jsonpaths), oids=(4072,))
register(
    Codec(
        arrays.format_arrays, arraytexts.parse_arrays, arrays.arrow_arrays, arrays.arrays_to_arrow, "quoted",
        sendarrays.send_arrays, sendarrays.receive_arrays,
    ),
    kind="a",
)  # fmt: skip
register(
    Codec(
        arrays.format_vectors, arraytexts.parse_vectors, None, None, "quoted", sendarrays.send_arrays, sendarrays.receive_arrays
    ),
    oids=(22, 30),
)
# Ranges | multiranges | composites
register(
    Codec(ranges.format_ranges, ranges.parse_ranges, None, None, "quoted", ranges.send_ranges, ranges.receive_ranges), kind="r"
)
register(
    Codec(
        ranges.format_multiranges, ranges.parse_multiranges, None, None, "quoted",
        ranges.send_multiranges, ranges.receive_multiranges,
    ),
    kind="m",
)  # fmt: skip
register(
    Codec(
        composites.format_composites, composites.parse_composites, None, None, "quoted",
        composites.send_composites, composites.receive_composites,
    ),
    kind="c",
)  # fmt: skip
# Rare in tables, so printed row by row: interval | tid | inet cidr | point lseg box line circle | path polygon
register(
    Codec(intervals.format_intervals, intervals.parse_intervals, None, None, "quoted", *sends.swapped(8, 4, 4)), oids=(1186,)
)
register(Codec(intervals.format_tids, intervals.parse_tids, None, None, "quoted", *sends.swapped(2, 2, 2)), oids=(27,))
register(
    Codec(networks.format_networks, networks.parse_networks, None, None, "quoted", sends.send_networks, sends.receive_networks),
    oids=(650, 869),
)
for _oid, _floats in ((600, 2), (601, 4), (603, 4), (628, 3), (718, 3)):
    _send, _receive = sends.swapped(*(8,) * _floats)
    register(Codec(shapes.format_shapes, shapes.parse_shapes, None, None, "quoted", _send, _receive), oids=(_oid,))
register(
    Codec(shapes.format_shapes, shapes.parse_shapes, None, None, "quoted", sends.send_shapes, sends.receive_shapes),
    oids=(602, 604),
)
# Text search: tsvector | tsquery
register(
    Codec(
        textsearch.format_tsvectors, textsearch.parse_tsvectors, None, None, "quoted",
        textsearch.send_tsvectors, textsearch.receive_tsvectors,
    ),
    oids=(3614,),
)  # fmt: skip
register(
    Codec(
        textsearch.format_tsqueries, tsqueries.parse_tsqueries, None, None, "quoted",
        textsearch.send_tsqueries, tsqueries.receive_tsqueries,
    ),
    oids=(3615,),
)  # fmt: skip
# Pointers into catalogs: regproc regprocedure regoper regoperator regclass regtype regconfig regdictionary regnamespace regrole
# regcollation | aclitem, which has no binary form | txid_snapshot pg_snapshot
register(
    Codec(references.format_references, references.parse_references, None, None, "quoted", *sends.swapped(4)),
    oids=(24, 2202, 2203, 2204, 2205, 2206, 3734, 3769, 4089, 4096, 4191),
)
register(Codec(references.format_aclitems, references.parse_aclitems), oids=(1033,))
register(
    Codec(
        references.format_snapshots, references.parse_snapshots, None, None, "quoted",
        references.send_snapshots, references.receive_snapshots,
    ),
    oids=(2970, 5038),
)  # fmt: skip
# Of the catalogs' own columns: pg_node_tree | pg_ndistinct | pg_dependencies | pg_mcv_list | summaries of BRIN | gtsvector
register(Codec(strings.format_strings, internals.refuse_texts, send=sends.send_bytes), oids=(194,))
register(Codec(internals.format_distincts, internals.refuse_texts, send=sends.send_bytes), oids=(3361,))
register(Codec(internals.format_dependencies, internals.refuse_texts, send=sends.send_bytes), oids=(3402,))
register(Codec(binary.format_byteas, internals.refuse_texts, send=sends.send_bytes), oids=(5017,))
register(Codec(internals.format_nothing, internals.refuse_texts, send=sends.send_bytes), oids=(4600, 4601))
register(Codec(internals.format_nothing, internals.refuse_texts), oids=(3642,))
# Extensions: hstore | cube | ltree lquery ltxtquery | vector halfvec sparsevec
register(
    Codec(
        extensions.format_hstores, extensions.parse_hstores, None, None, "quoted",
        extensions.send_hstores, extensions.receive_hstores,
    ),
    name="hstore",
)  # fmt: skip
register(
    Codec(extensions.format_cubes, extensions.parse_cubes, None, None, "quoted", extensions.send_cubes, extensions.receive_cubes),
    name="cube",
)
register(
    Codec(
        extensions.format_ltrees, extensions.parse_ltrees, None, None, "quoted", extensions.send_trees, extensions.receive_trees
    ),
    name="ltree",
)
register(Codec(extensions.format_lqueries, extensions.refuse_queries, send=extensions.send_trees), name="lquery")
register(Codec(extensions.format_ltxtqueries, extensions.refuse_queries, send=extensions.send_trees), name="ltxtquery")
for _name in vectors.NUMBERS:
    register(
        Codec(
            vectors.format_vectors, vectors.parse_vectors, vectors.arrow_vectors, vectors.vectors_to_arrow, "quoted",
            vectors.send_vectors, vectors.receive_vectors,
        ),
        name=_name,
    )  # fmt: skip
register(
    Codec(vectors.format_sparse, vectors.parse_sparse, None, None, "quoted", vectors.send_sparse, vectors.receive_sparse),
    name="sparsevec",
)
