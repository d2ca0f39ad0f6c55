"""In which form the values of a type are worked on, and how the stored form becomes that.

In: `Values` of a type. Out: a NumPy array, of numbers where a type is a number of a fixed width, else of Python objects: str for text, `Numeric`
for numeric, tuples for most others (each type's is said in `_READERS`). `read_payloads` and `write_payloads` are each other's reverse,
where a type has both.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.expressions.evaluate.characters import codec_of
from tailrace.expressions.evaluate.exact import read_numeric_payload, write_numeric_payload
from tailrace.expressions.evaluate.refusals import refused
from tailrace.model import PgType
from tailrace.types.built_in import built_in_type
from tailrace.types.encodings.multibyte import FORMS
from tailrace.types.text_search.tsvector import read_lexemes, write_lexemes
from tailrace.types.values import Values

BOOL, BYTEA, CHAR, NAME, INT8, INT2, INT2VECTOR, INT4, REGPROC, TEXT, OID, TID, XID, CID, OIDVECTOR = (
    16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30,
)  # fmt: skip
JSON, XML, POINT, LSEG, PATH, BOX, POLYGON, LINE, CIDR, FLOAT4, FLOAT8, CIRCLE, MACADDR8, MONEY, MACADDR, INET = (
    114, 142, 600, 601, 602, 603, 604, 628, 650, 700, 701, 718, 774, 790, 829, 869,
)  # fmt: skip
BPCHAR, VARCHAR, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, INTERVAL, TIMETZ, BIT, VARBIT, NUMERIC, RECORD = (
    1042, 1043, 1082, 1083, 1114, 1184, 1186, 1266, 1560, 1562, 1700, 2249,
)  # fmt: skip
UUID, PG_LSN, TSVECTOR, TSQUERY, JSONB, JSONPATH, XID8, TXID_SNAPSHOT, PG_SNAPSHOT = (
    2950,
    3220,
    3614,
    3615,
    3802,
    4072,
    5069,
    2970,
    5038,
)
"""Type oids (`catalog/pg_type.dat`)."""

OID_ALIASES = (24, 2202, 2203, 2204, 2205, 2206, 3734, 3769, 4089, 4096, 4191)
DTYPES: dict[int, str] = {
    BOOL: "?", INT2: "<i2", INT4: "<i4", INT8: "<i8", OID: "<u4", XID: "<u4", CID: "<u4", XID8: "<u8", PG_LSN: "<u8", FLOAT4: "<f4",
    FLOAT8: "<f8", DATE: "<i4", TIME: "<i8", TIMESTAMP: "<i8", TIMESTAMPTZ: "<i8", MONEY: "<i8", CHAR: "u1",
    **dict.fromkeys(OID_ALIASES, "<u4"),
}  # fmt: skip
"""Types that are numbers of a fixed width: their NumPy dtype."""
TEXTS = frozenset({TEXT, VARCHAR, BPCHAR, JSON, XML, 1790})


def text_codec(encoding: str) -> str:
    """Python's codec for texts of a database. Which characters they are matters in UTF8 alone; elsewhere, how many, and which bytes."""
    if encoding in FORMS:
        return codec_of(encoding)
    return "utf-8" if encoding == "UTF8" else "latin-1"


def array_of(type_oid: int, objects: Sequence[Any]) -> NDArray:
    """Values in working form as an array; None may stand where there is none."""
    dtype = DTYPES.get(type_oid)
    if dtype is not None:
        return np.array([0 if each is None else each for each in objects], dtype)
    found = np.empty(len(objects), object)
    found[:] = objects
    return found


def read_values(values: Values, pg_type: PgType, encoding: str) -> NDArray:
    """A column in working form; rows that are NULL hold zeros or None."""
    dtype = DTYPES.get(pg_type.oid)
    if dtype is not None:
        return values.as_dtype(dtype)
    read = reader_of(pg_type, encoding)
    found = np.empty(len(values), object)
    rows = zip(values.payload_list(), values.valid.tolist(), strict=True)
    found[:] = [read(payload) if present else None for payload, present in rows]
    return found


def reader_of(pg_type: PgType, encoding: str) -> Callable[[bytes], Any]:
    """How one stored value of the type becomes an object. Raises Refused, naming the type, for one without a working form."""
    dtype = DTYPES.get(pg_type.oid)
    if dtype is not None:
        return lambda payload: np.frombuffer(payload, dtype)[0].item()
    if pg_type.oid in TEXTS:
        codec = text_codec(encoding)
        return lambda payload: payload.decode(codec, "surrogateescape")
    if pg_type.oid == NAME:
        codec = text_codec(encoding)
        return lambda payload: payload.partition(b"\0")[0].decode(codec, "surrogateescape")
    if pg_type.oid in _READERS:
        return _READERS[pg_type.oid]
    if pg_type.oid in _BY_MODULE:
        return _BY_MODULE[pg_type.oid](encoding)
    if pg_type.kind in _BY_KIND:
        return _BY_KIND[pg_type.kind](pg_type, encoding)
    raise refused(f'a value of type "{pg_type.label}"')


def writer_of(pg_type: PgType, encoding: str) -> Callable[[Any], bytes]:
    """The reverse of `reader_of`."""
    dtype = DTYPES.get(pg_type.oid)
    if dtype is not None:
        return lambda value: np.array(value, dtype).tobytes()
    if pg_type.oid in TEXTS:
        codec = text_codec(encoding)
        return lambda value: value.encode(codec, "surrogateescape")
    if pg_type.oid == NAME:
        codec = text_codec(encoding)
        return lambda value: value.encode(codec, "surrogateescape").ljust(64, b"\0")
    if pg_type.oid in _WRITERS:
        return _WRITERS[pg_type.oid]
    raise refused(f'a new value of type "{pg_type.label}"')


def register_form(type_oid: int, make_reader: Callable[[str], Callable[[bytes], Any]]) -> None:
    """A type's reader, made for an encoding, that stands in the module of its family."""
    _BY_MODULE[type_oid] = make_reader


def register_kind(kind: str, make_reader: Callable[[PgType, str], Callable[[bytes], Any]]) -> None:
    """The same for a whole typtype."""
    _BY_KIND[kind] = make_reader


_BY_MODULE: dict[int, Callable[[str], Callable[[bytes], Any]]] = {}
_BY_KIND: dict[str, Callable[[PgType, str], Callable[[bytes], Any]]] = {}


def type_of(oid: int) -> PgType:
    """A built-in type; user-defined ones cannot be in a filter."""
    found = built_in_type(oid)
    if found is None:
        raise refused(f"a value of the type with oid {oid}")
    return found


def _interval(payload: bytes) -> tuple[int, int, int]:
    """(months, days, microseconds)."""
    micros, days, months = struct.unpack("<qii", payload)
    return months, days, micros


def _write_interval(value: tuple[int, int, int]) -> bytes:
    months, days, micros = value
    return struct.pack("<qii", micros, days, months)


def _timetz(payload: bytes) -> tuple[int, int]:
    """(microseconds, seconds west of Greenwich)."""
    found = struct.unpack("<qi", payload)
    return int(found[0]), int(found[1])


def _bits(payload: bytes) -> tuple[int, int]:
    """(how many bits, the bits as a number of that many)."""
    count = int.from_bytes(payload[:4], "little")
    return count, int.from_bytes(payload[4:], "big") >> (-count % 8)


def _write_bits(value: tuple[int, int]) -> bytes:
    count, number = value
    return count.to_bytes(4, "little") + (number << (-count % 8)).to_bytes((count + 7) // 8, "big")


def _floats(payload: bytes) -> tuple[float, ...]:
    return struct.unpack(f"<{len(payload) // 8}d", payload)


def _path(payload: bytes) -> tuple[bool, tuple[tuple[float, float], ...]]:
    """(closed, points)."""
    count, closed = struct.unpack_from("<ii", payload)
    numbers = struct.unpack_from(f"<{2 * count}d", payload, 12)
    return bool(closed), tuple(zip(numbers[::2], numbers[1::2], strict=True))


def _polygon(payload: bytes) -> tuple[tuple[float, float], ...]:
    """Its points, without the bounding box."""
    (count,) = struct.unpack_from("<i", payload)
    numbers = struct.unpack_from(f"<{2 * count}d", payload, 36)
    return tuple(zip(numbers[::2], numbers[1::2], strict=True))


def _tid(payload: bytes) -> tuple[int, int]:
    high, low, number = struct.unpack("<HHH", payload)
    return high << 16 | low, number


def _snapshot(payload: bytes) -> tuple[int, int, tuple[int, ...]]:
    """(xmin, xmax, those in progress)."""
    (count,) = struct.unpack_from("<I", payload)
    xmin, xmax, *others = struct.unpack_from(f"<{2 + count}Q", payload, 4)
    return xmin, xmax, tuple(others)


def _identity(payload: bytes) -> bytes:
    return payload


_READERS: dict[int, Callable[[bytes], Any]] = {
    BYTEA: _identity, UUID: _identity, MACADDR: _identity, MACADDR8: _identity, INET: _identity, CIDR: _identity, 1033: _identity,
    NUMERIC: read_numeric_payload, INTERVAL: _interval, TIMETZ: _timetz, BIT: _bits, VARBIT: _bits, POINT: _floats, LSEG: _floats, BOX: _floats,
    LINE: _floats, CIRCLE: _floats, PATH: _path, POLYGON: _polygon, TID: _tid, TXID_SNAPSHOT: _snapshot, PG_SNAPSHOT: _snapshot,
    TSVECTOR: read_lexemes,
    TSQUERY: _identity,
}  # fmt: skip
_WRITERS: dict[int, Callable[[Any], bytes]] = {
    BYTEA: _identity, UUID: _identity, MACADDR: _identity, MACADDR8: _identity, INET: _identity, CIDR: _identity,
    NUMERIC: write_numeric_payload, INTERVAL: _write_interval, TIMETZ: lambda value: struct.pack("<qi", *value), BIT: _write_bits,
    VARBIT: _write_bits,
    POINT: lambda value: struct.pack("<2d", *value), LSEG: lambda value: struct.pack("<4d", *value), BOX: lambda value: struct.pack("<4d", *value),
    LINE: lambda value: struct.pack("<3d", *value), CIRCLE: lambda value: struct.pack("<3d", *value), TSQUERY: _identity, TSVECTOR: write_lexemes,
    TID: lambda value: struct.pack("<HHH", value[0] >> 16, value[0] & 0xFFFF, value[1]),
}  # fmt: skip
