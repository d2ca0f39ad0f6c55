"""Processes that write to one directory of Delta tables at once: runs of ours, and what others do to a table with delta-rs.

Each function is for a process pool. A feed is opened once a process; `at` is the moment when all are to begin.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from tailrace.errors import UsageError
from tailrace.lake import changelog, mirror
from tailrace.lake.reading import read_table
from tailrace.lake.target_tables import TroubleWarning
from tailrace.model import Lsn
from tailrace.pipeline import open_feed

WRITERS: dict[str, Callable[..., Any]] = {"mirror": mirror.mirror, "changes": changelog.append_changes}
_LOCK = mirror.one_run
_feeds: dict[tuple[str, int | None], Any] = {}


def open_feeds(source: str, ends: list[int], at: float) -> None:
    """So that no run has to; and be busy until `at`, so that each process of a pool gets this once."""
    for upto in [*ends, None]:
        _feed(source, upto)
    time.sleep(max(0.0, at - time.time()))


def _feed(source: str, upto: int | None) -> Any:
    if (source, upto) not in _feeds:
        _feeds[source, upto] = open_feed(source, "postgres", upto_lsn=None if upto is None else Lsn(upto))
    return _feeds[source, upto]


def write(
    kind: str, source: str, upto: int | None, folder: str, *, locked: bool = True, at: float = 0, progress: Any = None
) -> list[Any]:
    """What a run of `mirror` or `append_changes` up to this LSN says of each table."""
    feed = _feed(source, upto)
    for module in (mirror, changelog):
        module.one_run = _LOCK if locked else lambda directory: nullcontext()  # type: ignore[assignment]
    time.sleep(max(0.0, at - time.time()))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TroubleWarning)
            found: list[Any] = WRITERS[kind](feed, folder, progress=progress)
            return found
    finally:
        for module in (mirror, changelog):
            module.one_run = _LOCK


def act(name: str, folder: str, times: int = 1, at: float = 0, pause: float = 0) -> int:
    """Do something to all tables below `folder`, some times; how often it was done."""
    time.sleep(max(0.0, at - time.time()))
    done = 0
    for _ in range(times):
        for log in sorted(Path(folder).glob("*/_delta_log")):
            try:
                FOREIGN[name](log.parent)
                done += 1
            except (DeltaError, OSError, UsageError):  # it lost, or the folder has another name by now
                pass
        time.sleep(pause)
    return done


def compact(folder: Path) -> None:
    DeltaTable(folder).optimize.compact()


def overwrite(folder: Path) -> None:
    """All rows written anew as they are, as a job does that sorts them."""
    table = DeltaTable(folder)
    write_deltalake(table, read_table(folder), mode="overwrite", commit_properties=CommitProperties(max_commit_retries=0))


def checkpoint(folder: Path) -> None:
    table = DeltaTable(folder)
    table.create_checkpoint()
    table.cleanup_metadata()


def vacuum(folder: Path) -> None:
    DeltaTable(folder).vacuum(0, dry_run=False, enforce_retention_duration=False)


def gather(folder: Path) -> None:
    """Rows in fewer files, and those of before gone at once."""
    compact(folder)
    vacuum(folder)


FOREIGN: dict[str, Callable[[Path], None]] = {
    "compact": compact,
    "overwrite": overwrite,
    "checkpoint": checkpoint,
    "vacuum": vacuum,
    "gather": gather,
}
