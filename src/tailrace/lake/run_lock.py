"""One run writes to a directory at a time, where its file system has locks: the next one waits, and finds done what was done.

That saves work, and folders from being renamed under somebody who writes. What keeps tables right is not the lock but how they
are committed to (`lake/delta/table.py`): without it, of two runs that meet in a table one is told so.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tailrace.lake.dead_runs import remove_leftovers
from tailrace.lake.staging import has_staging
from tailrace.storage.file_lock import FileLock

logger = logging.getLogger(__name__)


@contextmanager
def one_run(directory: Path) -> Iterator[bool]:
    """Hold the lock of `directory`, once nobody else does; whether there are locks. The folder itself is locked, so no file of
    ours lies in it. Who has the lock knows that all other runs are over, and removes what they left."""
    lock = None
    try:
        lock = FileLock.take(directory)
        if lock is None:
            logger.info("waiting for another run that writes to %s", directory)
            lock = FileLock.wait(directory)
    except OSError as error:
        logger.warning("no lock on %s (%s): of two runs that meet in a table, one will have to be run again", directory, error)
    try:
        if lock is not None and has_staging(directory):
            remove_leftovers(directory)
        yield lock is not None
    finally:
        if lock is not None:
            lock.release()
