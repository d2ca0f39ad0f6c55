"""A part of a server's table: its rows as Arrow, copied in one of several sessions, or read from its pages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from queue import SimpleQueue
from typing import Any

from tailrace.catalog.names.qualified_names import write_table_name
from tailrace.client.block_ranges import BlockRange
from tailrace.client.catalog_files import as_ours
from tailrace.client.copy_out import copied_rows
from tailrace.client.copy_rate import CopyRate
from tailrace.client.copy_sessions import BeginAnew, JoiningSessions, from_item
from tailrace.client.table_pages import TablePages
from tailrace.dataclass import dataclass
from tailrace.errors import PeerError
from tailrace.wire.copied_rows import CopiedRows


@dataclass(frozen=True, slots=True)
class TablePart:
    """Some of a table's rows, which whoever reads them copies in one of the `sessions`. With `keeps_unfit`, rows that the lake's columns cannot hold
    are given as they are; where they are an error and others go on, `keeps_session` leaves them the session."""

    sessions: SimpleQueue[Any] | JoiningSessions
    rows: CopiedRows
    where: str | None
    blocks: BlockRange
    keeps_unfit: bool = False
    rate: CopyRate | None = None
    pages: TablePages | None = None
    keeps_session: bool = False

    def __call__(self) -> Iterator[Any]:
        """Record batches, and rows that do not fit. Raises PeerError as the server does."""
        import psycopg  # noqa: PLC0415 - only those who connect need it

        session = self.sessions.get()
        copied = partial(self._copied, session)
        try:
            if isinstance(self.sessions, JoiningSessions):
                self.sessions.lock(session, self.rows.relation)
            self._check_name(session)
            if self.pages is None:
                yield from copied(self.blocks.where(self.where))
            else:
                yield from self.pages.rows(session, self.blocks, self.rows.relation, self.rows.style, copied, self.rate)
            self._check_name(session)
        except psycopg.Error as error:
            raise as_ours(error, "", f"table {self.rows.relation}") from error
        except PeerError as error:
            error.context = error.context or f"table {self.rows.relation}"
            raise
        finally:
            self.sessions.put(session)

    def _check_name(self, session: Any) -> None:
        """Raise BeginAnew where another table has the name, or none: a COPY means who has it by now, whatever the snapshot, and ALTER SCHEMA … RENAME
        waits for no lock on a table."""
        relation = self.rows.relation
        name = write_table_name(relation.schema, relation.name)
        if session.execute("SELECT pg_catalog.to_regclass(%s)::oid::bigint", (name,)).fetchone()[0] != relation.oid:
            raise BeginAnew(f"table {relation} got another name while it was copied")

    def _copied(self, session: Any, where: str) -> Iterator[Any]:
        relation = self.rows.relation
        table = from_item(relation.kind, relation.schema, relation.name)
        command = f"COPY (SELECT {self.rows.select_list} FROM {table}{where}) TO STDOUT (FORMAT binary)"
        copied = copied_rows(session, command, self.rows.fields, self.rate, keeps_session=self.keeps_session)
        with closing(copied) as found:
            for rows in found:
                yield from self.rows.fitting(rows) if self.keeps_unfit else [self.rows.batch(rows)]
