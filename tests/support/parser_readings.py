"""What foreign parsers read in messages that we make of recorded cases, written down once (`record_readings.py`), so that a test without the parsers
holds our messages, and our reader, against it: `tests/cases/parser_readings.jsonl.xz`, a parser's readings of one session a line."""

from __future__ import annotations

import json
import lzma
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from support.foreign_parsers import Parser, Reading, agrees, our_readings
from support.outlets import OUTLETS

FILE = Path(__file__).parents[1] / "cases/parser_readings.jsonl.xz"
OUTLETS_READ = tuple(each for each in OUTLETS if each.plugin == "pgoutput")
CASES_READ = (("types", 18), ("prepared", 16), ("replica_identity", 18), ("messages", 16))


@dataclass(frozen=True, slots=True)
class Recorded:
    """`outlet` is a place in OUTLETS_READ."""

    story: str
    major: int
    outlet: int
    parser: str
    readings: tuple[Reading, ...]


@cache
def recorded_readings() -> tuple[Recorded, ...]:
    lines = lzma.decompress(FILE.read_bytes()).decode().splitlines() if FILE.exists() else []
    return tuple(Recorded(*fields[:4], tuple(fields[4])) for fields in map(json.loads, lines))


def write_readings(several: Sequence[Recorded]) -> None:
    rows = ([each.story, each.major, each.outlet, each.parser, each.readings] for each in several)
    text = "".join(json.dumps(row, separators=(",", ":"), sort_keys=True) + "\n" for row in rows)
    FILE.write_bytes(lzma.compress(text.encode(), preset=9))


def read_by(parser: Parser, payloads: Sequence[bytes], proto_version: int, streaming: str, what: str) -> int:
    """Have it read a session, and fail where it says other than our reader; how many messages it read."""
    mine = our_readings(payloads, proto_version, streaming)
    for payload, reading, theirs in zip(payloads, mine, parser.read(payloads, proto_version), strict=True):
        if not agrees(parser, payload, reading, theirs):
            pytest.fail(f"{what}: {parser} reads {theirs}, we {reading}: {payload.hex()[:400]}", pytrace=False)
    return len(payloads)
