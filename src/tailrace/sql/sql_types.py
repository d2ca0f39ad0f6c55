"""The SQL types that the interface's functions and views have: their oids, how they travel in Arrow, and how constants of them are read.

pg_lsn is UBIGINT and nothing else is, so that a result says by itself which of its columns are positions; xid and oid are UINTEGER, which print
alike.
"""

from __future__ import annotations

import re
from functools import cache

import pyarrow as pa

from tailrace.errors import UsageError
from tailrace.model import NAMEDATALEN, PgType
from tailrace.settings import parse_bool, parse_lsn
from tailrace.types import oids
from tailrace.types.arrays.text import read_array_literal
from tailrace.types.built_in import built_in_types

ARROW: dict[str, pa.DataType] = {
    "bool": pa.bool_(), "float4": pa.float32(), "int2": pa.int16(), "int4": pa.int32(), "int8": pa.int64(), "float8": pa.float64(),
    "oid": pa.uint32(),
    "xid": pa.uint32(), "pg_lsn": pa.uint64(), "name": pa.string(), "text": pa.string(), "char": pa.string(), "bytea": pa.binary(),
    "timestamptz": pa.timestamp("us", "UTC"), "interval": pa.string(), "inet": pa.string(), "void": pa.string(), "record": pa.string(),
    "pg_node_tree": pa.string(), "int2vector": pa.string(), "oidvector": pa.string(), "name[]": pa.list_(pa.string()),
    "text[]": pa.list_(pa.string()), "char[]": pa.list_(pa.string()), "aclitem[]": pa.list_(pa.string()), "oid[]": pa.list_(pa.uint32()),
    "int2[]": pa.list_(pa.int16()),
}  # fmt: skip
"""By PostgreSQL's name of the type. What is only ever NULL here, or only printed, travels as text."""
SAME = {
    "boolean": "bool", "integer": "int4", "int": "int4", "bigint": "int8", "smallint": "int2", "varchar": "text", "bpchar": "text",
}  # fmt: skip

_TEXTS = frozenset({"name", "text"})
_LEAST = {"int4": -(2**31), "int8": -(2**63)}


@cache
def _by_name() -> dict[str, PgType]:
    return {each.name: each for each in built_in_types().values()}


def _built_in(kind: str) -> PgType | None:
    return _by_name().get(f"_{kind[:-2]}" if kind.endswith("[]") else kind)


def oid_of(kind: str) -> int:
    """The oid of a type by its name in pg_type, an array's with brackets behind it."""
    found = _built_in(kind)
    assert found is not None, kind
    return found.oid


def label(kind: str) -> str:
    """The type as errors name it: as format_type() does, or as it was written if it is no built-in type."""
    found = _built_in(kind)
    return found.label if found else kind


def takes(wanted: str, given: str) -> bool:
    """Whether a constant of one type can stand where another is asked for."""
    if given in (wanted, "unknown"):
        return True
    if wanted in _TEXTS and given in _TEXTS:
        return True
    return wanted == "int8" and given in ("int2", "int4")


def read(kind: str, text: str) -> object:
    """The value that a type's input function makes of a text. Raises UsageError (22P02, 22003) as that does."""
    if kind in ("text", "name"):
        return cut_name(text) if kind == "name" else text
    if kind == "pg_lsn":
        return parse_lsn(text.strip())
    if kind == "bool":
        meaning = parse_bool(text.strip())
        if meaning is None:
            raise UsageError(f'invalid input syntax for type boolean: "{text}"', sqlstate="22P02")
        return meaning
    if kind in ("int4", "int8"):
        return _integer(kind, text)
    if kind == "text[]":
        return read_array(text)
    raise UsageError(f"a constant of type {label(kind)} is not read here", sqlstate="0A000")


def cut_name(text: str) -> str:
    """What fits into the type name (`namein`)."""
    raw = text.encode()[: NAMEDATALEN - 1]
    return raw.decode(errors="ignore")


def _integer(kind: str, text: str) -> int:
    if not re.fullmatch(r"\s*[-+]?\d+\s*", text, re.ASCII):
        raise UsageError(f'invalid input syntax for type {label(kind)}: "{text}"', sqlstate="22P02")
    value = int(text)
    if not _LEAST[kind] <= value < -_LEAST[kind]:
        raise UsageError(f'value "{text}" is out of range for type {label(kind)}', sqlstate="22003")
    return value


def read_array(text: str) -> list[str | None] | list[list]:
    """A text[] of one dimension, or, as lists in a list, of more (`array_in`); of those only that there are more matters."""
    if not text.lstrip().startswith(("{", "[")):
        detail = 'Array value must start with "{" or dimension information.'
        raise UsageError(f'malformed array literal: "{text}"', detail=detail, sqlstate="22P02")
    shape, words = read_array_literal(text, built_in_types()[oids.TEXTARRAY])
    return words if len(shape.lengths) < 2 else [words]
