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
from tailrace.errors import PeerError
from tailrace.feed import Result
from tailrace.pipeline.runner import Runner


@dataclass(slots=True)
class CopyInWorkers:
    """State: whether it was told that workers leave parts, and why."""

    runner: Runner
    sessions: JoiningSessions
    warn: Callable[[str], None]
    _was_told: bool = False

    def run(self, work: Callable[[CopyPiece], Result], pieces: Sequence[CopyPiece]) -> Generator[Result | LeftPart]:
        for result in self.runner.run(partial(_tried, work), [self._joining(each) for each in pieces]):
            if isinstance(result, LeftPart) and not self._was_told:
                self._was_told = True
                self.warn(f"the driver copies what a worker could not: {result.why}")
            yield result

    def _joining(self, piece: CopyPiece) -> CopyPiece:
        assert isinstance(piece.rows, TablePart), "a server's table"
        return replace(piece, rows=replace(piece.rows, sessions=self.sessions))


def _tried(work: Callable[[CopyPiece], Result], piece: CopyPiece) -> Result | LeftPart:
    """Runs in a worker."""
    try:
        return work(piece)
    except PeerError as error:
        return LeftPart(error.message)
