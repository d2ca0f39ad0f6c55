"""A recorded cluster whose transactions have other ids: its log, its control file, commit status and catalog pages are rewritten throughout.

No server writes such a log in one piece: a slot's catalog_xmin stops it 2^31 transactions later, and pg_resetwal breaks the chain. But a recorded one
says the same with other xids, as long as those in use at one time lie within 2^31 of each other.

In: a :class:`support.cases.Case` and a :class:`Renumbering`. Out: the same case, rewritten where it lies, and what PostgreSQL would have printed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from support.cases import Case
from support.normalise import print_rows, rows
from tailrace.catalog.data_directory.commit_status import COMMITTED
from tailrace.catalog.data_directory.control_file import CONTROL_FILE, read_control
from tailrace.storage.directory import DataDirectory
from tailrace.wal import heap, heap_records, records, standby, xact, xlog
from tailrace.wal.crc import crc32c, record_crc
from tailrace.wal.framing import RECORD_HEADER
from tailrace.wal.page_header import LONG_PAGE_HEADER, SHORT_PAGE_HEADER, LongPageHeader
from tailrace.wal.record_header import H_CRC, H_XID, RecordHeader
from tailrace.wal.records import FIRST_BLOCK, INFO, MAIN, MAIN_LENGTH, MANAGER
from tailrace.wal.resource_managers import HEAP, HEAP2, STANDBY, XACT, XLOG
from tailrace.wal.versions import FORMATS
from tailrace.wal.xlog import Checkpoint

PAGE = 8192
FROZEN = 0x0300  # HEAP_XMIN_COMMITTED and _INVALID
XMAX_INVALID, XMAX_MULTI, XMAX_LOCK_ONLY = 0x0800, 0x1000, 0x0080
LOW_WORD = 0xFFFFFFFF
IN_PRODUCTION = 6
XMAX_IS_MULTI = 0x01  # XLHL_XMAX_IS_MULTI
_XID_IN_DATA = re.compile(r"^(BEGIN |COMMIT |PREPARE TRANSACTION .*, txid |(?:COMMIT|ROLLBACK) PREPARED .*, txid )(\d+)\b")


@dataclass(frozen=True)
class Renumbering:
    """Xid x becomes x + `before`, and from `first` on x + `after`. What is older than that counts as long past from the LSN `turn` on: a vacuum has
    frozen its rows by then, or taken them away."""

    before: int
    first: int
    after: int
    turn: int = 1 << 62

    def full(self, xid: int) -> int:
        return xid if xid < 3 else xid + (self.after if xid >= self.first else self.before)

    def low(self, xid: int) -> int:
        return self.full(xid) & LOW_WORD

    def is_past(self, xid: int, lsn: int) -> bool:
        return lsn >= self.turn and xid < self.first


def renumber(case: Case, xids: Renumbering) -> Case:
    """Rewrite the case's directories, and say what is to come out of them."""
    log = _Log(case, xids)
    for path, lsn in ((case.before_dir, 0), (case.data_dir, 1 << 61)):
        _rewrite_pages(path, lsn, log)
        _rewrite_status(path, lsn, xids)
        rewrite_control(path, xids=xids)
    log.rewrite()
    return replace(case, expected=renumbered_text(case.expected, xids) if case.is_exact else case.expected)


def renumbered_text(text: str, xids: Renumbering) -> str:
    """Printed rows with the xids that they would have."""
    return print_rows(
        (lsn, xids.low(xid), _XID_IN_DATA.sub(lambda found: f"{found[1]}{xids.low(int(found[2]))}", data))
        for lsn, xid, data in rows(text)
    )


def rewrite_control(path: Path, *, xids: Renumbering | None = None, state: int | None = None) -> None:
    """pg_control with another next xid, or another state; without page checksums, which have changed."""
    file = path / "global" / "pg_control"
    data = file.read_bytes()
    major = read_control(data, str(file)).major
    layout = CONTROL_FILE[major]
    says = layout.read(data) | {"data_checksum_version": 0}
    if xids is not None:
        last = Checkpoint.read(says["checkpoint_copy"], major)
        says["checkpoint_copy"] = replace(last, next_xid=xids.full(last.next_xid)).write(major)
    if state is not None:
        says["state"] = state
    says["crc"] = int(crc32c(layout.write(says)[: layout.at("crc")]))
    file.write_bytes(layout.write(says) + data[layout.size :])


def _rewrite_status(path: Path, lsn: int, xids: Renumbering) -> None:
    """pg_xact: two bits per xid, at the places of the new ones. Those long past have none any more."""
    status = DataDirectory(path).commit_status()
    next_xid = DataDirectory(path).control().next_xid
    old = np.array([xid for xid in range(3, next_xid) if not xids.is_past(xid, lsn)], np.int64)
    files: dict[int, bytearray] = {}
    for xid, state in zip(old.tolist(), status.of(old).tolist(), strict=True):
        number, place = divmod(xids.low(xid), 1 << 20)
        file = files.setdefault(number, bytearray(256 << 10))
        file[place // 4] |= state << (2 * (place % 4))
    for file_there in (path / "pg_xact").iterdir():
        file_there.unlink()
    for number, data in files.items():
        (path / "pg_xact" / f"{number:04X}").write_bytes(data)


def _rewrite_pages(path: Path, lsn: int, log: _Log) -> None:
    for folder in (path / "global", *(path / "base").iterdir()):
        for file in folder.iterdir():
            if re.fullmatch(r"\d+(\.\d+)?", file.name):
                pages = np.frombuffer(file.read_bytes(), np.uint8).copy()
                for at in range(0, len(pages), PAGE):
                    log.rewrite_page(pages[at : at + PAGE], lsn)
                file.write_bytes(pages.tobytes())


class _Log:
    """The segments of a case, and how their records are rewritten."""

    def __init__(self, case: Case, xids: Renumbering) -> None:
        self._xids = xids
        self._form = FORMATS[case.major]
        self._files = sorted(file for file in case.wal_dir.iterdir() if re.fullmatch("[0-9A-F]{24}", file.name))
        known = DataDirectory(case.data_dir)
        every = np.arange(3, known.control().next_xid, dtype=np.int64)
        self._committed = frozenset(every[known.commit_status().of(every) == COMMITTED].tolist())

    def rewrite(self) -> None:
        """Every record of every segment. Without their headers, pages are one stream of records, each aligned to 8 bytes."""
        raw = np.concatenate([np.frombuffer(file.read_bytes(), np.uint8) for file in self._files])
        size = len(raw) // len(self._files)
        log, segment = int(self._files[0].name[8:16], 16), int(self._files[0].name[16:], 16)
        base = (log << 32) + segment * size
        heads = [LONG_PAGE_HEADER if page % size == 0 else SHORT_PAGE_HEADER for page in range(0, len(raw), PAGE)]
        places = np.concatenate([np.arange(i * PAGE + head, (i + 1) * PAGE) for i, head in enumerate(heads)])
        stream = raw[places]
        per_segment = len(stream) // len(self._files)
        at = (LongPageHeader.read(raw[:PAGE].tobytes()).remaining + 7) & ~7  # the rest of a record that began before
        while at + RECORD_HEADER <= len(stream):
            header = RecordHeader.read(stream[at : at + RECORD_HEADER].tobytes(), self._form.major)
            if not header.length:
                break
            record = stream[at : at + header.length]
            assert int(record_crc(record.copy(), 0, header.length)) == header.crc, "not a record"
            is_switch = header.manager == XLOG and header.info & xlog.OPCODE == xlog.SWITCH
            self._rewrite_record(record, base + int(places[at]))
            _put(record, H_CRC, 4, int(record_crc(record.copy(), 0, header.length)))
            at = (at // per_segment + 1) * per_segment if is_switch else (at + header.length + 7) & ~7
        raw[places] = stream
        for i, file in enumerate(self._files):
            file.write_bytes(raw[i * size : (i + 1) * size].tobytes())

    def _rewrite_record(self, record: NDArray[np.uint8], lsn: int) -> None:
        parsed = records.new_parsed()
        assert records.parse(record, 0, len(record), self._form.image_compressed, parsed)
        manager, info = int(parsed[MANAGER]), int(parsed[INFO])
        places = [H_XID]
        if parsed[records.TOP_XID]:
            places.append(_top_xid_at(record, parsed))
        if manager == XACT:
            places += self._of_xact(record, parsed)
        for place in places:
            _put(record, place, 4, self._xids.low(_number(record, place, 4)))
        main = record[int(parsed[MAIN]) :][: int(parsed[MAIN_LENGTH])]
        written = self._renumbered(manager, info, main.tobytes())
        main[: len(written)] = np.frombuffer(written, np.uint8)
        if manager in (HEAP, HEAP2, XLOG):
            self._rewrite_images(record, parsed, lsn)

    def _renumbered(self, manager: int, info: int, main: bytes) -> bytes:
        """The beginning of a record's main data with other xids; nothing if it has none."""
        low, full, major = self._xids.low, self._xids.full, self._form.major
        opcode = info & (heap.OPCODE if manager in (HEAP, HEAP2, XACT) else xlog.OPCODE)
        if manager == STANDBY and opcode == standby.RUNNING_XACTS:
            running = standby.RunningXacts.read(main, major)
            return replace(
                running,
                next_xid=low(running.next_xid),
                oldest_running_xid=low(running.oldest_running_xid),
                latest_completed_xid=low(running.latest_completed_xid),
                top=np.array([low(xid) for xid in running.top.tolist()], np.uint32),
                sub=np.array([low(xid) for xid in running.sub.tolist()], np.uint32),
            ).write(major)
        if manager == STANDBY and opcode == standby.LOCK:
            locks = standby.StandbyLocks.read(main, major).locks.copy()
            locks[:, 0] = [low(xid) for xid in locks[:, 0].tolist()]
            return standby.StandbyLocks(locks).write(major)
        if manager == XACT and opcode == xact.ASSIGNMENT:
            assigned = xact.Assignment.read(main, major)
            return xact.Assignment(low(assigned.top_xid), tuple(map(low, assigned.subxids))).write(major)
        if manager == XLOG and opcode in (xlog.CHECKPOINT_SHUTDOWN, xlog.CHECKPOINT_ONLINE):
            said = Checkpoint.read(main, major)
            return replace(
                said, next_xid=full(said.next_xid), oldest_xid=low(said.oldest_xid), oldest_active_xid=low(said.oldest_active_xid)
            ).write(major)
        if manager == HEAP and opcode == heap.DELETE:
            delete = heap_records.HeapDelete.read(main, major)
            return b"" if delete.infobits & XMAX_IS_MULTI else replace(delete, xmax=low(delete.xmax)).write(major)
        if manager == HEAP and opcode in (heap.UPDATE, heap.HOT_UPDATE):
            update = heap_records.HeapUpdate.read(main, major)
            if update.old_infobits & XMAX_IS_MULTI:
                return b""
            return replace(update, old_xmax=low(update.old_xmax), new_xmax=low(update.new_xmax)).write(major)
        if manager == HEAP2 and opcode == heap.NEW_CID:
            new_cid = heap_records.NewCid.read(main, major)
            return replace(new_cid, top_xid=low(new_cid.top_xid)).write(major)
        return b""

    def _of_xact(self, record: NDArray[np.uint8], parsed: NDArray[np.int64]) -> list[int]:
        """Where an end has xids in its chunks."""
        main, opcode = int(parsed[MAIN]), int(parsed[INFO]) & xact.OPCODE
        if opcode in (xact.ASSIGNMENT, xact.INVALIDATIONS):
            return []
        end = np.zeros(xact.E_FIELDS, np.int64)
        assert xact.parse_end(record, parsed, self._form.stats_item, xact.PREPARE_HEADERS[self._form.major].size, end)
        places = [int(end[xact.E_SUBXACTS]) + 4 * i for i in range(int(end[xact.E_SUBXACT_COUNT]))]
        if opcode == xact.PREPARE:
            places.append(main + xact.PREPARE_XID_AT)
        elif opcode in (xact.COMMIT_PREPARED, xact.ABORT_PREPARED):
            places.append(int(end[xact.E_GID]) - 4)
        return places

    def _rewrite_images(self, record: NDArray[np.uint8], parsed: NDArray[np.int64], lsn: int) -> None:
        for i in range(int(parsed[records.BLOCKS])):
            block = FIRST_BLOCK + i * records.BLOCK_FIELDS
            if not parsed[block + records.IMAGE] or parsed[block + records.FORK]:
                continue
            assert not int(parsed[block + records.IMAGE_INFO]) & self._form.image_compressed
            at, length = int(parsed[block + records.IMAGE]), int(parsed[block + records.IMAGE_LENGTH])
            hole, hole_length = int(parsed[block + records.HOLE]), int(parsed[block + records.HOLE_LENGTH])
            hole = hole if hole_length else PAGE
            image = record[at : at + length]
            page = np.zeros(PAGE, np.uint8)
            page[:hole], page[hole + hole_length :] = image[:hole], image[hole:]
            self.rewrite_page(page, lsn)
            image[:hole], image[hole:] = page[:hole], page[hole + hole_length :]

    def rewrite_page(self, page: NDArray[np.uint8], lsn: int) -> None:
        """A page of a heap, at `lsn`; others, which have something special at their end, stay as they are."""
        lower, special = _number(page, 12, 2), _number(page, 16, 2)
        if special != PAGE or lower < 24:
            return
        _put(page, 8, 2, 0)  # pd_checksum
        for item in range(24, lower, 4):
            pointer = _number(page, item, 4)
            at = pointer & 0x7FFF
            if (pointer >> 15) & 3 == 1 and not self._rewrite_tuple(page[at : at + (pointer >> 17)], lsn):
                _put(page, item, 4, 3 << 15)  # LP_DEAD

    def _rewrite_tuple(self, row: NDArray[np.uint8], lsn: int) -> bool:
        """False if it would have been vacuumed away."""
        xmin, xmax, infomask = _number(row, 0, 4), _number(row, 4, 4), _number(row, 20, 2)
        if infomask & FROZEN != FROZEN:
            if not self._xids.is_past(xmin, lsn):
                _put(row, 0, 4, self._xids.low(xmin))
            elif xmin in self._committed:
                infomask |= FROZEN
            elif xmin >= 3:
                return False
        if xmax and not infomask & (XMAX_INVALID | XMAX_MULTI):
            if not self._xids.is_past(xmax, lsn):
                _put(row, 4, 4, self._xids.low(xmax))
            elif xmax in self._committed and not infomask & XMAX_LOCK_ONLY:
                return False
            else:
                infomask |= XMAX_INVALID
        _put(row, 20, 2, infomask)
        return True


def _top_xid_at(record: NDArray[np.uint8], parsed: NDArray[np.int64]) -> int:
    """It is told before the main data, right before their length."""
    length = int(parsed[MAIN_LENGTH])
    payload = length
    for i in range(int(parsed[records.BLOCKS])):
        block = FIRST_BLOCK + i * records.BLOCK_FIELDS
        payload += int(parsed[block + records.DATA_LENGTH])
        payload += int(parsed[block + records.IMAGE_LENGTH]) if parsed[block + records.IMAGE] else 0
    at = len(record) - payload - (0 if not length else 2 if length < 256 else 5) - 4
    assert record[at - 1] == 252, "no top-level xid"
    return at


def _number(data: NDArray[np.uint8], at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size].tobytes(), "little")


def _put(data: NDArray[np.uint8], at: int, size: int, value: int) -> None:
    data[at : at + size] = np.frombuffer(value.to_bytes(size, "little"), np.uint8)
