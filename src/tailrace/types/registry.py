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

from tailrace.types import oids
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
from tailrace.types.oid_aliases import OID_ALIAS, OID_ALIASES
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
    oids.BOOL: BOOL, oids.INT2: INT2, oids.INT4: INT4, oids.INT8: INT8, oids.FLOAT4: FLOAT4, oids.FLOAT8: FLOAT8,
    oids.NUMERIC: NUMERIC, oids.MONEY: MONEY, oids.OID: OID, oids.XID: XID, oids.CID: CID, oids.XID8: XID8, oids.TEXT: TEXT,
    oids.VARCHAR: VARCHAR, oids.BPCHAR: BPCHAR, oids.NAME: NAME, oids.CHAR: CHAR, oids.BYTEA: BYTEA, oids.BIT: BIT,
    oids.VARBIT: VARBIT, oids.UUID: UUID, oids.XML: XML, oids.JSON: JSON, oids.JSONB: JSONB, oids.JSONPATH: JSONPATH,
    oids.DATE: DATE, oids.TIME: TIME, oids.TIMETZ: TIMETZ, oids.TIMESTAMP: TIMESTAMP, oids.TIMESTAMPTZ: TIMESTAMPTZ,
    oids.INTERVAL: INTERVAL, oids.CIDR: CIDR, oids.INET: INET, oids.MACADDR: MACADDR, oids.MACADDR8: MACADDR8, oids.POINT: POINT,
    oids.LSEG: LSEG, oids.PATH: PATH, oids.BOX: BOX, oids.POLYGON: POLYGON, oids.LINE: LINE, oids.CIRCLE: CIRCLE,
    oids.TSVECTOR: TSVECTOR, oids.TSQUERY: TSQUERY, oids.INT2VECTOR: INT2VECTOR, oids.OIDVECTOR: OIDVECTOR, oids.REFCURSOR: TEXT,
    oids.ACLITEM: ACLITEM, oids.PG_LSN: PG_LSN, oids.TID: TID, oids.TXID_SNAPSHOT: PG_SNAPSHOT, oids.PG_SNAPSHOT: PG_SNAPSHOT,
    oids.PG_NODE_TREE: PG_NODE_TREE, oids.PG_NDISTINCT: PG_NDISTINCT, oids.PG_DEPENDENCIES: PG_DEPENDENCIES,
    oids.PG_MCV_LIST: PG_MCV_LIST, oids.GTSVECTOR: GTSVECTOR, oids.PG_BRIN_BLOOM_SUMMARY: PG_BRIN_SUMMARY,
    oids.PG_BRIN_MINMAX_MULTI_SUMMARY: PG_BRIN_SUMMARY,
}  # fmt: skip
"""Types that every cluster has, and the codec of each."""
_KINDS = {"a": ARRAY, "c": COMPOSITE, "d": DOMAIN, "e": ENUM, "m": MULTIRANGE, "r": RANGE}
"""pg_type.typtype, but for arrays, which have none of their own."""
_EXTENSIONS = {
    "citext": TEXT, "hstore": HSTORE, "cube": CUBE, "ltree": LTREE, "lquery": LQUERY, "ltxtquery": LTXTQUERY,
    "vector": VECTOR, "halfvec": HALFVEC, "sparsevec": SPARSEVEC,
}  # fmt: skip

for _oid, _codec in _BUILT_IN.items():
    register(_codec, oids=(_oid,))
register(OID_ALIAS, oids=OID_ALIASES)
for _kind, _codec in _KINDS.items():
    register(_codec, kind=_kind)
for _name, _codec in _EXTENSIONS.items():
    register(_codec, name=_name)
