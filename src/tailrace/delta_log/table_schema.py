"""The columns of a Delta table, as the JSON text that its log has of them and as an Arrow schema, both directions (PROTOCOL.md, "Schema
Serialization Format").

What the log says of a column beside its type, a comment for instance, is the field's metadata in Arrow, where all is bytes: a text as it is, below
its name; what is no text, as JSON, below its name behind `json:`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from tailrace.errors import CorruptFile, UnsupportedFile, UsageError

_PRIMITIVES: Mapping[str, pa.DataType] = {
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}
_NAMES = {kind: name for name, kind in _PRIMITIVES.items() if name != "void"}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_MOST_DIGITS = 38
_JSON = b"json:"


def parse_schema(text: str, name: str = "") -> pa.Schema:
    """The columns. Raises CorruptFile, with the `name` of the file that has the text, and UnsupportedFile for a type that we do not read."""
    try:
        return pa.schema(_fields(json.loads(text)))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, pa.ArrowException) as error:
        raise CorruptFile(
            "invalid schema of a Delta table", detail=f"It is no schema: {error}.", file=name, context=name
        ) from error


def format_schema(schema: pa.Schema) -> str:
    """The text of these columns. Raises UsageError for a type that Delta does not have."""
    return json.dumps(_struct(schema), ensure_ascii=False, separators=(",", ":"))


def has_timestamps_without_zone(schema: pa.Schema) -> bool:
    """Whether readers must know the feature timestampNtz."""
    return any(_is_local_timestamp(field.type) for field in schema)


def _is_local_timestamp(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_is_local_timestamp(kind.field(place).type) for place in range(kind.num_fields))
    return pa.types.is_timestamp(kind) and kind.tz is None


def _fields(struct: Mapping[str, Any]) -> list[pa.Field]:
    if struct["type"] != "struct":
        raise ValueError(f"{struct['type']} is no struct")
    return [
        pa.field(field["name"], _type(field["type"]), bool(field.get("nullable", True)), _read_metadata(field.get("metadata")))
        for field in struct["fields"]
    ]


def _type(said: Any) -> pa.DataType:
    if isinstance(said, str):
        if said in _PRIMITIVES:
            return _PRIMITIVES[said]
        if said == "decimal":
            return pa.decimal128(10, 0)
        if found := _DECIMAL.fullmatch(said):
            return pa.decimal128(int(found[1]), int(found[2]))
        raise _unknown(said)
    kind = said["type"]
    if kind == "struct":
        return pa.struct(_fields(said))
    if kind == "array":
        return pa.list_(pa.field("element", _type(said["elementType"]), bool(said["containsNull"])))
    if kind == "map":
        values = pa.field("value", _type(said["valueType"]), bool(said["valueContainsNull"]))
        return pa.map_(pa.field("key", _type(said["keyType"]), False), values)
    raise _unknown(kind)


def _unknown(kind: Any) -> UnsupportedFile:
    return UnsupportedFile(f'a Delta table has a column of type "{kind}", which is not supported')


def _struct(fields: pa.Schema | pa.StructType) -> dict[str, Any]:
    return {
        "type": "struct",
        "fields": [
            {"name": field.name, "type": _said(field), "nullable": field.nullable, "metadata": _metadata(field)}
            for field in fields
        ],
    }


def _said(field: pa.Field) -> Any:
    kind = field.type
    if kind in _NAMES:
        return _NAMES[kind]
    if pa.types.is_decimal(kind) and kind.precision <= _MOST_DIGITS and 0 <= kind.scale <= kind.precision:
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_struct(kind):
        return _struct(kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        element = kind.value_field
        return {"type": "array", "elementType": _said(element), "containsNull": element.nullable}
    if pa.types.is_map(kind):
        values = kind.item_field
        return {
            "type": "map", "keyType": _said(kind.key_field), "valueType": _said(values), "valueContainsNull": values.nullable,
        }  # fmt: skip
    if pa.types.is_large_string(kind):
        return "string"
    if pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return "binary"
    raise UsageError(f'column "{field.name}" is of Arrow\'s type {kind}, which Delta does not have')


def _read_metadata(said: Mapping[str, Any] | None) -> dict[bytes, bytes] | None:
    metadata = {}
    for name, value in (said or {}).items():
        if isinstance(value, str):
            metadata[name.encode()] = value.encode()
        else:
            metadata[_JSON + name.encode()] = json.dumps(value).encode()
    return metadata or None


def _metadata(field: pa.Field) -> dict[str, Any]:
    """What the log says of a column; what Parquet's readers note of a field in a file is none of it."""
    said: dict[str, Any] = {}
    for name, value in (field.metadata or {}).items():
        if name.startswith(_JSON):
            said[name.removeprefix(_JSON).decode()] = json.loads(value)
        elif name != b"PARQUET:field_id":
            said[name.decode()] = value.decode()
    return said
