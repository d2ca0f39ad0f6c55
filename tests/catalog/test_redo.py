"""Heap records on a catalog, written out, and the versions of rows that replaying them gives."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pytest

from support.heap_records import (
    DATABASE,
    FILE,
    IMAGE_APPLY,
    IMAGE_HAS_HOLE,
    TABLESPACE,
    TUPLE_HEADER,
    XID,
    block,
    logged_tuple,
    page,
    record,
)
from tailrace.catalog.pages.catalog_files import CatalogFiles
from tailrace.catalog.pages.tids import tid_of
from tailrace.catalog.redo.replay import BeforeLog, CatalogLog, replay
from tailrace.catalog.redo.replay_buffers import MORE_BYTES, MORE_ROWS, VERSIONS, doubled, lacking, with_room
from tailrace.catalog.rows.row_versions import Versions
from tailrace.errors import MissingHistory
from tailrace.model import PAGE_SIZE
from tailrace.transactions.epochs import XidClock
from tailrace.wal.resource_managers import HEAP, HEAP2
from tailrace.wal.versions import FORMATS

FILES = CatalogFiles.of({(DATABASE, FILE): FILE}, frozenset({TABLESPACE}))
FORM = FORMATS[16]

INSERT, DELETE, UPDATE, HOT_UPDATE, INPLACE, MULTI_INSERT, INIT_PAGE = 0x00, 0x10, 0x20, 0x40, 0x70, 0x50, 0x80
PREFIX_FROM_OLD, SUFFIX_FROM_OLD, IS_SUPER = 0x20, 0x40, 0x08


def _insert(item: int, values: bytes) -> bytes:
    return record(HEAP, INSERT, struct.pack("<HB", item, 0), block(logged_tuple(values)))


def _update(old: int, new: int, data: bytes, *, flags: int = 0) -> bytes:
    return record(HEAP, HOT_UPDATE, struct.pack("<IHBBIH", XID, old, 0, flags, 0, new), block(data))


def _delete(item: int, *, flags: int = 0) -> bytes:
    return record(HEAP, DELETE, struct.pack("<IHBB", XID, item, 0, flags), block())


def _multi_insert(items: Sequence[int], tuples: Sequence[bytes], *, info: int = 0) -> bytes:
    data = b""
    for each in tuples:
        data += b"\0" * (len(data) % 2) + struct.pack("<H", len(each) - len(TUPLE_HEADER)) + each
    main = struct.pack("<BBH", 0, 0, len(tuples)) + (b"" if info else struct.pack(f"<{len(items)}H", *items))
    return record(HEAP2, MULTI_INSERT | info, main, block(data))


def _replayed(*records: bytes, complete: bool = True, versions: Versions | None = None) -> Versions:
    """Records at LSN 100, 200, …"""
    length = np.array([len(each) for each in records], np.int64)
    log = CatalogLog(
        lsn=100 * np.arange(1, len(records) + 1),
        at=np.cumsum(length) - length,
        length=length,
        data=np.frombuffer(b"".join(records), np.uint8).copy(),
    )
    clock = XidClock.of([], (0, 1000))
    return replay(versions or Versions.none(), BeforeLog.none(), log, clock, FILES, FORM, complete=complete)


def _rows(versions: Versions) -> list[tuple[int, int, int, int, bytes]]:
    columns = versions.columns
    return [
        (xmin, xmax, added, deleted, versions.tuples[at : at + length].tobytes())
        for xmin, xmax, added, deleted, at, length in zip(
            *(
                column.tolist()
                for column in (columns.xmin, columns.xmax, columns.added, columns.deleted, columns.at, columns.length)
            ),
            strict=True,
        )
    ]


def _at(versions: Versions, item: int, number: int = 0) -> int:
    """The version that stands at a line pointer."""
    return int(versions.version_at[versions.tids == tid_of(0, number, item)][0])


def test_an_inserted_row_is_there_from_its_record_on() -> None:
    versions = _replayed(_insert(1, b"one"), _insert(2, b"two"))
    assert _rows(versions) == [(XID, 0, 100, 0, logged_tuple(b"one")), (XID, 0, 200, 0, logged_tuple(b"two"))]
    assert (_at(versions, 1), _at(versions, 2)) == (0, 1)


def test_an_update_may_take_the_ends_of_the_new_tuple_from_the_old_one() -> None:
    left_out = struct.pack("<HH", 4, 3) + TUPLE_HEADER + b"\0" + b"NEW"
    versions = _replayed(_insert(1, b"headmiddletil"), _update(1, 2, left_out, flags=PREFIX_FROM_OLD | SUFFIX_FROM_OLD))
    assert _rows(versions) == [
        (XID, XID, 100, 200, logged_tuple(b"headmiddletil")),
        (XID, 0, 200, 0, logged_tuple(b"headNEWtil")),
    ]
    only_suffix = struct.pack("<H", 3) + logged_tuple(b"new ")
    assert _rows(_replayed(_insert(1, b"old end"), _update(1, 2, only_suffix, flags=SUFFIX_FROM_OLD)))[1][4] == logged_tuple(
        b"new end"
    )


def test_an_update_onto_another_page() -> None:
    update = record(
        HEAP, UPDATE, struct.pack("<IHBBIH", XID, 1, 0, 0, 0, 5), block(logged_tuple(b"new"), number=1), block(number=0)
    )
    versions = _replayed(_insert(1, b"old"), update)
    assert _rows(versions) == [(XID, XID, 100, 200, logged_tuple(b"old")), (XID, 0, 200, 0, logged_tuple(b"new"))]
    assert _at(versions, 5, number=1) == 1


def test_a_deleted_row_ends_there() -> None:
    assert _rows(_replayed(_insert(1, b"x"), _delete(1)))[0][:4] == (XID, XID, 100, 200)
    assert _rows(_replayed(_insert(1, b"x"), _delete(1, flags=IS_SUPER)))[0][:4] == (XID, 0, 100, 0)


@pytest.mark.parametrize("info", [0, INIT_PAGE])
def test_several_rows_of_one_record(info: int) -> None:
    versions = _replayed(_multi_insert([1, 2, 3], [logged_tuple(b"a"), logged_tuple(b"bc"), logged_tuple(b"")], info=info))
    assert [row[4] for row in _rows(versions)] == [logged_tuple(b"a"), logged_tuple(b"bc"), logged_tuple(b"")]
    assert [_at(versions, item) for item in (1, 2, 3)] == [0, 1, 2]


def test_an_in_place_update_changes_the_version() -> None:
    inplace = record(HEAP, INPLACE, struct.pack("<H", 1), block(b"new"))
    other_length = record(HEAP, INPLACE, struct.pack("<H", 1), block(b"longer"))
    assert _rows(_replayed(_insert(1, b"old"), inplace, other_length)) == [(XID, 0, 100, 0, logged_tuple(b"new"))]


def test_a_page_image_tells_of_rows_from_before_the_log() -> None:
    image = page((600, 0x0100, logged_tuple(b"old")), (XID, 0, logged_tuple(b"new")))
    versions = _replayed(record(HEAP, INSERT, struct.pack("<HB", 2, 0), block(image=image)), complete=False)
    assert [row[:4] for row in _rows(versions)] == [(600, 0, 0, 0), (XID, 0, 100, 0)]
    assert [row[4][5:] for row in _rows(versions)] == [b"\0old", b"\0new"]
    again = _replayed(record(HEAP, INSERT, struct.pack("<HB", 2, 0), block(image=image)), versions=versions)
    assert len(again) == 3  # the second row is another one, and the first is known


def test_a_copy_in_another_file_is_the_same_version() -> None:
    files = {(DATABASE, FILE): FILE, (DATABASE, 20000): FILE}
    log = record(0, 0xB0, b"", block(image=page((XID, 0x0100, logged_tuple(b"row"))), file=20000), xid=0)
    before = _replayed(_insert(1, b"row"))
    rows = np.array([0], np.int64)
    versions = replay(
        before, BeforeLog.none(), CatalogLog(rows + 500, rows, rows + len(log), np.frombuffer(log, np.uint8).copy()),
        XidClock.of([], (0, 1000)), CatalogFiles.of(files, frozenset({TABLESPACE})), FORM, complete=False,
    )  # fmt: skip
    assert len(versions) == 1
    assert versions.version_at[versions.tids == tid_of(1, 0, 1)].tolist() == [0]


def test_a_page_that_is_not_known_cannot_be_changed() -> None:
    with pytest.raises(MissingHistory, match=r"changed at 0/64 whose content before is not known"):
        _replayed(_insert(1, b"x"), complete=False)
    with pytest.raises(MissingHistory, match=r"changed at 0/C8 whose content before is not known"):
        _replayed(_insert(1, b"x"), _update(7, 2, struct.pack("<H", 1) + logged_tuple(b""), flags=PREFIX_FROM_OLD))


UNREADABLE = {
    "an insert without its main data": record(HEAP, INSERT, b"\1", block(logged_tuple(b"x"))),
    "an insert without a tuple": record(HEAP, INSERT, struct.pack("<HB", 2, 0), block()),
    "a line pointer that no page has": _insert(292, b"x"),
    "the line pointer 0": _insert(0, b"x"),
    "a deletion at a line pointer that no page has": _delete(2049),  # of the page behind it would be 1
    "an update of the line pointer 0": _update(0, 2, logged_tuple(b"x")),
    "a tuple longer than a page": _insert(2, b"x" * PAGE_SIZE),
    "more tuples than offsets": record(HEAP2, MULTI_INSERT, struct.pack("<BBHH", 0, 0, 2, 1), block(b"\0" * 90)),
    "more tuples than data": record(HEAP2, MULTI_INSERT | INIT_PAGE, struct.pack("<BBH", 0, 0, 9), block(b"\1\0" + TUPLE_HEADER + b"\0")),
    "a prefix longer than the old tuple": _update(1, 2, struct.pack("<H", 9000) + logged_tuple(b""), flags=PREFIX_FROM_OLD),
    "a suffix longer than the old tuple": _update(1, 2, struct.pack("<H", 5) + logged_tuple(b""), flags=SUFFIX_FROM_OLD),
    "a header that ends beyond the tuple": _update(1, 2, struct.pack("<HHHB", 1, 0, 0, 255), flags=PREFIX_FROM_OLD),
    "an image that is no page": record(HEAP, INSERT, struct.pack("<HB", 2, 0), block(image=b"\0" * 100)),
    "an image with a line pointer beyond it": record(
        HEAP, INSERT, struct.pack("<HB", 2, 0),
        block(image=page((XID, 0, logged_tuple(b"x")))[:24] + struct.pack("<I", 8190 | 1 << 15 | 40 << 17) + bytes(PAGE_SIZE - 28)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("damaged", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_a_record_that_cannot_be(damaged: bytes) -> None:
    with pytest.raises(MissingHistory, match="cannot read the catalog record at 0/C8"):
        _replayed(_insert(1, b"old"), damaged)


def test_what_goes_on_where_there_was_no_more_room_leaves_nothing_out() -> None:
    tuples = [logged_tuple(struct.pack("<H", number)) for number in range(200)]
    versions = _replayed(*[_multi_insert([], tuples, info=INIT_PAGE)] * 300)
    assert len(versions) == 60000
    assert [row[4] for row in _rows(versions)] == tuples * 300
    assert _at(versions, 7) == 299 * 200 + 6


def test_rows_that_are_rewritten_again_and_again_have_room() -> None:
    """Images that change a page of rows in place, each row each time, make no version and yet need to be found by what they say."""
    rows, times = 100, 150
    images = [page(*((XID, 0, logged_tuple(struct.pack("<II", row, time))) for row in range(rows))) for time in range(times)]
    versions = _replayed(*(record(0, 0xB0, b"", block(image=image)) for image in images))
    assert [row[4] for row in _rows(versions)] == [logged_tuple(struct.pack("<II", row, times - 1)) for row in range(rows)]


def test_a_record_that_says_it_has_more_rows_than_a_page_is_refused() -> None:
    items = [1] * 300
    with pytest.raises(MissingHistory, match="cannot read the catalog record at 0/64"):
        _replayed(_multi_insert(items, [logged_tuple(b"")] * len(items), info=INIT_PAGE))


def test_an_image_that_is_longer_than_a_page_is_refused() -> None:
    """Of an image with a hole that is not compressed the length of the hole is not stored: it is what the image lacks of a page."""
    with pytest.raises(MissingHistory, match="cannot read the catalog record at 0/64"):
        _replayed(record(0, 0xB0, b"", block(image=bytes(2 * PAGE_SIZE), image_info=IMAGE_HAS_HOLE | IMAGE_APPLY)))


def test_room_is_doubled_where_it_lacks() -> None:
    """Pages have many rows: the bytes, of which there is enough, are not doubled with them."""
    replayed = with_room(Versions.none(), 10, 1 << 26)
    rows, size = len(replayed.versions.xmin), len(replayed.tuples)
    replayed.used[VERSIONS] = rows
    assert lacking(replayed) == MORE_ROWS
    more = doubled(replayed, MORE_ROWS)
    assert len(more.versions.xmin) >= 2 * rows
    assert len(more.tuples) < 1.2 * size
    replayed.used[:] = 0, size, 0
    assert lacking(replayed) == MORE_BYTES
    assert len(doubled(replayed, MORE_BYTES).tuples) >= 2 * size
