"""Writers take the rows that a plugin prints to a destination (the manual's "Logical Decoding Output Writers"): their base class, and a registry by
name.

A writer is found by its name in the entry point group `tailrace.writers`, which names a subclass of `Writer`, or a function that
takes `Rows`. `replication/receiving.py` calls it:

    begin │ write … write, whole, write … │ durable_upto, slot confirmed │ write …

What `durable_upto` has returned is never given again. What was written behind it may have been kept when a process dies, and
comes again: a writer that wants it once takes it away in `begin`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import entry_points
from typing import NamedTuple

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.model import Lsn
from tailrace.plugins.lines import Lines
from tailrace.plugins.output_plugin import OutputPlugin
from tailrace.slots.consumer_session import ConsumerSession
from tailrace.slots.slot import Slot

GROUP = "tailrace.writers"


class Row(NamedTuple):
    """As pg_logical_slot_get_binary_changes has it: `data` is what the plugin wrote, in the encoding of its output."""

    lsn: Lsn
    xid: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows in order; iterated over, one after another. `lines` has them as columns, and `plugin` printed them."""

    lines: Lines
    plugin: OutputPlugin

    def __len__(self) -> int:
        return len(self.lines)

    def __iter__(self) -> Iterator[Row]:
        texts, ends = self.lines.texts.data.tobytes(), self.lines.texts.offsets.tolist()
        for lsn, xid, start, stop in zip(self.lines.lsn.tolist(), self.lines.xid.tolist(), ends, ends[1:], strict=False):
            yield Row(Lsn(lsn), xid, texts[start:stop])


class Writer(ABC):
    """Where rows go. `begins_at` says up to where its destination has them, and `session` what the consumer knew there."""

    begins_at: Lsn
    session: ConsumerSession

    def __init__(self, options: Mapping[str, str]) -> None:
        """Raises UsageError for options that the writer does not know; this one knows none."""
        for name in options:
            raise UsageError(f'unrecognized writer option "{name}"', sqlstate="22023")

    def begin(self, slot: Slot) -> None:
        """Open the destination, once; sets `begins_at` and `session`. Where it does not say how far it is, the slot does."""
        self.begins_at, self.session = slot.confirmed_flush_lsn, ConsumerSession()
        self._whole = self.begins_at

    @abstractmethod
    def write(self, rows: Rows) -> None:
        """Some MB of rows at most, which may end within a transaction."""

    def flush(self) -> None:  # noqa: B027 - not every writer has something to do
        """There are no more rows for now: others may read what was written."""

    def whole(self, lsn: Lsn, session: ConsumerSession) -> None:
        """All that commits before `lsn` has been written; whoever goes on from there needs `session`, whose `facts()` are for
        JSON."""
        self._whole = lsn

    @abstractmethod
    def durable_upto(self) -> Lsn:
        """Have what was whole outlive any crash, with how far that is; returns that LSN, which the slot then confirms. Called
        every so often, and at the end, also where `write` failed."""

    def reopen(self) -> None:  # noqa: B027 - the same
        """SIGHUP came: files may have been moved away."""

    def close(self) -> None:  # noqa: B027 - the same
        """Close the destination: no more rows come."""


class Calling(Writer):
    """Calls a function with rows. They count once it returns and their transaction is whole; after a crash some come again."""

    def __init__(self, function: Callable[[Rows], object], options: Mapping[str, str] | None = None) -> None:
        super().__init__(options or {})
        self._function = function

    def write(self, rows: Rows) -> None:
        self._function(rows)

    def durable_upto(self) -> Lsn:
        return self._whole


def writer_named(name: str, options: Mapping[str, str]) -> Writer:
    """A new writer. Raises UsageError if there is none of that name, or for its options."""
    entries = entry_points(group=GROUP)
    for entry in entries.select(name=name):
        kind = entry.load()
        if isinstance(kind, type) and issubclass(kind, Writer):
            return kind(options)
        if callable(kind) and not isinstance(kind, type):
            return Calling(kind, options)
        raise UsageError(f'"{name}" of entry point group {GROUP} is neither a Writer nor a function', sqlstate="42809")
    known = ", ".join(sorted(entries.names)) or "none is installed"
    raise UsageError(f'writer "{name}" does not exist', hint=f"Writers: {known}.", sqlstate="42704")
