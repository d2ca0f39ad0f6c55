"""Columns of catalogs, as a history has them, in the types that they have in SQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tailrace.catalog.rows.catalog_rows import NO_NUMBER
from tailrace.catalog.rows.column_values import float4s, int2_vector, oid_vector, signed32
from tailrace.model import PgType
from tailrace.sql.sql_types import ARROW, oid_of, read_array
from tailrace.types import oids
from tailrace.types.built_in import built_in_types
from tailrace.types.registry import format_values
from tailrace.types.style import TextStyle
from tailrace.types.values import Values


def catalog_array(values: Any, kind: str, type_of: Callable[[int], PgType], style: TextStyle) -> pa.Array:
    """A column in Arrow's type for this one (`sql_types.ARROW`); a timestamptz, which may be infinite, as text. `style` knows the names of roles."""
    if kind.endswith("[]"):
        texts = _formatted(values.tolist(), type_of(oid_of(kind)), style)
        return pa.array([None if each is None else read_array(each) for each in texts], ARROW[kind])
    if kind == "timestamptz":
        stored = [int(each).to_bytes(8, "little", signed=True) if each else None for each in values]
        return pa.array(_formatted(stored, type_of(oids.TIMESTAMPTZ), style), pa.string())
    arrow = ARROW[kind]
    if kind in ("name", "text", "pg_node_tree"):
        return pa.array([_text(each) for each in values.tolist()], arrow)
    if kind in ("int2vector", "oidvector"):
        return pa.array([_vector(each, kind) for each in values.tolist()], arrow)
    numbers = [None if each == NO_NUMBER else each for each in values.tolist()]
    if kind == "char":
        return pa.array([chr(each) if each else "" for each in numbers], arrow)
    if kind == "bool":
        return pa.array([bool(each) for each in numbers], arrow)
    if kind == "float4":
        return pa.array(float4s(values), arrow)
    return pa.array([None if each is None else signed32(each) for each in numbers] if kind == "int4" else numbers, arrow)


def interval_text(microseconds: int, style: TextStyle) -> str:
    """As interval_out prints so many."""
    stored = microseconds.to_bytes(8, "little", signed=True) + bytes(8)
    [text] = _formatted([stored], built_in_types()[oids.INTERVAL], style)
    assert text is not None
    return text


def _formatted(stored: Sequence[bytes | None], pg_type: PgType, style: TextStyle) -> list[str | None]:
    """What the type's output function prints. A time that is 0 is taken for NULL, of which the history keeps no other sign."""
    valid = np.array([each is not None for each in stored], np.bool_)
    data = np.frombuffer(b"".join(each or b"\0" * max(pg_type.length, 0) for each in stored), np.uint8)
    if pg_type.length > 0:
        values = Values(valid, fixed=data.reshape(len(stored), pg_type.length))
    else:
        values = Values(valid, offsets=np.cumsum([0, *(len(each or b"") for each in stored)], dtype=np.int64), data=data)
    texts = format_values(values, pg_type, style).to_list()
    return [text if is_there else None for text, is_there in zip(texts, valid.tolist(), strict=True)]


def _text(value: Any) -> str | None:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value


def _vector(value: bytes | None, kind: str) -> str | None:
    if value is None:
        return None
    return " ".join(map(str, int2_vector(value) if kind == "int2vector" else oid_vector(value)))
