"""The definition of a relation as JSON, and back: changes in quarantine need it after the log is gone.

In: a `Relation`, or its JSON. Out: the other. Bytes are in hex. What has its default value is left out.
"""

from __future__ import annotations

import json
from dataclasses import MISSING, fields
from typing import Any

from tailrace.model import Column, InternalFunctions, PgType, Relation


def write_relation(relation: Relation) -> str:
    return json.dumps(_written(relation), separators=(",", ":"))


def read_relation(text: str) -> Relation:
    """Raises ValueError, LookupError or TypeError for what was not written so."""
    return _relation(json.loads(text))


def write_columns(columns: tuple[Column, ...]) -> str:
    return json.dumps([_written(column) for column in columns], separators=(",", ":"))


def read_columns(text: str) -> tuple[Column, ...]:
    """Raises as `read_relation`."""
    return tuple(_column(each) for each in json.loads(text))


def _written(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Relation | Column | PgType):
        said = {}
        for each in fields(value):
            found = getattr(value, each.name)
            if each.default is MISSING or found != each.default:
                said[each.name] = _written(found)
        return said
    if isinstance(value, tuple):
        return [_written(each) for each in value]
    return value


def _relation(said: dict[str, Any]) -> Relation:
    made = {**said, "columns": tuple(_column(each) for each in said["columns"])}
    made.update((name, tuple(said[name])) for name in ("identity", "primary_key") if name in said)
    return Relation(**made)


def _column(said: dict[str, Any]) -> Column:
    missing = bytes.fromhex(said["missing"]) if said.get("missing") is not None else None
    return Column(**{**said, "type": _type(said["type"]), "missing": missing})


def _type(said: dict[str, Any] | None) -> PgType | None:
    if said is None:
        return None
    made = dict(said)
    if "element" in said:
        made["element"] = _type(said["element"])
    if "labels" in said:
        made["labels"] = tuple((oid, label) for oid, label in said["labels"])
    if "fields" in said:
        made["fields"] = tuple(_column(each) for each in said["fields"])
    if "functions" in said:
        made["functions"] = InternalFunctions(*said["functions"])
    return PgType(**made)
