"""What comes out of a log: plugins, with the options that change what they remember, and in what way they give transactions.

`OUTLETS` are those that every recorded case goes through, whole and in pieces (`support.ways`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from support import reassembly, streaming
from support.pgoutput_rows import PUBLICATION
from support.streaming import Streamed
from tailrace.errors import TailraceError
from tailrace.logicalproto.message import Relation, Type
from tailrace.model import Lsn
from tailrace.pipeline import Pipeline
from tailrace.plugins.lines import Lines
from tailrace.plugins.output_plugin import OutputPlugin
from tailrace.plugins.registry import plugin_named
from tailrace.publications.publication import ALL_ACTIONS, Publication, PublicationActions

Row = tuple[int, int, bytes]
"""LSN, xid, and what was printed."""
INSERTS = "inserts"
DEFINITIONS = (
    (
        0,
        (
            Publication(PUBLICATION, all_tables=True, actions=ALL_ACTIONS, defined_here=True),
            Publication(INSERTS, all_tables=True, actions=PublicationActions(insert=True, truncate=True), defined_here=True),
        ),
    ),
)
"""Most stories update tables without a key, which ends what a publication of everything gives."""


@dataclass(frozen=True, slots=True)
class Outlet:
    """A plugin with these options, since the `first` major that has them. If it `streams`, it streams everything."""

    plugin: str
    options: Mapping[str, str] = field(default_factory=dict, hash=False)
    two_phase: bool = False
    streams: bool = False
    first: int = 14

    def __str__(self) -> str:
        options = "".join(f" {name}={value}" for name, value in self.options.items())
        return f"{self.plugin}{options}{' in two phases' * self.two_phase}{' streamed' * self.streams}"

    def started(self, major: int) -> OutputPlugin:
        """A new instance, as for a new session."""
        plugin = Streamed() if self.streams and self.plugin == "test_decoding" else plugin_named(self.plugin)
        plugin.context.two_phase = self.two_phase
        plugin.context.work_mem = 0 if self.streams else plugin.context.work_mem
        plugin.startup(self.options, major)
        if plugin.wants.publication_names is not None:
            plugin.context.definitions = DEFINITIONS
        return plugin

    def whole(self) -> Outlet:
        """The same, giving transactions when they end."""
        options = {name: value for name, value in self.options.items() if name != "streaming"}
        return replace(self, options=options, streams=False)

    def understood(self, rows: list[Row]) -> list[object]:
        """What a receiver makes of blocks, or of what came without."""
        if self.plugin == "pgoutput":
            pairs = ((lsn, data) for lsn, _, data in rows)
            did = reassembly.reassembled(pairs, int(self.options["proto_version"]), self.options["streaming"])
            return [_without_what_depends_on_blocks(each) for each in did]
        texts = [(str(Lsn(lsn)), str(xid), data.decode(errors="surrogateescape")) for lsn, xid, data in rows]
        return list(_with_ties_in_order(streaming.without_begin_lsns(streaming.reassembled(texts))))


def _with_ties_in_order(rows: Iterable[tuple[str, str, str]]) -> Iterator[tuple[str, str, str]]:
    """A message and a row of another subtransaction may have one LSN. Which comes first is decided by the heap that the server merges with, and what
    is in that depends on where blocks end."""
    for _, run in groupby(rows, key=lambda row: row[:2]):
        same = list(run)
        yield from sorted(same) if any(text.startswith("message:") for _, _, text in same) else same


def _pgoutput(version: int, first: int = 14, *, two_phase: bool = False, streams: bool = False, **options: str) -> Outlet:
    names = {"proto_version": str(version), "publication_names": INSERTS}
    return Outlet("pgoutput", {**names, **options}, two_phase, streams, first)


OUTLETS = (
    Outlet("test_decoding"),
    Outlet("test_decoding", {"skip-empty-xacts": "on", "include-timestamp": "on"}, two_phase=True),
    Outlet("test_decoding", streams=True),
    Outlet("test_decoding", two_phase=True, streams=True),
    _pgoutput(1),
    _pgoutput(1, publication_names=PUBLICATION),
    _pgoutput(1, messages="true", binary="true"),
    _pgoutput(2, streaming="on", streams=True),
    _pgoutput(3, 15, two_phase=True, messages="true"),
    _pgoutput(3, 15, two_phase=True, streaming="on", streams=True),
    _pgoutput(4, 16, two_phase=True, streaming="parallel", binary="true", streams=True),
    _pgoutput(4, 16, origin="none"),
    Outlet("wal2json"),
    Outlet("wal2json", {"format-version": "2", "include-xids": "on", "include-timestamp": "on", "include-pk": "on"}),
    Outlet("debezium"),
    Outlet("debezium", {"schemas.enable": "true", "skipped.operations": "none"}),
)


def _without_what_depends_on_blocks(event: Any) -> Any:
    """A type or schema that was renamed is not told again, but where a relation is for another reason, as in a stream; and where a transaction comes
    from, its first block says by what was queued first (`oracle/test_pgoutput_streamed_origins.py`)."""
    if isinstance(event, Type):
        return event.type_oid
    if isinstance(event, Relation):
        return replace(event, namespace="")
    if type(event) is tuple and event[:1] in (("commit",), ("prepare",)):
        event = (*event[:4], *event[5:])
    return tuple(map(_without_what_depends_on_blocks, event)) if type(event) in (tuple, list) else event


@dataclass
class Told:
    """What came of an outlet: rows, and the error that ended it, if one did."""

    rows: list[Row] = field(default_factory=list)
    error: str = ""

    def take(self, several: Iterable[Lines]) -> None:
        for lines in several:
            self.rows += zip(lines.lsn.tolist(), lines.xid.tolist(), lines.texts.to_bytes(), strict=True)

    def go_on(self, window: Pipeline, plugin: OutputPlugin) -> None:
        """With what the plugin gives of the window; nothing comes behind an error."""
        if not self.error:
            try:
                self.take(window.lines(plugin))
            except TailraceError as error:
                self.error = described(error)


def described(error: TailraceError) -> str:
    return f"{error.sqlstate} {error.message}"
