"""The recorded truth: types, texts and stored bytes from a real server (see `record_vectors.py`)."""

from __future__ import annotations

import gzip
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tailrace.model import Column, PgType
from tailrace.types.registry import parse_texts
from tailrace.types.style import TextStyle
from tailrace.types.values import Texts, Values


@cache
def recorded() -> dict[str, Any]:
    return json.loads(gzip.decompress((Path(__file__).parent / "vectors.json.gz").read_bytes()))


def names() -> list[str]:
    return list(recorded()["vectors"])


@cache
def pg_type(name: str) -> PgType:
    return build(recorded()["types"][name])


def name_of(reg_type: int, oid: int) -> str | None:
    """What the server's catalogs said of an oid."""
    return recorded()["names"].get(f"{reg_type} {oid}")


NAMED = TextStyle(names=name_of)
"""The style in which the texts were printed."""


def rows(name: str) -> tuple[list[str], list[bytes]]:
    """Texts and stored bytes."""
    found = recorded()["vectors"][name]
    return [text for text, _, _ in found], [bytes.fromhex(stored) for _, stored, _ in found]


def column(name: str) -> tuple[list[str], Values]:
    """What the server printed (and "" for NULL), and the values, with a NULL at either end and in the middle."""
    texts, stored = rows(name)
    return with_nulls(texts, ""), Values.of_payloads(with_nulls(stored, None), pg_type(name).length)


def sent(name: str) -> list[bytes] | None:
    """What the server sent of the same column; None for a type that has no send function."""
    found = [form for _, _, form in recorded()["vectors"][name]]
    return None if None in found else with_nulls([bytes.fromhex(form) for form in found], b"")


def with_nulls(found: list[Any], null: Any) -> list[Any]:
    half = len(found) // 2
    return [null, *found[:half], null, *found[half:], null]


def values_of(dtype: str, *numbers: float) -> Values:
    """A column of numbers, stored as this dtype."""
    array = np.array(numbers, dtype)
    return Values(np.ones(len(array), np.bool_), fixed=array.view(np.uint8).reshape(len(array), array.itemsize))


def stored(name: str, *texts: str) -> Values:
    """What the type's input function makes of texts."""
    return parse_texts(Texts.of(texts), np.ones(len(texts), np.bool_), pg_type(name))


def typmod(name: str) -> int:
    """The modifier of numeric(p,s), -1 for all others."""
    found = re.match(r"numeric\((\d+),(\d+)\)", name)
    return (int(found[1]) << 16 | int(found[2])) + 4 if found else -1


def build(made: dict[str, Any]) -> PgType:
    fields = tuple(Column(**{**field, "type": build(field["type"]) if field["type"] else None}) for field in made["fields"])
    element = build(made["element"]) if made["element"] else None
    return PgType(**{**made, "element": element, "labels": tuple(map(tuple, made["labels"])), "fields": fields})
