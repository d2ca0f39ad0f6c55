"""Tables that Spark's workers copy, each part in a session of its own that joins the driver's snapshot.

In: parts of tables, and what is to be done with each. Out: what that gave, in their order. The driver's sessions hold the snapshot and the tables'
locks all the while. A worker's comes later, and may have to wait behind somebody who waits for these; it may not reach the server at all, or find no
connection free. What it cannot copy it leaves to the driver, which was connected before, and has the server's own words for what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from functools import partial

from tailrace.client.copy_sessions import JoiningSessions
from tailrace.client.table_part import TablePart
from tailrace.copy_feed import CopyPiece, LeftPart
from tailrace.dataclass import dataclass
from tailrace.errors import PeerError, TailraceError, UsageError
from tailrace.feed import Result
from tailrace.pipeline.runner import Runner

_ROUNDS = 4
"""Parts for each worker that are asked for together."""


@dataclass(slots=True)
class CopyInWorkers:
    """State: whether it was told that workers leave parts, and why."""

    runner: Runner
    sessions: JoiningSessions
    warn: Callable[[str], None]
    _was_told: bool = False

    def run(self, work: Callable[[CopyPiece], Result], pieces: Sequence[CopyPiece]) -> Generator[Result | LeftPart]:
        """Who stops waits for some of them at most."""
        at_once = _ROUNDS * self.runner.workers
        for first in range(0, len(pieces), at_once):
            for result in self._some(work, [self._joining(each) for each in pieces[first : first + at_once]]):
                if isinstance(result, LeftPart) and not self._was_told:
                    self._was_told = True
                    self.warn(f"the driver copies what a worker could not: {result.why}")
                yield result

    def _some(self, work: Callable[[CopyPiece], Result], pieces: Sequence[CopyPiece]) -> Generator[Result | LeftPart]:
        """Where a worker dies, so does what others do beside it."""
        done = 0
        try:
            for result in self.runner.run(partial(_tried, work), pieces):
                done += 1
                yield result
        except TailraceError:
            raise
        except Exception as error:  # Spark's
            why, _, _ = str(error).strip().partition("\n")
            yield from [LeftPart(f"{type(error).__name__}: {why}")] * (len(pieces) - done)

    def _joining(self, piece: CopyPiece) -> CopyPiece:
        assert isinstance(piece.rows, TablePart), "a server's table"
        return replace(piece, rows=replace(piece.rows, sessions=self.sessions))


def _tried(work: Callable[[CopyPiece], Result], piece: CopyPiece) -> Result | LeftPart:
    """Runs in a worker."""
    try:
        return work(piece)
    except (PeerError, UsageError) as error:
        return LeftPart(error.message)
