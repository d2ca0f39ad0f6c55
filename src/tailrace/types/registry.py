"""Every type that tailrace reads, in one table: type oid (or kind, or name) -> the functions of its family.

A new built-in type is an entry here, a `Codec` and functions in its family's folder. A type of an extension is one `register(Codec(...),
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

from tailrace.types.arrays import ARRAY, INT2VECTOR, OIDVECTOR
from tailrace.types.boolean import BOOL, printed_bool
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
from tailrace.types.composites import COMPOSITE
from tailrace.types.domains import DOMAIN
from tailrace.types.enums import ENUM
from tailrace.types.extensions import CUBE, HALFVEC, HSTORE, LQUERY, LTREE, LTXTQUERY, SPARSEVEC, VECTOR
from tailrace.types.geometric import BOX, CIRCLE, LINE, LSEG, PATH, POINT, POLYGON
from tailrace.types.json import JSON, JSONB, JSONPATH
from tailrace.types.network import CIDR, INET, MACADDR, MACADDR8
from tailrace.types.numbers import CID, FLOAT4, FLOAT8, INT2, INT4, INT8, MONEY, NUMERIC, OID, XID, XID8
from tailrace.types.oid_aliases import OID_ALIAS
from tailrace.types.ranges import MULTIRANGE, RANGE
from tailrace.types.strings import BIT, BPCHAR, BYTEA, CHAR, NAME, TEXT, VARBIT, VARCHAR, XML
from tailrace.types.style import TextStyle
from tailrace.types.system import (
    ACLITEM,
    GTSVECTOR,
    PG_BRIN_SUMMARY,
    PG_DEPENDENCIES,
    PG_LSN,
    PG_MCV_LIST,
    PG_NDISTINCT,
    PG_NODE_TREE,
    PG_SNAPSHOT,
    TID,
)
from tailrace.types.text_search import TSQUERY, TSVECTOR
from tailrace.types.times import DATE, INTERVAL, TIME, TIMESTAMP, TIMESTAMPTZ, TIMETZ
from tailrace.types.uuid import UUID

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

_BUILT_IN = {
    16: BOOL, 21: INT2, 23: INT4, 20: INT8, 700: FLOAT4, 701: FLOAT8, 1700: NUMERIC, 790: MONEY, 26: OID, 28: XID, 29: CID, 5069: XID8,
    25: TEXT, 1043: VARCHAR, 1042: BPCHAR, 19: NAME, 18: CHAR, 17: BYTEA, 1560: BIT, 1562: VARBIT, 2950: UUID, 142: XML,
    114: JSON, 3802: JSONB, 4072: JSONPATH,
    1082: DATE, 1083: TIME, 1266: TIMETZ, 1114: TIMESTAMP, 1184: TIMESTAMPTZ, 1186: INTERVAL,
    650: CIDR, 869: INET, 829: MACADDR, 774: MACADDR8,
    600: POINT, 601: LSEG, 602: PATH, 603: BOX, 604: POLYGON, 628: LINE, 718: CIRCLE,
    3614: TSVECTOR, 3615: TSQUERY,
    22: INT2VECTOR, 30: OIDVECTOR,
    1790: TEXT,  # refcursor
    1033: ACLITEM, 3220: PG_LSN, 27: TID,
    2970: PG_SNAPSHOT, 5038: PG_SNAPSHOT,  # txid_snapshot, pg_snapshot
    194: PG_NODE_TREE, 3361: PG_NDISTINCT, 3402: PG_DEPENDENCIES, 5017: PG_MCV_LIST, 3642: GTSVECTOR,
    4600: PG_BRIN_SUMMARY, 4601: PG_BRIN_SUMMARY,  # pg_brin_bloom_summary, pg_brin_minmax_multi_summary
}  # fmt: skip
"""Type oids (`catalog/pg_type.dat`), and the codec of each."""
_OID_ALIASES = (24, 2202, 2203, 2204, 2205, 2206, 3734, 3769, 4089, 4096, 4191)
"""regproc regprocedure regoper regoperator regclass regtype regconfig regdictionary regnamespace regrole regcollation"""
_KINDS = {"a": ARRAY, "c": COMPOSITE, "d": DOMAIN, "e": ENUM, "m": MULTIRANGE, "r": RANGE}
"""pg_type.typtype, but for arrays, which have none of their own."""
_EXTENSIONS = {
    "citext": TEXT, "hstore": HSTORE, "cube": CUBE, "ltree": LTREE, "lquery": LQUERY, "ltxtquery": LTXTQUERY,
    "vector": VECTOR, "halfvec": HALFVEC, "sparsevec": SPARSEVEC,
}  # fmt: skip

for _oid, _codec in _BUILT_IN.items():
    register(_codec, oids=(_oid,))
register(OID_ALIAS, oids=_OID_ALIASES)
for _kind, _codec in _KINDS.items():
    register(_codec, kind=_kind)
for _name, _codec in _EXTENSIONS.items():
    register(_codec, name=_name)
