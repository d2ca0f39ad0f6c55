"""The result of a statement, as a client has it.

A column has all that a RowDescription of the protocol says of it, but for what a table's own columns have beside (their table
and number, which are zero here): https://www.postgresql.org/docs/current/protocol-message-formats.html.
"""

from __future__ import annotations

import pyarrow as pa

from tailrace.dataclass import dataclass
from tailrace.types import oids


@dataclass(frozen=True, slots=True)
class TextColumn:
    """Its name, the oid of its type and the type's modifier, and cells as the type's output function prints them."""

    name: str
    cells: list[str | None]
    type: int = oids.TEXT
    typmod: int = -1


@dataclass(slots=True)
class Result:
    """Columns, if there are any, or the command tag alone; or the error that a server gave, as libpq words it. `table` has the
    rows before they were made text, of a statement that was computed here."""

    columns: list[TextColumn] | None = None
    tag: str = ""
    error: str = ""
    sqlstate: str = ""
    rows: int = 0
    table: pa.Table | None = None
