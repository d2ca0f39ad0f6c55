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

from tailrace.expressions.evaluate.fmgr.refusals import refused
from tailrace.expressions.evaluate.numbers.numeric_arithmetic import read_numeric_payload, write_numeric_payload
from tailrace.expressions.evaluate.strings.multibyte_characters import codec_of
from tailrace.model import PgType
from tailrace.types import oids
from tailrace.types.built_in import built_in_type
from tailrace.types.encodings.multibyte import FORMS
from tailrace.types.oid_aliases import OID_ALIASES
from tailrace.types.text_search.tsvector import read_lexemes, write_lexemes
from tailrace.types.values import Values

DTYPES: dict[int, str] = {
    oids.BOOL: "?", oids.INT2: "<i2", oids.INT4: "<i4", oids.INT8: "<i8", oids.OID: "<u4", oids.XID: "<u4", oids.CID: "<u4",
    oids.XID8: "<u8", oids.PG_LSN: "<u8", oids.FLOAT4: "<f4", oids.FLOAT8: "<f8", oids.DATE: "<i4", oids.TIME: "<i8",
    oids.TIMESTAMP: "<i8", oids.TIMESTAMPTZ: "<i8", oids.MONEY: "<i8", oids.CHAR: "u1", **dict.fromkeys(OID_ALIASES, "<u4"),
}  # fmt: skip
"""Types that are numbers of a fixed width: their NumPy dtype."""
TEXTS = frozenset({oids.TEXT, oids.VARCHAR, oids.BPCHAR, oids.JSON, oids.XML, oids.REFCURSOR})


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
    if pg_type.oid == oids.NAME:
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
    if pg_type.oid == oids.NAME:
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
    oids.BYTEA: _identity, oids.UUID: _identity, oids.MACADDR: _identity, oids.MACADDR8: _identity, oids.INET: _identity,
    oids.CIDR: _identity, oids.ACLITEM: _identity, oids.NUMERIC: read_numeric_payload, oids.INTERVAL: _interval,
    oids.TIMETZ: _timetz, oids.BIT: _bits, oids.VARBIT: _bits, oids.POINT: _floats, oids.LSEG: _floats, oids.BOX: _floats,
    oids.LINE: _floats, oids.CIRCLE: _floats, oids.PATH: _path, oids.POLYGON: _polygon, oids.TID: _tid,
    oids.TXID_SNAPSHOT: _snapshot, oids.PG_SNAPSHOT: _snapshot, oids.TSVECTOR: read_lexemes, oids.TSQUERY: _identity,
    oids.JSONPATH: _identity,
}  # fmt: skip
_WRITERS: dict[int, Callable[[Any], bytes]] = {
    oids.BYTEA: _identity, oids.UUID: _identity, oids.MACADDR: _identity, oids.MACADDR8: _identity, oids.INET: _identity,
    oids.CIDR: _identity, oids.NUMERIC: write_numeric_payload, oids.INTERVAL: _write_interval,
    oids.TIMETZ: lambda value: struct.pack("<qi", *value), oids.BIT: _write_bits, oids.VARBIT: _write_bits,
    oids.POINT: lambda value: struct.pack("<2d", *value), oids.LSEG: lambda value: struct.pack("<4d", *value),
    oids.BOX: lambda value: struct.pack("<4d", *value), oids.LINE: lambda value: struct.pack("<3d", *value),
    oids.CIRCLE: lambda value: struct.pack("<3d", *value), oids.TSQUERY: _identity, oids.TSVECTOR: write_lexemes,
    oids.TID: lambda value: struct.pack("<HHH", value[0] >> 16, value[0] & 0xFFFF, value[1]),
}  # fmt: skip
