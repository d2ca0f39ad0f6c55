"""The Kafka Connect schema of an event's value, as Connect's JSON converter writes it beside the payload."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from tailrace.model import Column, Relation
from tailrace.plugins.debezium.values import FieldConverter

_ENVELOPE_VERSION = 2
_CONNECTOR = "io.debezium.connector.postgresql"
_SNAPSHOT = "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"


def _field(kind: str, name: str, *, optional: bool) -> dict[str, Any]:
    return {"type": kind, "optional": optional, "field": name}


_TIMES = [_field("int64", name, optional=True) for name in ("ts_ms", "ts_us", "ts_ns")]
_SOURCE = {
    "type": "struct",
    "fields": [
        *(_field("string", name, optional=False) for name in ("version", "connector", "name")),
        _field("int64", "ts_ms", optional=False),
        {
            "type": "string", "optional": True, "name": "io.debezium.data.Enum", "version": 1, "parameters": {"allowed": _SNAPSHOT},
            "default": "false", "field": "snapshot",
        },
        _field("string", "db", optional=False),
        _field("string", "sequence", optional=True),
        *_TIMES[1:],
        *(_field("string", name, optional=False) for name in ("schema", "table")),
        *(_field("int64", name, optional=True) for name in ("txId", "lsn", "xmin")),
    ],
    "optional": False,
    "name": f"{_CONNECTOR}.Source",
    "version": 1,
    "field": "source",
}  # fmt: skip
_TRANSACTION = {
    "type": "struct",
    "fields": [
        _field("string", "id", optional=False), _field("int64", "total_order", optional=False),
        _field("int64", "data_collection_order", optional=False),
    ],
    "optional": True,
    "name": "event.block",
    "version": 1,
    "field": "transaction",
}  # fmt: skip
_OP = _field("string", "op", optional=False)
_END = [_SOURCE, _TRANSACTION, _OP, *_TIMES]


def envelope_schema(prefix: str, relation: Relation, columns: Sequence[tuple[Column, FieldConverter]]) -> str:
    """The schema of the envelope of a table's changes."""
    topic = f"{prefix}.{relation.schema}.{relation.name}"
    fields = [{**converter.schema(optional=not column.not_null), "field": column.name} for column, converter in columns]
    value = {"type": "struct", "fields": fields, "optional": True, "name": schema_name(f"{topic}.Value")}
    return _compact(
        {
            "type": "struct", "fields": [{**value, "field": side} for side in ("before", "after")] + _END, "optional": False,
            "name": schema_name(f"{topic}.Envelope"), "version": _ENVELOPE_VERSION,
        }
    )  # fmt: skip


def message_schema(kind: str) -> str:
    """Of logical messages, whose content is of that kind."""
    fields = [_field("string", "prefix", optional=True), _field(kind, "content", optional=True)]
    message = {
        "type": "struct",
        "fields": fields,
        "optional": False,
        "name": f"{_CONNECTOR}.Message",
        "version": 1,
        "field": "message",
    }
    value = {"type": "struct", "fields": [_OP, _TIMES[0], _SOURCE, _TRANSACTION, message], "optional": False}
    return _compact({**value, "name": f"{_CONNECTOR}.MessageValue", "version": 1})


def schema_name(name: str) -> str:
    """A name that Avro takes: what else stands in one becomes an underscore."""
    name = re.sub(r"[^A-Za-z0-9_.]", "_", name)
    return re.sub(r"(^|\.)(?=[0-9])", r"\1_", name)


def _compact(schema: dict[str, Any]) -> str:
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
