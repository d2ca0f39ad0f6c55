"""A table's rows from the pages of its file, which a running server reads and does not look at: a fraction of what it costs it to copy them.

In: sessions that share a snapshot, under which the tables are locked. Out: `TablePages` of the tables of which this can be done, and their rows.

What the snapshot sees is in the files once a checkpoint has been made: what was written before is there, and nothing of it is removed while somebody
holds the snapshot. What came behind it is in some pages, and not in others; no snapshot from before sees it. A page that is just being written is
found by its checksum, and read again. Rows of which a part lies elsewhere, and those of which the page does not say whether they are seen, are asked
for by their ctid; and whatever cannot be read so is copied as it ever was.

A role needs EXECUTE on pg_read_binary_file(text, bigint, bigint, boolean), as for catalogs, and pg_checkpoint, or before 15 to be a superuser.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import wait
from contextlib import closing, suppress
from dataclasses import field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tailrace.catalog.data_directory.commit_status import XIDS_PER_STATUS_FILE
from tailrace.catalog.names.oid_names import oid_alias_types
from tailrace.catalog.pages.checksums import torn_pages
from tailrace.catalog.pages.visible_tuples import KnownStatus, MvccSnapshot
from tailrace.changes import row_batch
from tailrace.client.block_ranges import BlockRange
from tailrace.client.catalog_files import READING, ServerFiles
from tailrace.client.copy_options import CopyStrategy
from tailrace.client.copy_out import copied_rows
from tailrace.client.copy_rate import CopyRate
from tailrace.dataclass import dataclass
from tailrace.decode.table_pages import StatusMissing, rows_of_pages
from tailrace.errors import PeerError, TailraceError
from tailrace.model import PAGE_SIZE, Relation
from tailrace.threads import Threads
from tailrace.tuples.deform import AttributesRoom
from tailrace.types.encodings.server_encodings import UTF8
from tailrace.types.registry import ArrowStyle

LEAST_BYTES = 64 << 20
"""Of a table; it is not worth a checkpoint to read less so."""
_BLOCKS = 512
"""Looked at together; a table's files have a multiple of it."""
_BLOCKS_PER_VALUE = 16
"""Of which a server makes one value: it copies that several times before it is sent, and of larger ones most from memory that no cache has. A part
of a table begins at a multiple of it."""
_BLOCKS_PER_FILE = (1 << 30) // PAGE_SIZE
_ASKED_SHARE = 16
"""Where more than one row in so many is to be asked for, the server copies them all."""
_CTIDS = 1000
"""Asked for at once."""
_TRIES, _MOMENT, _LOOK_AGAIN = 20, 0.01, 0.3
_XID_BYTES = 256 << 10
"""Of a file of pg_xact."""
MAY_CHECKPOINT = """EXISTS (SELECT FROM pg_roles WHERE rolname = current_user AND rolsuper
    UNION ALL SELECT FROM pg_roles WHERE rolname = 'pg_checkpoint' AND pg_has_role(oid, 'USAGE'))"""
_OBSTACLES = f"""
SELECT NOT pg_is_in_recovery(), current_setting('data_checksums') = 'on',
  current_setting('block_size') = '{PAGE_SIZE}' AND current_setting('segment_size') = '1GB',
  coalesce(current_setting('old_snapshot_threshold', true), '-1') = '-1',
  has_function_privilege('pg_catalog.{READING}', 'EXECUTE'),
  {MAY_CHECKPOINT}
"""
_REFUSALS = (
    (
        "pages of a standby cannot be read",
        "What it has replayed is in its files only once its primary has made a checkpoint.",
        "55000",
    ),
    (
        "pages cannot be read without data checksums",
        "A page that is just being written could not be told. Enable them with pg_checksums.",
        "55000",
    ),
    ("pages cannot be read of another size than 8 kB, or of files of another than 1 GB", "", "0A000"),
    ("pages cannot be read where old_snapshot_threshold lets go what a snapshot sees", "", "55000"),
    (
        "permission denied for function pg_read_binary_file",
        f"GRANT EXECUTE ON FUNCTION {READING} to the role that connects.",
        "42501",
    ),
    (
        "must be superuser or have privileges of pg_checkpoint to do CHECKPOINT",
        "GRANT pg_checkpoint to the role that connects.",
        "42501",
    ),
)
_TABLES = """
SELECT c.oid::bigint, pg_relation_filepath(c.oid)
FROM pg_class c JOIN pg_am a ON a.oid = c.relam
WHERE c.oid::bigint = ANY (%s) AND c.relkind = 'r' AND a.amname = 'heap' AND NOT row_security_active(c.oid)
  AND (%s OR c.reltoastrelid = 0 OR pg_relation_size(c.reltoastrelid) * 4 < pg_relation_size(c.oid))
"""


@dataclass(frozen=True, slots=True)
class _Seen:
    """`ctids` are of rows that the server is to be asked for."""

    rows: pa.RecordBatch
    ctids: list[str]


@dataclass(frozen=True, slots=True)
class _Torn:
    """A page among them was just being written."""


@dataclass(slots=True)
class SnapshotFiles:
    """What is read of a server's files under a snapshot. State: `known` are the files of pg_xact that were asked for, which have all that ended
    before it."""

    snapshot: MvccSnapshot
    known: KnownStatus = field(default_factory=lambda: KnownStatus.of({}))
    _status: dict[int, bytes] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __reduce__(self) -> tuple[Any, ...]:
        """A worker goes on from what is known."""
        return SnapshotFiles, (self.snapshot, self.known, dict(self._status))

    def read_status(self, session: Any, number: int) -> None:
        with self._lock:
            if number not in self._status:
                self._status[number] = ServerFiles(session).piece(f"pg_xact/{number:04X}", 0, _XID_BYTES) or b""
                self.known = KnownStatus.of(self._status)


@dataclass(frozen=True, slots=True)
class TablePages:
    """Of a table whose file is at `path` and has so many `blocks` that the snapshot may see."""

    files: SnapshotFiles
    path: str
    blocks: int
    relation: Relation
    codec: str = UTF8

    def rows(
        self, session: Any, blocks: BlockRange, shown: Relation, style: ArrowStyle, copied: Callable[[str], Iterator[Any]],
        rate: CopyRate | None,
    ) -> Iterator[Any]:  # fmt: skip
        """Record batches of these blocks; `copied` gives what a COPY with this WHERE clause gives. Raises PeerError as the server does."""
        end = self.blocks if blocks.behind is None else min(blocks.behind, self.blocks)
        room = AttributesRoom()
        unread, by_server, ctids = list[int](), list[int](), list[str]()
        with closing(self._pieces(session, blocks.first, end, rate)) as pieces:
            for first, pages in pieces:
                found = self._seen(pages, first, shown, style, room)
                if isinstance(found, _Seen):
                    ctids += found.ctids
                    yield found.rows
                else:
                    (unread if found is not None else by_server).append(first)
        for first in unread:
            found = self._seen_at_last(session, first, min(first + _BLOCKS, end), shown, style, rate)
            if found is None:
                by_server.append(first)
            else:
                ctids += found.ctids
                yield found.rows
        for first in by_server:  # it says better what is wrong with its page, and a copy with a row
            yield from copied(BlockRange(first, min(first + _BLOCKS, end)).where(None))
        for number in range(0, len(ctids), _CTIDS):
            yield from copied(f" WHERE ctid = ANY ('{{{','.join(ctids[number : number + _CTIDS])}}}'::pg_catalog.tid[])")

    def _pieces(
        self, session: Any, first: int, end: int, rate: CopyRate | None
    ) -> Generator[tuple[int, NDArray[np.uint8] | None]]:
        """Blocks from `first` on, so many at a time, with the number of the first; None where some are not there. No two files have some of them.
        Those that come next take the place of these in memory."""
        number, within = divmod(first, _BLOCKS_PER_FILE)
        path, size = f"{self.path}.{number}" if number else self.path, _BLOCKS_PER_VALUE * PAGE_SIZE
        values = f"generate_series({within // _BLOCKS_PER_VALUE}, {(within + end - first - 1) // _BLOCKS_PER_VALUE}) AS number"
        content = f"pg_catalog.pg_read_binary_file('{path}', number::bigint * {size}, {size}, true)"
        command = f"COPY (SELECT {content} FROM {values}) TO STDOUT (FORMAT binary)"
        room, filled, is_there = np.empty(_BLOCKS * PAGE_SIZE, np.uint8), 0, True
        pages = room[: (end - first) * PAGE_SIZE]
        # So much is sent at once that the socket is full before anybody could sleep.
        with closing(copied_rows(session, command, 1, rate, gathered=0.0)) as found:
            for rows in found:
                for at, got in zip(rows.at[:, 0].tolist(), rows.sizes[:, 0].tolist(), strict=True):
                    wanted = min(size, len(pages) - filled)
                    is_there &= got >= wanted
                    if is_there:
                        pages[filled : filled + wanted] = rows.data[at : at + wanted]
                    filled += wanted
                    if filled == len(pages):
                        yield first, pages if is_there else None
                        first += _BLOCKS
                        pages, filled, is_there = room[: max(0, end - first) * PAGE_SIZE], 0, True

    def _seen(
        self, pages: NDArray[np.uint8] | None, first: int, shown: Relation, style: ArrowStyle, room: AttributesRoom | None = None
    ) -> _Seen | _Torn | StatusMissing | None:
        """None where these rows are better copied."""
        if pages is None:
            return None
        if len(torn_pages(pages, first)):
            return _Torn()
        try:
            found = rows_of_pages(pages, first, self.relation, self.files.snapshot, self.files.known, room)
            rows = row_batch(found.batch, shown, style=style, codec=self.codec)
        except StatusMissing as missing:
            return missing
        except (TailraceError, MemoryError, pa.ArrowException):  # values that do not fit, or that are too much at once
            return None
        if len(found.asked) * _ASKED_SHARE > len(rows) + len(found.asked):
            return None
        return _Seen(rows, [f'"({block},{item})"' for block, item in found.asked.tolist()])

    def _seen_at_last(
        self, session: Any, first: int, behind: int, shown: Relation, style: ArrowStyle, rate: CopyRate | None
    ) -> _Seen | None:
        """Pages that were just being written are read until they are not, and pg_xact as far as it is needed."""
        for _ in range(_TRIES):
            ((_, pages),) = self._pieces(session, first, behind, rate)
            while isinstance(found := self._seen(pages, first, shown, style), StatusMissing):
                self.files.read_status(session, found.number)
            if not isinstance(found, _Torn):
                return found
            time.sleep(_MOMENT)
        return None


def least_bytes(strategy: CopyStrategy) -> float:
    """Of a table whose pages are read by this strategy."""
    return {CopyStrategy.ROWS: math.inf, CopyStrategy.PAGES: 0}.get(strategy, LEAST_BYTES)


def readable_files(
    asked: Any, session: Any, exported: str, strategy: CopyStrategy, is_stopping: Callable[[], bool]
) -> SnapshotFiles | None:
    """What the session's snapshot, which was `exported`, sees is in the files once who is `asked` has made a checkpoint. None where they cannot be
    read, or where it is to stop meanwhile. Raises PeerError where they must be."""
    import psycopg  # noqa: PLC0415 - only those who connect need it

    for is_met, (message, hint, sqlstate) in zip(session.execute(_OBSTACLES).fetchone(), _REFUSALS, strict=True):
        if not is_met and strategy is CopyStrategy.PAGES:
            raise PeerError(message, hint=f"{hint} Or --copy-strategy rows.".lstrip(), sqlstate=sqlstate)
        if not is_met:
            return None
    snapshot = exported_snapshot(ServerFiles(session).piece(f"pg_snapshots/{exported}", 0, 1 << 20) or b"")
    if snapshot is None:
        return None
    try:
        if not _made_checkpoint(asked, is_stopping):
            return None
    except psycopg.Error:  # checkpoint request failed
        if strategy is CopyStrategy.PAGES:
            raise
        return None
    files = SnapshotFiles(snapshot)
    for xid in {max(0, snapshot.xmax - XIDS_PER_STATUS_FILE), snapshot.xmax}:  # a new table needs no other
        files.read_status(session, xid // XIDS_PER_STATUS_FILE)
    return files


def _made_checkpoint(asked: Any, is_stopping: Callable[[], bool]) -> bool:
    """On a busy server that takes a while. False where it is to stop; the server goes on with it by itself."""
    import psycopg  # noqa: PLC0415 - see above

    with Threads(1) as thread:
        checkpoint = thread.submit(asked.execute, "CHECKPOINT")
        while not wait([checkpoint], _LOOK_AGAIN).done:
            if is_stopping():
                asked.cancel_safe()
                with suppress(psycopg.errors.QueryCanceled):
                    checkpoint.result()
                return False
        checkpoint.result()
    return True


def tables_in_pages(
    files: SnapshotFiles, session: Any, tables: Sequence[tuple[Relation, int]], codec: str, strategy: CopyStrategy
) -> dict[int, TablePages]:
    """Of these tables, with their sizes in bytes, those whose pages are read. The session has locks on them."""
    least = least_bytes(strategy)
    large = {relation.oid: (relation, size) for relation, size in tables if size >= least and not oid_alias_types(relation)}
    pages = dict[int, TablePages]()
    for oid, path in session.execute(_TABLES, (list(large), strategy is CopyStrategy.PAGES)).fetchall():
        relation, size = large[int(oid)]
        pages[relation.oid] = TablePages(files, str(path), -(-size // PAGE_SIZE), relation, codec)
    return pages


def exported_snapshot(content: bytes) -> MvccSnapshot | None:
    """Of the file of an exported snapshot (ExportSnapshot in `snapmgr.c`); None if it does not name all subtransactions that run."""
    said = [line.split(":", 1) for line in content.decode("ascii", "replace").splitlines() if ":" in line]
    one, running = dict(said), sorted(int(value) for name, value in said if name in {"xip", "sxp"})
    if not {"xmin", "xmax", "xcnt", "sof", "sxcnt", "rec"} <= one.keys() or one["sof"] != "0":
        return None
    if len(running) != int(one["xcnt"]) + int(one["sxcnt"]):
        return None
    return MvccSnapshot(int(one["xmin"]), int(one["xmax"]), np.array(running, np.int64))
