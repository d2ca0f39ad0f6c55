"""Every value of xl_info of every resource manager: known, or an error that names it; and records that say of themselves what is not so."""

from __future__ import annotations

import random
import re
import struct
from pathlib import Path

import numpy as np
import pytest

from support.cases import all_cases, open_case
from support.sampling import some_of
from tailrace.errors import CorruptWal, TailraceError, UnsupportedWal
from tailrace.majors import Capability, supports
from tailrace.model import PAGE_SIZE, Lsn, Stretch
from tailrace.pipeline import LocalRunner, scan_log
from tailrace.storage.segment_files import open_segments
from tailrace.wal import framing, heap, heap_records, index, logicalmsg, opcodes, records, xact
from tailrace.wal.framing import LONG_HEADER
from tailrace.wal.index import Index
from tailrace.wal.logicalmsg import MessageRecord
from tailrace.wal.opcodes import meaning_of
from tailrace.wal.page_header import LongPageHeader
from tailrace.wal.pages import LogIdentity, WalBytes
from tailrace.wal.record_header import write_record
from tailrace.wal.record_types import Meaning, RecordType
from tailrace.wal.resource_managers import DBASE, HEAP, HEAP2, LOGICALMSG, SMGR, STANDBY, XACT, XLOG
from tailrace.wal.scan import scan
from tailrace.wal.versions import FORMATS

SEGMENT = 1 << 20
FIRST_CUSTOM = 128
NOOP = 0x20


def _expected(major: int, manager: int, info: int) -> bool:
    """Whether it is known, as `replication/logical/decode.c` has it, and of files the redo functions."""
    if manager in (HEAP, HEAP2):
        return True
    if manager == XACT:
        return info & 0x70 <= 0x60
    known = {
        XLOG: {*range(0, 0xC0, 0x10), 0xD0} | ({0xE0} if major >= 17 else set()),
        SMGR: {0x10, 0x20},
        4: {0x00, 0x10} | ({0x20} if major >= 15 else set()),
        7: {0x00},
        STANDBY: {0x00, 0x10, 0x20},
        LOGICALMSG: {0x00},
    }
    if manager in known:
        return info & 0xF0 in known[manager]
    return manager <= LOGICALMSG or (manager >= FIRST_CUSTOM and major >= 15)


def _scanned(major: int, *written: bytes) -> Index:
    """A log of one page or more, with these records, of which each names the one before."""
    header = LongPageHeader(FORMATS[major].page_magic, LONG_HEADER, 1, Lsn(SEGMENT), 0, 7, SEGMENT, PAGE_SIZE).write()
    content = header + b"".join(each + bytes(-len(each) % 8) for each in written)
    assert len(content) <= PAGE_SIZE
    wal = WalBytes.of(content.ljust(2 * PAGE_SIZE, b"\0"), SEGMENT)
    log = LogIdentity(FORMATS[major], SEGMENT, 7, 1)
    return scan(wal, Stretch(Lsn(SEGMENT), Lsn(2 * SEGMENT)), log, at_end_of_log=True)


def _record(major: int, manager: int, info: int, main: bytes = bytes(40), *, xid: int = 0, previous: int = 0) -> bytes:
    return write_record(manager, info, main, xid=xid, previous=previous, major=major)


@pytest.mark.parametrize("major", FORMATS)
def test_every_value_of_every_manager(major: int) -> None:
    requirements = opcodes.requirements(major)
    for manager in range(256):
        for info in range(256):
            known = meaning_of(major, manager, info) != Meaning.UNKNOWN
            assert known == _expected(major, manager, info), (manager, info)
            assert known == (requirements[manager << 4 | info >> 4] >= 0)


@pytest.mark.parametrize("major", FORMATS)
def test_an_opcode_has_one_row_in_a_major(major: int) -> None:
    for manager, types in opcodes.RECORD_TYPES.items():
        rows = [each.opcode for each in types if supports(major, Capability.of(each.majors))]
        assert len(rows) == len(set(rows)), manager
        assert {opcodes.opcode_of(manager, opcode) for opcode in rows} == set(rows)


def test_an_opcode_means_one_thing_to_kernels() -> None:
    """They are told no major. Opcodes of DBASE are asked for by major (`dbase.DROP`), outside of kernels."""
    for manager, types in opcodes.RECORD_TYPES.items():
        for opcode in {each.opcode for each in types}:
            rows = [each for each in types if each.opcode == opcode]
            (meaning,) = {each.meaning for each in rows}
            assert meaning == Meaning.PASSED_OVER or len(rows) == 1 or manager == DBASE, (manager, opcode)


def test_only_one_module_asks_for_opcodes_of_heaps() -> None:
    """A new one is taught there, in `heap_records.py` and in `opcodes.py`."""
    asking = re.compile(
        r"(?<!\w)heap\.(INSERT|DELETE|UPDATE|TRUNCATE|HOT_UPDATE|CONFIRM|LOCK|INPLACE|MULTI_INSERT|VISIBLE|NEW_CID)(?!\w)"
    )
    package = Path(heap.__file__).parents[1]
    assert [file.name for file in package.rglob("*.py") if asking.search(file.read_text())] == []


def test_another_record_of_logical_messages_is_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """A major that had one would be taught it in the table: what makes a message of records does not take it for one."""
    main = MessageRecord(5, True, b"p", b"x").write(16)
    taught = (*logicalmsg.RECORD_TYPES, RecordType(0x10, "ANOTHER", Meaning.PASSED_OVER))
    monkeypatch.setitem(opcodes.RECORD_TYPES, LOGICALMSG, taught)
    opcodes._known.cache_clear()
    opcodes.requirements.cache_clear()
    try:
        message, another = (_scanned(16, _record(16, LOGICALMSG, info, main, xid=7)) for info in (0x00, 0x10))
    finally:
        opcodes._known.cache_clear()
        opcodes.requirements.cache_clear()
    assert (message.kept.kind.tolist(), message.xids.flags.tolist()) == ([index.KEPT_MESSAGE], [index.HAS_CHANGE])
    assert (another.kept.kind.tolist(), another.xids.flags.tolist(), another.xids.queued_lsn.tolist()) == ([], [0], [0])


@pytest.mark.parametrize("major", some_of([pytest.param(each, id=str(each)) for each in FORMATS], 2))
def test_what_is_not_known_ends_the_scan(major: int) -> None:
    """All 256 values, of each manager that pages may name."""
    for manager in [*range(LOGICALMSG + 1), *([FIRST_CUSTOM, 255] if FORMATS[major].custom_resource_managers else [])]:
        for info in range(256):
            error = _error(major, manager, info)
            if _expected(major, manager, info):
                # Forty zeros are no such record of some.
                assert error is None or error.message.startswith("invalid RM_"), (manager, info)
            else:
                assert isinstance(error, UnsupportedWal), (manager, info)
                assert (error.lsn, error.sqlstate) == (SEGMENT + 40, "XX000")
                assert error.context.startswith("WAL record at 0/100028")


def _error(major: int, manager: int, info: int) -> TailraceError | None:
    try:
        _scanned(major, _record(major, manager, info))
    except TailraceError as error:
        return error
    return None


def test_the_words_are_postgresqls() -> None:
    for manager, info, words in (
        (XACT, 0xF3, "unexpected RM_XACT_ID record type: 112"),
        (STANDBY, 0x30, "unexpected RM_STANDBY_ID record type: 48"),
        (XLOG, 0xC0, "unexpected RM_XLOG_ID record type: 192"),
        (LOGICALMSG, 0x10, "unexpected RM_LOGICALMSG_ID record type: 16"),
    ):
        with pytest.raises(UnsupportedWal, match=f"^{words}$|^{words}\n"):
            _scanned(16, _record(16, manager, info))


# -- what records say of themselves ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("major", FORMATS)
def test_ends_that_promise_more_than_they_have(major: int) -> None:
    """Counts and flags of a commit, abort or prepare, drawn: nothing beyond the record is read."""
    dice = random.Random(major)
    form = FORMATS[major]
    for _ in range(2000):
        opcode = dice.choice([xact.COMMIT, xact.ABORT, xact.PREPARE, xact.COMMIT_PREPARED, xact.ABORT_PREPARED])
        main = bytearray(dice.randbytes(dice.randrange(120)))
        if opcode != xact.PREPARE and len(main) >= 12:
            struct.pack_into("<I", main, 8, dice.choice([1 << dice.randrange(9), 0x1FF, dice.randrange(1 << 9)]))
        data = np.frombuffer(_record(major, XACT, opcode | 0x80, bytes(main)), np.uint8).copy()
        parsed, end = records.new_parsed(), np.zeros(xact.E_FIELDS, np.int64)
        assert records.parse(data, 0, len(data), form.image_compressed, parsed)
        if xact.parse_end(data, parsed, form.stats_item, xact.PREPARE_HEADERS[major].size, end):
            for at, count, size in (
                (xact.E_SUBXACTS, xact.E_SUBXACT_COUNT, 4),
                (xact.E_GID, xact.E_GID_LENGTH, 1),
                (xact.E_INVALIDATIONS, xact.E_INVALIDATION_COUNT, 16),
            ):
                assert 0 <= end[at] <= end[at] + size * end[count] <= len(data)


def test_a_commit_of_more_than_all_memory_is_damage() -> None:
    main = struct.pack("<qI", 0, 0x004) + struct.pack("<I", 0xFFFFFFFF) + bytes(8)
    with pytest.raises(CorruptWal, match=r"invalid RM_XACT_ID \(type 0\) record at 0/100028"):
        _scanned(16, _record(16, XACT, xact.COMMIT | 0x80, main))


@pytest.mark.parametrize(
    ("manager", "info"), [(HEAP, heap.INSERT), (HEAP2, heap.MULTI_INSERT), (HEAP2, heap.NEW_CID), (LOGICALMSG, 0)]
)
def test_a_record_that_lacks_what_its_kind_has_is_damage(manager: int, info: int) -> None:
    with pytest.raises(CorruptWal, match=r"invalid RM_[A-Z0-9]+_ID"):
        _scanned(16, _record(16, manager, info, b"", xid=7))


def test_headers_that_run_beyond_the_record_are_refused() -> None:
    dice = random.Random(5)
    for _ in range(5000):
        data = bytearray(24 + dice.randrange(1, 60))
        data[24:] = dice.randbytes(len(data) - 24)
        data[24] = dice.choice([0, 1, 32, 252, 253, 254, 255])
        buffer = np.frombuffer(bytes(data) + b"\xff" * 64, np.uint8)
        again = np.frombuffer(bytes(data) + bytes(64), np.uint8)
        parsed, other = records.new_parsed(), records.new_parsed()
        fits = records.parse(buffer, 0, len(data), 0x1C, parsed)
        assert fits == records.parse(again, 0, len(data), 0x1C, other)
        if fits:
            assert (parsed == other).all()  # what stands behind the record does not matter
            assert parsed[records.MAIN] + parsed[records.MAIN_LENGTH] == len(data)


def test_more_transactions_than_a_server_would_name_have_room() -> None:
    """Records of nothing but their header, each of a new transaction: twice as many as a stretch of a server's names."""
    written, at, previous = [], SEGMENT + 40, 0
    for xid in range(1000, 1000 + 250):
        data = _record(16, XLOG, NOOP, b"", xid=xid, previous=previous)
        written.append(data)
        previous, at = at, at + (len(data) + 7) // 8 * 8
    assert len(_scanned(16, *written).xids.xid) == 250


# -- layouts that kernels go by, against what servers wrote -----------------------------------------------------------------------


@pytest.mark.parametrize("major", FORMATS)
def test_layouts_of_heap_records_are_those_of_recorded_bytes(major: int, tmp_path: Path) -> None:
    """Lengths of main data, which say where a struct ends, and values that can be nothing else than they are."""
    met: set[str] = set()
    for story, _, variant in [case for case in all_cases() if case[1] == major and case[2] == "with_slot"]:
        segments = open_segments(open_case(story, major, variant, tmp_path / story).wal_dir)
        if segments.stop_lsn - segments.first_lsn > 8 << 20:
            continue
        form, parsed = FORMATS[major], records.new_parsed()
        wal = segments.read(segments.first_lsn, segments.stop_lsn)
        frame = framing.new_frame(wal, segments.identity, segments.first_lsn, segments.stop_lsn)
        before: tuple[int, ...] = ()
        while (at := framing.next_record(wal.buf, frame)) >= 0:
            assert records.parse(wal.buf, at, int(frame[framing.LENGTH]), form.image_compressed, parsed)
            if parsed[records.MANAGER] in (HEAP, HEAP2):
                main = wal.buf[int(parsed[records.MAIN]) :][: int(parsed[records.MAIN_LENGTH])].tobytes()
                before = _check_heap_record(major, parsed, main, before, met)
        if {"insert", "update", "delete", "multi", "new_cid", "inplace"} <= met:
            break
    assert {"insert", "update", "delete", "multi", "new_cid", "inplace"} <= met


def _u16(main: bytes, at: int) -> int:
    return int.from_bytes(main[at : at + 2], "little")


def _check_heap_record(major: int, parsed: np.ndarray, main: bytes, before: tuple[int, ...], met: set[str]) -> tuple[int, ...]:
    """`before` is the locator that a NEW_CID named, which is that of the change behind it."""
    info, xid = int(parsed[records.INFO]), int(parsed[records.XID])
    opcode = info & 0x70
    block = records.FIRST_BLOCK
    file = tuple(int(parsed[block + field]) for field in (records.TABLESPACE, records.DATABASE, records.NUMBER))
    if parsed[records.MANAGER] == HEAP2:
        if opcode == heap.NEW_CID:
            assert len(main) == heap.SIZE_OF_NEW_CID
            assert 0 < int.from_bytes(main[:4], "little") <= xid  # top_xid
            at = heap.NEW_CID_LOCATOR_AT
            met.add("new_cid")
            return struct.unpack_from("<III", main, at)
        if opcode == heap.MULTI_INSERT:
            count = _u16(main, heap.MULTI_INSERT_NTUPLES_AT)
            assert len(main) == heap.MULTI_INSERT_OFFNUMS_AT + (0 if info & heap.INIT_PAGE else 2 * count)
            assert 1 <= count <= 291
            assert main[heap.MULTI_INSERT_FLAGS_AT] & ~0x3F == 0
            met.add("multi")
            assert not before or before == file
        return ()
    if opcode == heap.INSERT:
        assert len(main) == heap.SIZE_OF_INSERT
        assert 1 <= _u16(main, heap.INSERT_OFFNUM_AT) <= 291
        assert not info & heap.INIT_PAGE or _u16(main, heap.INSERT_OFFNUM_AT) == 1
        assert main[heap.INSERT_FLAGS_AT] & ~0x3F == 0
        met.add("insert")
    elif opcode in (heap.UPDATE, heap.HOT_UPDATE):
        flags = main[heap.UPDATE_FLAGS_AT]
        assert (len(main) > heap.SIZE_OF_UPDATE) == bool(flags & 0x0C)
        assert 1 <= _u16(main, heap.UPDATE_OLD_OFFNUM_AT) <= 291
        assert 1 <= _u16(main, heap.UPDATE_NEW_OFFNUM_AT) <= 291
        met.add("update")
    elif opcode == heap.DELETE:
        assert (len(main) > heap.SIZE_OF_DELETE) == bool(main[heap.DELETE_FLAGS_AT] & 0x06)
        assert 1 <= _u16(main, heap.DELETE_OFFNUM_AT) <= 291
        met.add("delete")
    elif opcode == heap.INPLACE:
        assert 1 <= _u16(main, heap.INPLACE_OFFNUM_AT) <= 291
        messages = int.from_bytes(main[16:20], "little") if major >= 18 else 0
        assert len(main) == heap_records.Inplace.LAYOUTS[major].size + 16 * messages
        met.add("inplace")
    elif opcode == heap.TRUNCATE:
        assert (len(main) - heap.TRUNCATE_RELIDS_AT) == 4 * int.from_bytes(main[4:8], "little")
    assert not before or opcode in (heap.LOCK, heap.CONFIRM) or before == file
    return before if opcode in (heap.LOCK,) else ()


def test_recorded_logs_are_known_whole(tmp_path: Path) -> None:
    for story, major in (("ddl", 14), ("prepared", 15), ("messages", 18)):
        if (story, major, "with_slot") in all_cases():
            indexes = scan_log(open_segments(open_case(story, major, "with_slot", tmp_path / story).wal_dir), LocalRunner(1))
            assert sum(index.records for index in indexes) > 100
