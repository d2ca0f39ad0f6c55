"""The recorded truth: types, texts and stored bytes from a real server (see `record_vectors.py`)."""

from __future__ import annotations

import gzip
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from tailrace.model import Column, PgType
from tailrace.types.values import Values


@cache
def recorded() -> dict[str, Any]:
    return json.loads(gzip.decompress((Path(__file__).parent / "vectors.json.gz").read_bytes()))


def names() -> list[str]:
    return list(recorded()["vectors"])


@cache
def pg_type(name: str) -> PgType:
    return _build(recorded()["types"][name])


def rows(name: str, zone: str | None = None) -> tuple[list[str], list[bytes]]:
    """Texts and stored bytes."""
    pairs = recorded()["zones"][zone][name] if zone else recorded()["vectors"][name]
    return [text for text, _ in pairs], [bytes.fromhex(stored) for _, stored in pairs]


def column(name: str, zone: str | None = None) -> tuple[list[str], Values]:
    """What the server printed (and "" for NULL), and the values, with a NULL at either end and in the middle."""
    texts, stored = rows(name, zone)
    half = len(texts) // 2
    payloads = [None, *stored[:half], None, *stored[half:], None]
    return ["", *texts[:half], "", *texts[half:], ""], Values.of_payloads(payloads, pg_type(name).length)


def typmod(name: str) -> int:
    """The modifier of numeric(p,s), -1 for all others."""
    found = re.match(r"numeric\((\d+),(\d+)\)", name)
    return (int(found[1]) << 16 | int(found[2])) + 4 if found else -1


def _build(made: dict[str, Any]) -> PgType:
    fields = tuple(Column(**{**field, "type": _build(field["type"])}) for field in made["fields"])
    element = _build(made["element"]) if made["element"] else None
    return PgType(**{**made, "element": element, "labels": tuple(map(tuple, made["labels"])), "fields": fields})
