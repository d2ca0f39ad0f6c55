"""The transaction block that a client is in: what has happened in it, and its snapshot of a live server, if it has one.

Blocks begin and end; whatever is asked for in one is as it is at that moment, but for the rows of tables that are copied under the snapshot.
"""

from __future__ import annotations

from dataclasses import field

from tailrace.client.source_session import SourceSession
from tailrace.dataclass import dataclass
from tailrace.errors import UsageError


@dataclass(slots=True)
class TransactionBlock:
    """`has_queried` says that a statement has needed a snapshot already; `savepoints` are those that are open, by name; `source` is the session on
    the server that has the block's snapshot, which `is_lost` where a statement has failed since."""

    has_queried: bool = False
    savepoints: list[str] = field(default_factory=list)
    source: SourceSession | None = None
    is_lost: bool = False

    @property
    def is_untouched(self) -> bool:
        """Whether it may still be given a snapshot."""
        return not (self.has_queried or self.savepoints)

    def release(self, name: str) -> None:
        """A savepoint, and those within it. Raises UsageError (3B001)."""
        del self.savepoints[self._place(name) :]

    def roll_back_to(self, name: str) -> None:
        """It is open again, and none within it. Raises UsageError (3B001)."""
        del self.savepoints[self._place(name) + 1 :]

    def _place(self, name: str) -> int:
        """Of several of a name the last is meant."""
        if name not in self.savepoints:
            raise UsageError(f'savepoint "{name}" does not exist', sqlstate="3B001")
        return len(self.savepoints) - 1 - self.savepoints[::-1].index(name)

    def let_go(self) -> None:
        """Of its snapshot."""
        source, self.source = self.source, None
        if source is not None:
            self.is_lost = True
            source.let_go()
