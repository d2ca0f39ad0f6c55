"""Whether the log is still the one that a table was made from: a server may have been put back to an earlier copy of itself, and have written other
things since; or it was promoted below what the table has seen.

In: a feed, and a table's position with what stood there. Out: nothing; or the error, which says what the table has seen of a history that is gone.
"""

from __future__ import annotations

from collections.abc import Callable

from tailrace.errors import MissingHistory, TailraceError, UsageError
from tailrace.feed import Span
from tailrace.lake.position import Position
from tailrace.model import Lsn
from tailrace.wal.stood import Difference, Kind, Stood

_HINT = (
    "The server was put back to an earlier copy of itself, or lost the end of its log: the table has seen a history that is gone. "
    "Undo that, or make the table anew, in another directory."
)


def gone(span: Span, difference: Callable[[Stood], Difference | None], position: Position, name: str) -> TailraceError | None:
    """What is wrong with going on from there; None if nothing is, as far as can be told. On another timeline it must be told. `difference` is the
    feed's."""
    stood = position.stood
    found = difference(stood) if stood is not None else None
    if position.timeline != span.timeline and (stood is None or (found is not None and found.kind is Kind.UNKNOWN)):
        return UsageError(
            f"table {name} follows timeline {position.timeline}; whether timeline {span.timeline} is the same up to {position.lsn} cannot be told",
            hint="Give older WAL, or make the table anew, in another directory.", sqlstate="55000", lsn=position.lsn,
        )  # fmt: skip
    if stood is None or found is None or found.kind is Kind.UNKNOWN:
        return None
    if found.kind is Kind.SHORT:
        return MissingHistory(
            f"table {name} has all changes before {stood.upto}, but the log ends at {found.at}",
            detail=_detail(stood), hint=_HINT, context=found.why, lsn=stood.last, sqlstate="55000",
        )  # fmt: skip
    return UsageError(
        f"table {name} has all changes before {stood.upto}, but the log has another record at {found.at} than was read there",
        detail=_detail(stood), hint=_HINT, context=found.why, lsn=stood.last, sqlstate="55000",
    )  # fmt: skip


def _detail(stood: Stood) -> str:
    return f"The last record before {stood.upto} was at {Lsn(stood.last)}, with checksum {stood.crc:08X}."
