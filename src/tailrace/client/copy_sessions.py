"""Sessions in which tables are copied, and how one that comes later joins the snapshot of the others.

In: a connection string and a database, or what another session was connected by. Out: psycopg's connection, in autocommit, which prints values as the
log's changes have them. `JoiningSessions` gives those of workers in other processes, one for each part that is copied there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import field
from typing import Any, Self

from tailrace.catalog.names.qualified_names import write_table_name
from tailrace.client.catalog_files import as_ours
from tailrace.client.conninfo import conninfo_of, words_of
from tailrace.client.running_transactions import BEGIN, WITHOUT_TIMEOUTS
from tailrace.dataclass import dataclass
from tailrace.errors import PeerError
from tailrace.model import Relation
from tailrace.wire.copied_rows import SETTINGS

LOCK_MILLISECONDS = 1000
"""That a session waits for the lock of a table at most: who has it may wait for another of ours."""
_IS_HELD = "SELECT EXISTS (SELECT FROM pg_catalog.pg_locks WHERE pid = %s AND locktype = 'relation' AND granted AND relation::bigint = %s)"


class BeginAnew(PeerError):
    """What was copied is of no use; who begins anew may succeed."""

    default_sqlstate = "40001"


@contextmanager
def copy_session(dsn: str, database: str) -> Iterator[Any]:
    """Raises psycopg's errors."""
    with closing(_connected(conninfo_of(dsn, dbname=database))) as connection:  # which ends its transaction, too
        yield connection


@dataclass(frozen=True, slots=True)
class JoiningSessions:
    """Taken and put back as those of a queue are. They join the snapshot that was `exported` by a session of the `holder`, a process of the server's,
    which holds it and the locks of the tables. Who waits here for a lock may wait behind somebody who waits for that session, which the server cannot
    know: after a second it is an error."""

    words: str = field(repr=False)
    """What leads to the server of the others: environment, service file and password file are not a worker's."""
    database: str
    exported: str
    holder: int

    @classmethod
    def of(cls, session: Any, database: str, exported: str, holder: int) -> Self:
        return cls(words_of(session), database, exported, holder)

    def get(self) -> Any:
        """Raises PeerError as the server does."""
        import psycopg  # noqa: PLC0415 - only those who connect need it

        try:
            session = _connected(self.words)
        except psycopg.Error as error:
            raise as_ours(error, self.database) from error
        try:
            session.execute(BEGIN)
            session.execute(f"SET TRANSACTION SNAPSHOT '{self.exported}'")
            session.execute(f"SET LOCAL lock_timeout = {LOCK_MILLISECONDS}")
        except psycopg.Error as error:
            session.close()
            raise as_ours(error, self.database) from error
        return session

    def lock(self, session: Any, relation: Relation) -> None:
        """Hold a lock on the table for the rest of the session. Raises PeerError where nobody may have held one since the snapshot was taken, and the
        table may be another by now."""
        session.execute(f"LOCK TABLE {from_item(relation.kind, relation.schema, relation.name)} IN ACCESS SHARE MODE")
        if not session.execute(_IS_HELD, (self.holder, relation.oid)).fetchone()[0]:
            raise PeerError("the session that holds the snapshot and the tables' locks is gone", sqlstate="08006")

    def put(self, session: Any) -> None:
        session.close()


def from_item(kind: str, schema: str, name: str) -> str:
    """A table of that relkind, for FROM and LOCK TABLE: by itself, or, if it is partitioned, with its partitions."""
    return f"{'ONLY ' if kind == 'r' else ''}{write_table_name(schema, name)}"


def _connected(words: str) -> Any:
    import psycopg  # noqa: PLC0415 - see above

    words = conninfo_of(words, client_encoding="UTF8")
    connection = psycopg.connect(words, autocommit=True, fallback_application_name="tailrace")
    try:
        for name, value in SETTINGS.items():
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        connection.execute(WITHOUT_TIMEOUTS)
    except BaseException:
        connection.close()
        raise
    return connection
