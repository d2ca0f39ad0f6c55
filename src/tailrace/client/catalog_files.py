"""The files of a running server that say what its tables are, read over SQL: a base backup of a few files.

In: a connection string, a database, and the archive into which the server's log is being received. Out: a data directory with these files alone, of
which a catalog state can be captured. A page that changed since the checkpoint's redo pointer has its image in the log behind that, so pages that are
torn or old do not matter, as long as the log is there from the redo pointer on to where the server was when the last file had been read.

A role needs LOGIN, and in the database EXECUTE on pg_read_binary_file(text, bigint, bigint, boolean); nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tailrace.catalog.data_directory.commit_status import XIDS_PER_STATUS_FILE
from tailrace.catalog.data_directory.control_file import ControlFile, read_control
from tailrace.catalog.data_directory.multixacts import Multixacts
from tailrace.catalog.pages.catalog_files import FileKey
from tailrace.client.conninfo import conninfo_of, libpq_words, used_by
from tailrace.client.refusals import remedy_of
from tailrace.dataclass import dataclass
from tailrace.errors import PeerError, TailraceError, UsageError
from tailrace.model import Lsn
from tailrace.storage.segment import segment_name
from tailrace.wal.index import TRACKED_CATALOGS

_PIECE = 1 << 20
_BEFORE = 32 << 20
"""Bytes of log that are of use before an LSN: transactions are whole from where the log says which of them run."""
_CONTROL, _CONTROL_BYTES = "global/pg_control", 8192

_MULTIXACTS_PER_FILE, _MEMBERS_PER_FILE = 1 << 16, 52352
READING = "pg_read_binary_file(text,bigint,bigint,boolean)"
_NO_DATABASE = "3D000"
_CATALOGS = (
    "pg_class WHERE oid = ANY(%s) OR relkind = 'r' AND "
    "reloptions && ARRAY['user_catalog_table=true', 'user_catalog_table=on', 'user_catalog_table=1', 'user_catalog_table=yes']"
)
"""The catalogs that are tracked, and user catalog tables."""
_MOMENT = 0.01
_SHUT_OUT = ("no pg_hba.conf entry", "pg_hba.conf rejects connection", "permission denied for database")
"""What a server says to whom it does not let into a database; libpq tells no SQLSTATE of a connection that was refused."""


class NotLetIn(PeerError):
    """The server does not let this role into the database. Its log is another matter."""


@dataclass(slots=True)
class ServerFiles:
    """A connection that reads files of the server's data directory, by paths relative to it."""

    connection: Any

    @classmethod
    @contextmanager
    def connected(cls, dsn: str, database: str = "") -> Iterator[ServerFiles]:
        """To this database, or the one that the connection string names. Raises PeerError as the server does."""
        import psycopg  # noqa: PLC0415 - only those who connect need it

        named = {"dbname": database} if database else {}
        words = conninfo_of(dsn, **named, client_encoding="UTF8")
        try:
            with psycopg.connect(words, autocommit=True, fallback_application_name="tailrace") as connection:
                connection.execute("SET search_path = pg_catalog")
                yield cls(connection)
        except psycopg.Error as error:
            raise as_ours(error, database) from error

    def read(self, path: str) -> bytes | None:
        """All of a file; None where there is none."""
        pieces: list[bytes] = []
        while True:
            piece = self.piece(path, _PIECE * len(pieces), _PIECE)
            if piece is None:
                return b"".join(pieces) if pieces else None
            pieces.append(piece)
            if len(piece) < _PIECE:
                return b"".join(pieces)

    def piece(self, path: str, offset: int, length: int) -> bytes | None:
        """Some of a file."""
        rows = self.rows("SELECT pg_read_binary_file(%s, %s, %s, true)", path, offset, length)
        return None if rows[0][0] is None else bytes(rows[0][0])

    def rows(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return self.connection.execute(query, parameters, binary=True).fetchall()

    def control(self) -> ControlFile:
        """The server's pg_control, as it is."""
        return read_control(self.piece(_CONTROL, 0, _CONTROL_BYTES) or b"", _CONTROL)

    def log_begins(self, control: ControlFile, before: Lsn) -> Lsn:
        """The first byte of the segments that are there whole up to this LSN, of some before it; the LSN itself where none is."""
        size, behind = control.segment_size, -(-before // control.segment_size)
        first, nearest = behind, max(before - _BEFORE, 0) // size
        while first > nearest and self.piece(f"pg_wal/{segment_name(control.timeline, first - 1, size)}", 0, 1):
            first -= 1
        return min(before, Lsn(first * size))

    def obstacle(self, database: str) -> TailraceError | None:
        """Why the catalogs' files cannot be read here, if something is in the way. While full_page_writes is off, pages would count that are torn."""
        ((role, may),) = self.rows("SELECT quote_ident(current_user), has_function_privilege(%s::text, 'EXECUTE')", READING)
        if not may:
            return PeerError(
                "permission denied for function pg_read_binary_file",
                hint=f'In database "{database}": GRANT EXECUTE ON FUNCTION {READING} TO {role};', sqlstate="42501",
            )  # fmt: skip
        if self.writes_full_pages() and self.control().full_page_writes:
            return None
        return UsageError(
            "catalogs cannot be read over a connection while full_page_writes is off",
            hint="A base backup of it can be read; tailrace takes one where it captures a state.", sqlstate="55000",
        )  # fmt: skip

    def writes_full_pages(self) -> bool:
        ((is_on,),) = self.rows("SELECT current_setting('full_page_writes')::bool")
        return bool(is_on)

    def catalog_files(self) -> tuple[int, frozenset[FileKey]]:
        """The oid of this database, and the files of its catalogs, as the server says now."""
        if not self.writes_full_pages():
            self._wait_for_rewriting()
        ((database,),) = self.rows("SELECT oid::bigint FROM pg_database WHERE datname = current_database()")
        found = self.rows(f"SELECT pg_relation_filenode(oid)::bigint, relisshared FROM {_CATALOGS}", list(TRACKED_CATALOGS))
        return database, frozenset((0 if is_shared else database, number) for number, is_shared in found if number)

    def _wait_for_rewriting(self) -> None:
        """Until whoever rewrites a catalog now (VACUUM FULL, CLUSTER) has come to his end. No name leads to the new file before that; and where no
        page is logged whole when it is changed, those that were written before the log at hand have to be there."""
        holding = (
            "SELECT virtualtransaction, relation FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted AND database IN "
            f"(0, (SELECT oid FROM pg_database WHERE datname = current_database())) AND relation IN (SELECT oid FROM {_CATALOGS})"
        )
        rewriting = set(self.rows(holding, list(TRACKED_CATALOGS)))
        while rewriting := rewriting & set(self.rows(holding, list(TRACKED_CATALOGS))):
            time.sleep(_MOMENT)

    def flushed(self) -> Lsn:
        """How far the server's log is flushed; of a standby, how far it has received it, or restored it from its archive."""
        query = (
            "SELECT (CASE WHEN pg_is_in_recovery() THEN GREATEST(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) "
            "ELSE pg_current_wal_flush_lsn() END)::text"
        )
        return Lsn.parse(self.rows(query)[0][0])


def copy_catalog_files(files: ServerFiles, database: str, directory: Path, wal: Path) -> Lsn:
    """Make of `directory` a data directory with the files of these catalogs, whose pg_wal is `wal`. The log from pg_control's redo pointer on is
    received there while this goes on; up to where it is needed with these files."""
    (directory / "global").mkdir(parents=True)
    (directory / "pg_wal").symlink_to(wal.absolute(), target_is_directory=True)
    _put(directory / _CONTROL, files.piece(_CONTROL, 0, _CONTROL_BYTES) or b"")
    where = _place_of(files, database)
    for map_path in ("global/pg_filenode.map", f"{where}/pg_filenode.map"):
        _copy(files, map_path, directory)
    for path in _catalog_paths(files):
        _copy_with_parts(files, path, directory)
    for path in _status_paths(files):
        _copy(files, path, directory)
    (directory / "pg_twophase").mkdir()
    for (xid,) in files.rows("SELECT transaction::text::bigint FROM pg_prepared_xacts"):
        (directory / "pg_twophase" / f"{xid:08X}").touch()
    return files.flushed()


def _place_of(files: ServerFiles, database: str) -> str:
    """Where the database's files are."""
    if not files.rows("SELECT FROM pg_database WHERE datname = %s", database):
        raise UsageError(f'database "{database}" does not exist', sqlstate=_NO_DATABASE)
    ((path,),) = files.rows("SELECT pg_relation_filepath('pg_class'::regclass)")
    return str(path).rsplit("/", 1)[0]


def _catalog_paths(files: ServerFiles) -> list[str]:
    """The files of the catalogs that are tracked, and of user catalog tables, as the server says now. Where one is moved meanwhile, the log has
    all that is in the new one."""
    found = files.rows(f"SELECT pg_relation_filepath(oid) FROM {_CATALOGS}", list(TRACKED_CATALOGS))
    return [path for (path,) in found if path is not None]


def _status_paths(files: ServerFiles) -> list[str]:
    """pg_xact and pg_multixact, from the oldest transaction that a row may still name."""
    ((oldest, next_xid, oldest_multi, next_multi, next_member),) = files.rows(
        "SELECT oldest_xid::text::bigint, split_part(next_xid, ':', 2)::bigint, oldest_multi_xid::text::bigint, next_multixact_id::text::bigint, "
        "next_multi_offset::text::bigint FROM pg_control_checkpoint()"
    )
    paths = [f"pg_xact/{number:04X}" for number in _numbers(oldest, next_xid, XIDS_PER_STATUS_FILE, 1 << 32)]
    if oldest_multi == next_multi:
        return paths
    paths += [f"pg_multixact/offsets/{each:04X}" for each in _numbers(oldest_multi, next_multi, _MULTIXACTS_PER_FILE, 1 << 32)]
    known = Multixacts(lambda folder, number: files.read(f"pg_multixact/{folder}/{number:04X}") or b"")
    oldest_member = known.first_member(oldest_multi) or next_member
    return paths + [
        f"pg_multixact/members/{each:04X}" for each in _numbers(oldest_member, next_member, _MEMBERS_PER_FILE, 1 << 32)
    ]


def _numbers(first: int, last: int, per_file: int, counts: int) -> list[int]:
    """Of the files from the one with `first` to the one with `last`, of numbers that begin again behind `counts`; one more, which may be new."""
    count = ((last - first) % counts) // per_file + 2
    files = -(-counts // per_file)
    return [(first // per_file + each) % files for each in range(min(count, files))]


def _copy(files: ServerFiles, path: str, directory: Path) -> bool:
    content = files.read(path)
    if content is None:
        return False
    _put(directory / path, content)
    return True


def _copy_with_parts(files: ServerFiles, path: str, directory: Path) -> None:
    """The file, and what it goes on in after each GB. Of a page that is just being extended the rest is zeros."""
    number, part = 0, path
    while (content := files.read(part)) is not None:
        _put(directory / part, content.ljust(-(-len(content) // 8192) * 8192, b"\0"))
        number, part = number + 1, f"{path}.{number + 1}"


def _put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def as_ours(error: Any, database: str, context: str = "") -> TailraceError:
    """What psycopg raised for a server's refusal, with the server's words; of who is not let in, with what would help."""
    message = error.diag.message_primary or libpq_words(error)
    if f'database "{database}" does not exist' in message:
        return UsageError(f'database "{database}" does not exist', sqlstate=_NO_DATABASE)
    detail, hint = error.diag.message_detail or "", error.diag.message_hint or ""
    if any(each in message for each in _SHUT_OUT):
        used = used_by(error.pgconn) if error.pgconn else {}
        remedy = remedy_of(message, used.get("user", ""), database, sslmode=used.get("sslmode", ""))
        return NotLetIn(message, detail=detail, hint=hint or remedy, context=context, sqlstate="28000")
    return PeerError(message, detail=detail, hint=hint, context=context, sqlstate=error.sqlstate or "08006")
