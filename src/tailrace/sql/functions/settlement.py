"""What is left to do once a statement has its result, and the slots that a statement has acquired.

A statement that fails must not have changed slots or origins. So a function that makes, moves or drops one only finds out what it
will return, and leaves a `Settlement`: what is to be done once the statement has succeeded. It travels: who carries it out, and in
which process, makes no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import field
from typing import Protocol

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.model import Lsn
from tailrace.replication import service
from tailrace.replication.acquired_slot import AcquiredSlot
from tailrace.replication.service import NewSlot
from tailrace.replication.waiting import finish
from tailrace.slots.origins import Origins
from tailrace.sql.source_database import SourceDatabase


@dataclass
class StatementSlots:
    """The slots that a statement has acquired, until `held` is closed, and where they are."""

    database: SourceDatabase
    held: ExitStack
    _acquired: dict[str, AcquiredSlot] = field(default_factory=dict)
    _owned: dict[str, ExitStack] = field(default_factory=dict)

    def __contains__(self, name: str) -> bool:
        return name in self._acquired

    def acquire(self, name: str) -> AcquiredSlot:
        """The slot, which is the statement's from now on. Raises UsageError as the server does."""
        if name not in self._acquired:
            self._acquired[name] = self.held.enter_context(self.database.acquired(self.database.slot(name)))
        return self._acquired[name]

    def own(self, name: str) -> None:
        """Nobody else has the slot, nor gets it, before the statement has ended or drops it."""
        owned = self._owned[name] = self.held.enter_context(ExitStack())
        owned.enter_context(self.database.location.owned(name))

    def drop(self, name: str) -> None:
        if name in self.database.temporary:
            self.database.temporary.drop(name)
            self.database.location.prune()
            return
        if name in self._owned:
            self._owned.pop(name).close()
        service.drop(self.database.location, name)


class Settlement(Protocol):
    def settle(self, slots: StatementSlots) -> None:
        """Do it. Raises UsageError where that cannot be done any more."""
        ...


def settle(settlements: Iterable[Settlement | None], slots: StatementSlots) -> None:
    """All that are left of a statement, in the order of its calls."""
    for each in settlements:
        if each is not None:
            each.settle(slots)


@dataclass(frozen=True, slots=True)
class SlotMade:
    new: NewSlot

    def settle(self, slots: StatementSlots) -> None:
        slots.database.temporary.make(self.new, slots.database.location)


@dataclass(frozen=True, slots=True)
class SlotDropped:
    name: str

    def settle(self, slots: StatementSlots) -> None:
        slots.drop(self.name)


@dataclass(frozen=True, slots=True)
class SlotMoved:
    """To `upto`, by a statement that found it at `stood`, if it minds that: its rows are the statement's alone."""

    name: str
    upto: Lsn
    stood: Lsn | None = None

    def settle(self, slots: StatementSlots) -> None:
        """A slot that the statement does not hold any more may have been moved by somebody else; raises UsageError (55000)."""
        is_held = self.name in slots
        acquired = slots.acquire(self.name)
        now = acquired.slot.confirmed_flush_lsn
        if not is_held and self.stood is not None and now != self.stood:
            raise UsageError(
                f'replication slot "{self.name}" was moved from {self.stood} to {now} while the statement ran',
                hint="Its rows were given to somebody else, too. Repeat the statement.", sqlstate="55000",
            )  # fmt: skip
        if not is_held:
            acquired.check_ahead(self.upto)
            finish(acquired.reach(self.upto))
        acquired.confirm(self.upto)


@dataclass(frozen=True, slots=True)
class OriginsChanged:
    change: Callable[[Origins], Origins]

    def settle(self, slots: StatementSlots) -> None:
        slots.database.origins.change(self.change)
