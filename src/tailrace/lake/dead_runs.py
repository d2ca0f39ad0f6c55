"""What killed runs left in a directory of tables is removed by the next run, which knows by the directory's lock that they are dead.

In: a directory whose lock is held, and in which a killed run has left its staging folder. Out: no file of ours in its folders that no version of a
table needs, and no folder that had only such.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path

from tailrace.errors import TailraceError
from tailrace.lake.catalog import CATALOG
from tailrace.lake.delta.removal import remove_dead_runs
from tailrace.lake.table import TABLE_ERRORS
from tailrace.storage.local_store import LocalStore

logger = logging.getLogger(__name__)


def remove_leftovers(directory: Path) -> int:
    """How many files that were. What cannot be read is passed over: the run itself will say so. A lake with a catalog is left alone, since its runs
    hold no lock."""
    if (directory / CATALOG).exists():
        return 0
    count = 0
    for folder in directory.iterdir():
        if folder.name.startswith("_") or not folder.is_dir():
            continue
        try:
            found = remove_dead_runs(LocalStore(folder))
        except (TailraceError, *TABLE_ERRORS) as error:
            logger.warning("what killed runs left in %s stays: %s", folder, error)
            continue
        if found:
            for empty in (folder / "_dv", folder / "_delta_log", folder):
                with suppress(OSError):  # it is not empty, or not there
                    empty.rmdir()
            logger.info("%s files that killed runs left in %s were removed", found, folder)
        count += found
    return count
