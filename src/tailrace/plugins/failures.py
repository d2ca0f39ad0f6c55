"""Changes for which a plugin raises: which is the first, and what is raised for it (`output_plugin_error_callback` in
`replication/logical/logical.c`).

A server raises such an error when it comes to the change, and has sent what committed before. Workers know nothing of that order,
and meet changes of many transactions at once. So they format what they can, and with it goes a `Failure` to the driver, which
raises it where that transaction would stand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.decode import Batch
from tailrace.decode.damaged import first_that_fails, of_a_row
from tailrace.errors import CorruptWal, InsufficientLogging, MissingHistory, PluginError, TailraceError, UsageError
from tailrace.model import Lsn
from tailrace.plugins.output_plugin import OutputPlugin

Made = TypeVar("Made")

_OF_A_CHANGE = (UsageError, InsufficientLogging, MissingHistory, PluginError)
"""What is said of a change. That a log is damaged is not, and has no place in its order."""


@dataclass(frozen=True, slots=True, order=True)
class ChangePlace:
    """Where a change stands among all."""

    ordinal: int
    lsn: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Failure:
    """What the plugin's callback for the change at this place raises."""

    place: ChangePlace
    error: TailraceError
    callback: str = "change"

    def raised(self, plugin: OutputPlugin, *, streamed: bool) -> TailraceError:
        """As the reader of the plugin's output gets it."""
        return in_callback(self.error, plugin, f"stream_{self.callback}" if streamed else self.callback, Lsn(self.place.lsn))


def first(one: Failure | None, other: Failure | None) -> Failure | None:
    """The one that stands before the other."""
    if one is None or other is None:
        return one or other
    return min(one, other, key=lambda failure: failure.place)


def in_callback(error: TailraceError, plugin: OutputPlugin, callback: str, lsn: Lsn) -> TailraceError:
    """The error with the server's CONTEXT, behind what it has of its own; of a slot, if there is one. A callback that was called
    for the change has said so itself."""
    if _is_said(error, plugin):
        return error
    found = copy(error)
    found.context = "\n".join(filter(None, [error.context, _where(plugin, callback, f"associated LSN {lsn}")]))
    found.lsn = lsn
    return found


def start_up(plugin: OutputPlugin, options: Mapping[str, str | None], major: int, *, is_init: bool = False) -> None:
    """Have a plugin take its options; `is_init` says that a slot is created for it. What it refuses is raised with the server's
    CONTEXT."""
    try:
        plugin.startup(options, major, is_init=is_init)
    except TailraceError as error:
        if not _is_said(error, plugin):
            error.context = "\n".join(filter(None, [error.context, _where(plugin, "startup")]))
        raise


def _is_said(error: TailraceError, plugin: OutputPlugin) -> bool:
    return f'output plugin "{plugin.name}"' in error.context


def _where(plugin: OutputPlugin, callback: str, *more: str) -> str:
    slot = [f'slot "{plugin.context.slot}"'] if plugin.context.slot else []
    return ", ".join([*slot, f'output plugin "{plugin.name}"', f"in the {callback} callback", *more])


def made_before_failure(batch: Batch, make: Callable[[Batch], list[Made]]) -> tuple[list[Made], Failure | None]:
    """What `make` makes of the changes; where it raises for one, of those of transactions before, and the first for which it
    does. It must raise for each change by itself, whichever others it is given."""
    try:
        return make(batch), None
    except CorruptWal as error:
        raise of_a_row(error, batch, lambda rows: make(batch.take(rows))) from error.__cause__
    except _OF_A_CHANGE as error:
        raised: TailraceError = error
    order = np.lexsort((batch.sequence, batch.lsn, batch.ordinal))
    row, found = _first_that_raises(batch, order, make)
    place = ChangePlace(*(int(column[row]) for column in (batch.ordinal, batch.lsn, batch.sequence)))
    before = np.flatnonzero(batch.ordinal < place.ordinal)
    return make(batch.take(before)) if len(before) else [], Failure(place, found or raised)


def _first_that_raises(
    batch: Batch, order: NDArray[np.int64], make: Callable[[Batch], list[Made]]
) -> tuple[int, TailraceError | None]:
    """The first of these rows for which it raises, of which one is known, and what."""
    found = first_that_fails(len(order), lambda some: _raised(batch.take(np.sort(order[some])), make) is not None)
    return int(order[found]), _raised(batch.take(order[found : found + 1]), make)


def _raised(batch: Batch, make: Callable[[Batch], list[Made]]) -> TailraceError | None:
    try:
        make(batch)
    except _OF_A_CHANGE as error:
        return error
    return None
