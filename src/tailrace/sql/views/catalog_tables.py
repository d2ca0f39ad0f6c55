"""The catalogs under a snapshot as tables, and what functions say of their objects, as sessions with these parameters see them.

In: a snapshot, and what values look like. Out: Arrow tables. What was made once is kept, for as long as the snapshot is; several threads may ask.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from tailrace.model import PgType
from tailrace.publications.database_snapshot import DatabaseSnapshot
from tailrace.publications.publication import Publication
from tailrace.sql.views.catalog_objects import CatalogObjects
from tailrace.sql.views.catalog_values import catalog_array
from tailrace.sql.views.view_columns import catalog_columns
from tailrace.types.style import TextStyle


class CatalogTables:
    """Those of `here`. The search path of its history is that of `style`."""

    def __init__(self, here: DatabaseSnapshot, style: TextStyle) -> None:
        self.here = here
        self.objects = CatalogObjects(here.catalogs, style)
        self._style = replace(style, names=self.objects.name_of)
        self._tables: dict[str, pa.Table] = {}

    @cached_property
    def of_source(self) -> list[Publication]:
        """The publications that the source has itself, by name."""
        return self.here.of_source

    def table(self, name: str) -> pa.Table:
        """The rows of a tracked catalog that a transaction sees that begins there."""
        if name not in self._tables:
            self._tables[name] = self._read(name)
        return self._tables[name]

    def _read(self, name: str) -> pa.Table:
        columns, history = catalog_columns(name, self.here.major), self.here.catalogs.history
        table = history.table_with(name, tuple(column for column, _ in columns))
        rows = table.rows.seen(np.arange(len(table.rows)), int(self.here.lsn), -1)
        key = ("attnum", "attrelid") if name == "pg_attribute" else (columns[0][0],)
        rows = rows[
            np.lexsort([table.of(column, rows) for column in key])
        ]  # clients take columns in order where they ask for none

        def type_of(oid: int) -> PgType:
            return history.type_at(oid, int(self.here.lsn))

        arrays = [catalog_array(table.of(column, rows), kind, type_of, self._style) for column, kind in columns]
        return pa.Table.from_arrays(arrays, names=[column for column, _ in columns])
