"""Indexes of a log that nobody wrote, from a table of what happened in it: one line a record, `LSN what …`, numbers decimal.

    === 100                              a stretch begins there; the next one where it stops
    110 running 7 8 next=9               RUNNING_XACTS: what runs, and the next xid (`oldest=` is the least of them unless said)
    120 checkpoint redo=110 next=9       online; `shutdown` for that of a shutdown
    130 rows 9 file=500 n=3              so many rows of a transaction in a file; `top=7` names the transaction of a subtransaction
    140 catalog 9                        a change of a catalog
    150 commit 9 subs=10,11 db=5         or `abort`; with `gid=g` also `prepare`, `commit_prepared`, `rollback_prepared`; `origin=1`
    145 invalidates 9 oids=20000         XACT_INVALIDATIONS: a command names these relations (0: all) to the relcache; `0` of no transaction
    160 message 9 text=hello             `at_once` for one that does not wait for the commit; `followed_by=7`: the xid of the next record
    170 truncate 9 oids=20000
    180 wal_level 1                      a change of parameters
    190 overwrite                        OVERWRITE_CONTRECORD; `recovery` is END_OF_RECOVERY

And what only borders of stretches know: `chunk 9`, a TOAST chunk whose row comes later; `serves 9`, a row that took the chunks that were waiting;
`speculative 9`, and `confirm 9` or `cancel 9` in a later stretch.

Every record is 8 bytes long, and names the one before it; `=== 200 previous=150` has the first one name another. Nothing of it is compressed, cut or
checked: bytes are the scanner's business, of which this makes none but those of records that an index keeps whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tailrace.model import Lsn, Stretch
from tailrace.transactions.commit_or_abort import TwoPhase
from tailrace.transactions.scanned_log import Earlier, ScannedLog
from tailrace.wal import heap, index, logicalmsg, standby, xact, xlog
from tailrace.wal.heap_records import HeapTruncate
from tailrace.wal.index import Files, Index, KeptRecords, Xids
from tailrace.wal.invalidations import RELCACHE, Invalidations, write_invalidations
from tailrace.wal.logicalmsg import MessageRecord
from tailrace.wal.record_header import write_record
from tailrace.wal.resource_managers import HEAP, LOGICALMSG, STANDBY, XACT, XLOG
from tailrace.wal.standby import RunningXacts
from tailrace.wal.xact import Ends
from tailrace.wal.xlog import ParameterChange

MAJOR = 16
DATABASE = 5
TABLESPACE = 1663
RECORD = 8

_CHECKPOINT = xlog.Checkpoint(
    redo=Lsn(0), timeline=1, previous_timeline=1, full_page_writes=True, next_xid=0, next_oid=0, next_multixact=0, next_multixact_offset=0,
    oldest_xid=0, oldest_xid_database=0, oldest_multixact=0, oldest_multixact_database=0, time=0, oldest_commit_ts_xid=0,
    newest_commit_ts_xid=0, oldest_active_xid=0,
)  # fmt: skip
"""Of which only `redo` and `next_xid` are told by a log's lines."""

_ENDS = {
    "commit": xact.COMMIT,
    "abort": xact.ABORT,
    "prepare": xact.PREPARE,
    "commit_prepared": xact.COMMIT_PREPARED,
    "rollback_prepared": xact.ABORT_PREPARED,
}
_FLAGS = {
    "rows": index.HAS_CHANGE | index.HAS_ROWS,
    "catalog": index.HAS_CHANGE | index.CHANGES_CATALOG,
    "invalidates": index.HAS_CHANGE | index.CHANGES_CATALOG,
    "truncate": index.HAS_CHANGE,
    "chunk": index.HAS_CHANGE | index.HAS_ROWS,
    "serves": index.HAS_CHANGE | index.HAS_ROWS | index.CLOSED_TOAST,
    "speculative": index.HAS_CHANGE | index.HAS_ROWS | index.SPECULATION_OPEN,
    "confirm": index.HAS_CHANGE | index.STARTS_WITH_CONFIRM,
    "cancel": index.HAS_CHANGE | index.STARTS_WITH_CANCEL,
}


@dataclass(frozen=True)
class Line:
    """One record: its LSN, what it is, the numbers that follow, and the words with values."""

    lsn: int
    what: str
    numbers: tuple[int, ...]
    words: dict[str, str]

    @classmethod
    def of(cls, text: str) -> Line:
        lsn, what, *rest = text.split()
        numbers = tuple(int(each) for each in rest if each.isdigit())
        words = dict(each.partition("=")[::2] for each in rest if not each.isdigit())
        return cls(int(lsn), what, numbers, words)

    @property
    def xid(self) -> int:
        return self.numbers[0] if self.numbers and self.what not in ("running", "wal_level") else 0

    def number(self, word: str, default: int = 0) -> int:
        return int(self.words.get(word, default))

    def several(self, word: str) -> list[int]:
        return [int(each) for each in self.words.get(word, "").split(",") if each]


@dataclass
class _Stretch:
    start: int
    previous: int | None
    lines: list[Line] = field(default_factory=list)


def log(text: str) -> list[Index]:
    """The indexes of its stretches; the last one is not sealed."""
    stretches: list[_Stretch] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.startswith("==="):
            _, start, *words = line.split()
            stretches.append(_Stretch(int(start), int(words[0].removeprefix("previous=")) if words else None))
        else:
            stretches[-1].lines.append(Line.of(line))
    last = 0
    found = []
    for stretch, after in zip(stretches, [*stretches[1:], None], strict=True):
        previous = last if stretch.previous is None else stretch.previous
        last = stretch.lines[-1].lsn if stretch.lines else last
        stop = after.start if after else last + RECORD
        found.append(_index(stretch, stop, previous, sealed=after is not None))
    return found


def scanned(
    indexes: list[Index], *, open_at_start: dict[int, int] | None = None, two_phase: TwoPhase | None = None
) -> ScannedLog:
    """With what became of each transaction; the xids are of the first epoch."""
    return ScannedLog.of(indexes, (0, 7), 1 << 20, earlier=Earlier(open_at_start), two_phase=two_phase)


def _index(stretch: _Stretch, stop: int, previous: int, *, sealed: bool) -> Index:
    lines = stretch.lines
    waiting = [line for line in lines if line.what == "chunk"]
    return Index(
        stretch=Stretch(Lsn(stretch.start), Lsn(stop)), sealed=sealed, system=1, timeline=1, major=MAJOR, records=len(lines),
        first=Lsn(lines[0].lsn if lines else 0), previous=Lsn(previous if lines else 0), last=Lsn(lines[-1].lsn if lines else 0),
        next_lsn=Lsn(lines[-1].lsn + RECORD if lines else stop), fingerprint=stretch.start, reason="",
        xids=_xids(lines), files=_files(lines), ends=ends_of([line for line in lines if line.what in _ENDS]), kept=_kept(lines),
        waiting_xid=np.array([line.xid for line in waiting], np.int64), waiting_lsn=np.array([line.lsn for line in waiting], np.int64),
        waiting_crc=np.array([line.lsn for line in waiting], np.uint32),
    )  # fmt: skip


def _xids(lines: list[Line]) -> Xids:
    mine: dict[int, list[Line]] = {}
    for line in lines:
        if line.xid:
            mine.setdefault(line.xid, []).append(line)
    rows = [sum(line.number("n", 1) for line in each if line.what == "rows") for each in mine.values()]
    open_inserts = [next((line.lsn for line in each if line.what == "speculative"), 0) for each in mine.values()]
    flags = [int(np.bitwise_or.reduce([_FLAGS.get(line.what, 0) for line in each])) for each in mine.values()]
    return Xids(
        xid=np.array(list(mine), np.int64),
        top=np.array([max(line.number("top") for line in each) for each in mine.values()], np.int64),
        first_lsn=np.array([each[0].lsn for each in mine.values()], np.int64),
        flags=np.array(flags, np.uint8),
        rows=np.array(rows, np.int64),
        bytes=np.array(rows, np.int64) * RECORD,
        speculative=np.array(open_inserts, np.int64),
        queued_lsn=np.zeros(len(mine), np.int64),
        origin=np.zeros(len(mine), np.uint16),
    )


def _files(lines: list[Line]) -> Files:
    mine: dict[int, list[Line]] = {}
    for line in lines:
        if "file" in line.words:
            mine.setdefault(line.number("file"), []).append(line)
    count = len(mine)
    return Files(
        tablespace=np.full(count, TABLESPACE, np.uint32),
        database=np.array([each[0].number("db", DATABASE) for each in mine.values()], np.uint32),
        number=np.array(list(mine), np.uint32),
        first_lsn=np.array([each[0].lsn for each in mine.values()], np.int64),
        records=np.array([len(each) for each in mine.values()], np.int64),
        tracked=np.zeros(count, np.bool_),
    )


def ends_of(lines: list[Line]) -> Ends:
    lsn = np.array([line.lsn for line in lines], np.int64)
    subs, gids = [line.several("subs") for line in lines], [line.words.get("gid", "").encode() for line in lines]
    return Ends(
        kind=np.array([_ENDS[line.what] for line in lines], np.uint8),
        xid=np.array([line.xid for line in lines], np.int64),
        lsn=lsn,
        end_lsn=lsn + RECORD,
        time=lsn,
        database=np.array([line.number("db", DATABASE) for line in lines], np.uint32),
        origin=np.array([line.number("origin") for line in lines], np.uint16),
        origin_lsn=np.zeros(len(lines), np.int64),
        origin_time=np.zeros(len(lines), np.int64),
        subxact_bounds=np.cumsum([0, *map(len, subs)]),
        subxids=np.array([xid for each in subs for xid in each], np.int64),
        gid_bounds=np.cumsum([0, *map(len, gids)]),
        gids=np.frombuffer(b"".join(gids), np.uint8),
        invalidation_bounds=np.zeros(len(lines) + 1, np.int64),
        invalidations=np.zeros(0, np.uint8),
    )


# -- records that an index keeps whole ---------------------------------------------------------------------------------------------


def _kept(lines: list[Line]) -> KeptRecords:
    rows = [(line, *made) for line in lines if (made := _record(line))]
    data = [record.ljust(-(-len(record) // 8) * 8, b"\0") for _, _, record in rows]
    lsn = np.array([line.lsn for line, _, _ in rows], np.int64)
    return KeptRecords(
        kind=np.array([kind for _, kind, _ in rows], np.uint8),
        lsn=lsn,
        end_lsn=lsn + RECORD,
        followed_by=np.array([line.number("followed_by") for line, _, _ in rows], np.uint32),
        at=np.cumsum([0, *map(len, data)])[:-1],
        length=np.array([len(record) for _, _, record in rows], np.int64),
        data=np.frombuffer(b"".join(data), np.uint8),
    )


def _record(line: Line) -> tuple[int, bytes] | None:
    """The kind and the bytes of what is kept of it."""
    if line.what in ("checkpoint", "shutdown"):
        opcode = xlog.CHECKPOINT_SHUTDOWN if line.what == "shutdown" else xlog.CHECKPOINT_ONLINE
        checkpoint = replace(_CHECKPOINT, redo=Lsn(line.number("redo")), next_xid=line.number("next"))
        return index.KEPT_CHECKPOINT, _written(XLOG, opcode, checkpoint)
    if line.what == "running":
        following, none = line.number("next"), np.empty(0, np.uint32)
        oldest = line.number("oldest", min([*line.numbers, following]))
        running = RunningXacts(following, oldest, following - 1, False, np.array(line.numbers, np.uint32), none)
        return index.KEPT_RUNNING_XACTS, _written(STANDBY, standby.RUNNING_XACTS, running)
    if line.what == "message":
        message = MessageRecord(
            line.number("db", DATABASE),
            transactional="at_once" not in line.words,
            prefix=b"p",
            content=line.words["text"].encode(),
        )
        return index.KEPT_MESSAGE, _written(LOGICALMSG, logicalmsg.MESSAGE, message, line.xid, line.number("origin"))
    if line.what == "truncate":
        truncate = HeapTruncate(line.number("db", DATABASE), line.number("flags"), line.several("oids"))
        return index.KEPT_TRUNCATE, _written(HEAP, heap.TRUNCATE, truncate, line.xid, line.number("origin"))
    if line.what == "invalidates":
        oids = np.array(line.several("oids"), np.int64)
        messages = Invalidations(np.full(len(oids), RELCACHE), np.full(len(oids), line.number("db", DATABASE)), oids)
        said = xact.XactInvalidations(write_invalidations(messages).tobytes())
        return index.KEPT_INVALIDATIONS, _written(XACT, xact.INVALIDATIONS, said, line.xid)
    if line.what == "wal_level":
        change = ParameterChange(100, 8, 10, 0, 64, wal_level=line.numbers[0])
        return index.KEPT_WAL_SETTINGS, _written(XLOG, xlog.PARAMETER_CHANGE, change)
    if line.what == "recovery":
        return index.KEPT_TIMELINE_END, _written(XLOG, xlog.END_OF_RECOVERY, xlog.EndOfRecovery(0, 1, 1))
    if line.what == "overwrite":
        return index.KEPT_TIMELINE_END, _written(XLOG, xlog.OVERWRITE_CONTRECORD, xlog.OverwriteContrecord(Lsn(0), 0))
    return None


def _written(manager: int, info: int, says: Any, xid: int = 0, origin: int = 0) -> bytes:
    return write_record(manager, info, says.write(MAJOR), xid=xid, previous=0, major=MAJOR, origin=origin)
