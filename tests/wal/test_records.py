"""What records say, read and written again: every one of recorded logs is the same bytes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.cases import case_path, open_case
from tailrace.errors import CorruptWal
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, scan_log
from tailrace.storage.segment_files import open_segments
from tailrace.storage.segments import Segments
from tailrace.wal import dbase, framing, heap, heap_records, index, logicalmsg, records, relmap, smgr, standby, xact, xlog
from tailrace.wal.crc import record_crc
from tailrace.wal.kept_records import kept_records
from tailrace.wal.page_header import LongPageHeader
from tailrace.wal.record_header import RecordHeader, write_record
from tailrace.wal.records import INFO, MAIN, MAIN_LENGTH, MANAGER
from tailrace.wal.resource_managers import HEAP, HEAP2, LOGICALMSG, RELMAP, SMGR, STANDBY, XACT, XLOG
from tailrace.wal.versions import FORMATS

STORIES = ("messages", "prepared", "speculative", "subxact", "truncate", "catalog_rewrite")
ALWAYS: dict[int, dict[int, Any]] = {
    XLOG: {
        xlog.CHECKPOINT_SHUTDOWN: xlog.Checkpoint,
        xlog.CHECKPOINT_ONLINE: xlog.Checkpoint,
        xlog.NEXTOID: xlog.NextOid,
        xlog.BACKUP_END: xlog.BackupEnd,
        xlog.PARAMETER_CHANGE: xlog.ParameterChange,
        xlog.RESTORE_POINT: xlog.RestorePoint,
        xlog.FPW_CHANGE: xlog.FullPageWritesChange,
        xlog.END_OF_RECOVERY: xlog.EndOfRecovery,
        xlog.OVERWRITE_CONTRECORD: xlog.OverwriteContrecord,
    },
    XACT: {xact.ASSIGNMENT: xact.Assignment},
    SMGR: {smgr.CREATE: smgr.StorageCreate, smgr.TRUNCATE: smgr.StorageTruncate},
    RELMAP: {relmap.UPDATE: relmap.RelationMapUpdate},
    STANDBY: {standby.LOCK: standby.StandbyLocks, standby.RUNNING_XACTS: standby.RunningXacts},
    HEAP: {heap.TRUNCATE: heap_records.HeapTruncate, heap.CONFIRM: heap_records.Confirm, heap.LOCK: heap_records.Lock},
    HEAP2: {
        heap.VISIBLE: heap_records.Visible,
        heap.LOCK_UPDATED: heap_records.Lock,
        heap.NEW_CID: heap_records.NewCid,
    },
    LOGICALMSG: {logicalmsg.MESSAGE: logicalmsg.MessageRecord},
}
"""Records that are nothing but what their type says. Others go on with tuples, offsets or messages."""
BEGINNINGS: dict[int, dict[int, Any]] = {
    XACT: {xact.INVALIDATIONS: xact.XactInvalidations},
    STANDBY: {standby.INVALIDATIONS: standby.StandbyInvalidations},
    HEAP: {
        heap.INSERT: heap_records.HeapInsert,
        heap.DELETE: heap_records.HeapDelete,
        heap.UPDATE: heap_records.HeapUpdate,
        heap.HOT_UPDATE: heap_records.HeapUpdate,
        heap.INPLACE: heap_records.Inplace,
    },
    HEAP2: {heap.MULTI_INSERT: heap_records.MultiInsert},
}


def _records(segments: Segments) -> Any:
    """Every record: its bytes, and what `records.parse` says of them."""
    form, parsed = FORMATS[segments.major], records.new_parsed()
    wal = segments.read(segments.first_lsn, segments.stop_lsn)
    frame = framing.new_frame(wal, segments.identity, segments.first_lsn, segments.stop_lsn)
    while (at := framing.next_record(wal.buf, frame)) >= 0:
        record = wal.buf[at : at + int(frame[framing.LENGTH])]
        records.parse(record, 0, len(record), form.image_compressed, parsed)
        yield record, parsed


@pytest.mark.parametrize("major", [14, 15, 16, 17, 18])
def test_what_is_read_is_written_again(major: int, tmp_path: Path) -> None:
    met: Counter[str] = Counter()
    stories = [story for story in STORIES if case_path(story, major, "with_slot").exists()]
    for story in stories:
        for record, parsed in _records(open_segments(open_case(story, major, "with_slot", tmp_path / story).wal_dir)):
            manager, info = int(parsed[MANAGER]), int(parsed[INFO])
            opcode = info & (heap.OPCODE if manager in (HEAP, HEAP2, XACT) else xlog.OPCODE)
            main = record[int(parsed[MAIN]) :][: int(parsed[MAIN_LENGTH])].tobytes()
            if kind := ALWAYS.get(manager, {}).get(opcode):
                assert len(kind.read(main, major).write(major)) == len(main)
            kind = kind or BEGINNINGS.get(manager, {}).get(opcode)
            if kind:
                says = kind.read(main, major)
                written = says.write(major)
                again = kind.read(written + main[len(written) :], major)
                assert str(again) == str(says)
                met[kind.__name__] += 1
            header = RecordHeader.read(record.tobytes(), major)
            assert header.write(major) == record[: framing.RECORD_HEADER].tobytes()
            assert header.length == len(record)
    always = {
        "Checkpoint",
        "RunningXacts",
        "MessageRecord",
        "StorageCreate",
        "HeapInsert",
        "HeapDelete",
        "HeapUpdate",
        "MultiInsert",
        "NewCid",
        "Inplace",
        "Confirm",
    }
    assert always | ({"HeapTruncate", "RelationMapUpdate"} if "truncate" in stories else set()) <= set(met)


@pytest.mark.parametrize("major", FORMATS)
def test_a_record_of_main_data_is_one(major: int) -> None:
    for main in (b"", b"short", bytes(300)):
        data = np.frombuffer(write_record(XLOG, xlog.NOOP, main, xid=7, previous=Lsn(40), major=major), np.uint8).copy()
        parsed = records.new_parsed()
        assert records.parse(data, 0, len(data), FORMATS[major].image_compressed, parsed)
        assert data[int(parsed[MAIN]) :][: int(parsed[MAIN_LENGTH])].tobytes() == main
        header = RecordHeader.read(data.tobytes(), major)
        assert (header.length, header.xid, header.previous) == (len(data), 7, 40)
        assert header.crc == int(record_crc(data, 0, len(data)))


def test_kept_records_say_the_same(tmp_path: Path) -> None:
    segments = open_segments(open_case("messages", 16, "with_slot", tmp_path).wal_dir)
    indexes = scan_log(segments, LocalRunner(1))
    kept = list(kept_records(indexes, index.KEPT_MESSAGE))
    assert [record.lsn for record in kept] == sorted(record.lsn for record in kept)
    prefixes = {record.read(logicalmsg.MessageRecord).prefix for record in kept}
    assert len(prefixes) > 1
    assert b"\0" not in b"".join(prefixes)


def test_every_kind_of_kept_records_has_its_place() -> None:
    """With its transaction, with the log, or (of a custom resource manager) with the first stretch that has one."""
    kinds = [value for name, value in vars(index).items() if name.startswith("KEPT_") and isinstance(value, int)]
    assert sorted(kinds) == sorted(index.KEPT_KINDS) == list(range(1, len(kinds) + 1))


def test_records_that_are_too_short_are_damage(tmp_path: Path) -> None:
    with pytest.raises(CorruptWal, match="invalid length of record data: expected at least 88, got 87"):
        xlog.Checkpoint.read(bytes(87), 16)
    running = standby.RunningXacts(9, 7, 8, False, np.array([7], np.uint32), np.array([8], np.uint32)).write(16)
    with pytest.raises(CorruptWal, match="invalid length of record data"):
        standby.RunningXacts.read(running[:-1], 16)
    segments = open_segments(open_case("messages", 16, "with_slot", tmp_path).wal_dir)
    first = next(kept_records(scan_log(segments, LocalRunner(1)), index.KEPT_MESSAGE))
    with pytest.raises(CorruptWal) as caught:
        first.read(xlog.Checkpoint)
    assert caught.value.lsn == first.lsn
    assert str(first.lsn) in caught.value.context


def test_databases_created_and_dropped() -> None:
    """No recorded log makes any."""
    for record in (
        dbase.CreateDatabaseFileCopy(5, 1663, 1, 1663),
        dbase.CreateDatabaseWalLog(5, 1663),
        dbase.DropDatabase(5, (1663, 16400)),
    ):
        for major in FORMATS:
            assert type(record).read(record.write(major), major) == record
    assert dbase.DropDatabase(5, (1663,)).write(16) == bytes([5, 0, 0, 0, 1, 0, 0, 0, 127, 6, 0, 0])


def test_a_page_header_is_written_as_it_was_read(tmp_path: Path) -> None:
    for path in open_case("xact", 16, "with_slot", tmp_path).wal_dir.glob("[0-9A-F]" * 24):
        page = path.read_bytes()[:8192]
        header = LongPageHeader.read(page)
        assert page.startswith(header.write())
        assert (header.magic, header.segment_size) == (0xD113, 1 << 20)


@pytest.mark.parametrize("major", FORMATS)
def test_sizes_that_kernels_go_by(major: int) -> None:
    assert xact.PREPARE_HEADERS[major].size == (64 if major == 14 else 72)
    assert xlog.Checkpoint.LAYOUTS[major].size == 88
    assert (heap.SIZE_OF_DELETE, heap.SIZE_OF_UPDATE) == (8, 14)
