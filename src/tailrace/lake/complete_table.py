"""`_tailrace/complete`: a table of one row, for readers of a lake, which says up to which LSN and commit time all of its tables are complete.

In: the lake's catalog, once it was written. Out: a version of the table that says the same. The order is tables, catalog, this table: each may lag
behind the one before it, and none leads. A run that is killed in between leaves a row that lags, and the next run brings it up when it begins. Of
runs that write to one lake at once none puts the row back: a version follows the one that was read, and only if it says more.

A lake that is written to every second has 86,400 versions of it a day: what was in them is kept for an hour, and then removed.
"""

from __future__ import annotations

import logging
import uuid
from typing import Any

import pyarrow as pa

from tailrace.dataclass import dataclass
from tailrace.errors import Overtaken, TailraceError
from tailrace.lake.catalog import LakeCatalog
from tailrace.lake.files.file_changes import FileChanges
from tailrace.lake.formats import DELTA, format_named
from tailrace.lake.table import CommitNote, TableVersion
from tailrace.model import datetime_of
from tailrace.storage.store import Store

logger = logging.getLogger(__name__)

COMPLETE = "_tailrace/complete"
_POSITION = "tailrace/complete"
"""The application transaction that has the LSN as a number: nobody needs to read the row to know whether it lags."""
_SCHEMA = pa.schema(
    [("lsn", pa.string()), ("position", pa.int64()), ("commit_time", pa.timestamp("us", "UTC")), ("tables", pa.int32())]
)
_KEPT_FOR = 3600.0
"""Seconds."""
_CLEAN_EVERY = 20
"""Versions, the one before a checkpoint is made of the table, which forgets files that went an hour ago."""
_TRIES = 20


@dataclass(slots=True)
class CompleteTable:
    """State: the version that was read or written last."""

    found: TableVersion

    @classmethod
    def of(cls, lake: Store, format: str = DELTA) -> CompleteTable:
        """In the format of the lake's tables."""
        return cls(format_named(format).none(lake.below(COMPLETE)))

    def advance(self, catalog: LakeCatalog) -> None:
        """Say what the catalog says, if that is more. Raises Overtaken where others keep coming in between."""
        if self._says() >= catalog.complete:
            return
        for tries in range(_TRIES):
            self.found = self.found.refreshed()
            if self._says() >= catalog.complete:
                return
            try:
                self.found = self._replaced(catalog)
                self._clean_up()
                return
            except Overtaken:
                if tries + 1 == _TRIES:
                    raise

    def _clean_up(self) -> None:
        """Now and then. Without it the table is as right as with it."""
        if (self.found.version + 2) % _CLEAN_EVERY == 0:
            try:
                self.found = self.found.remove_unneeded()[0]
            except (TailraceError, OSError) as error:
                logger.warning("old versions of the table in %s stay: %s", self.found.store.url, error)

    def _says(self) -> int:
        number = self.found.open().number(_POSITION) if self.found.is_there else None
        return -1 if number is None else number

    def _replaced(self, catalog: LakeCatalog) -> TableVersion:
        data = self.found.data_files(_SCHEMA, uuid.uuid4().hex)
        try:
            added = (data.write(pa.Table.from_pylist([_row_of(catalog)], _SCHEMA)),)
            note = CommitNote(numbers={_POSITION: int(catalog.complete)}, kept_for=_KEPT_FOR)
            if not self.found.is_there:
                return self.found.make("complete", "complete", _SCHEMA, note, FileChanges(added=added))
            removed = tuple(self.found.open().files)
            return self.found.commit("complete", FileChanges(removed, added), note)
        except Overtaken:
            data.abandon()
            raise


def _row_of(catalog: LakeCatalog) -> dict[str, Any]:
    return {
        "lsn": str(catalog.complete),
        "position": int(catalog.complete),
        "commit_time": datetime_of(catalog.committed) if catalog.committed else None,
        "tables": sum(1 for table in catalog.tables.values() if table.dropped is None),
    }
