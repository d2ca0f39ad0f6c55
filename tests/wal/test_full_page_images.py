"""Page images as records have them, and the pages that they stand for."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from support.heap_records import IMAGE_APPLY, IMAGE_HAS_HOLE, block, record
from tailrace.kernels import kernel
from tailrace.model import PAGE_SIZE
from tailrace.wal import records
from tailrace.wal.full_page_images import Images, new_page, restore_block_image
from tailrace.wal.records import FIRST_BLOCK
from tailrace.wal.resource_managers import HEAP
from tailrace.wal.versions import FORMATS

FORM = FORMATS[16]
HOLE, HOLE_LENGTH = 100, 8000
_DICE = random.Random(7)
ENDS = _DICE.randbytes(HOLE), _DICE.randbytes(PAGE_SIZE - HOLE - HOLE_LENGTH)
PAGE = bytes(HOLE_LENGTH).join(ENDS)
WITHOUT_HOLE = b"".join(ENDS)


@kernel
def _restore(buf, parsed, images, page):  # type: ignore[no-untyped-def]
    return restore_block_image(buf, parsed, FIRST_BLOCK, images, page)


def _restored(image: bytes, info: int, *hole: int) -> bytes | None:
    """The page of a record with this image; None if it makes none. The record stands behind 40 other bytes."""
    written = record(HEAP, 0, b"", block(image=image, image_info=info | IMAGE_APPLY, hole=hole))
    buf = np.frombuffer(bytes(40) + written, np.uint8).copy()
    parsed = records.new_parsed()
    assert records.parse(buf, 40, len(written), FORM.image_compressed, parsed)
    images = Images.of(FORM, buf, np.array([40]), np.array([len(written)]))
    page = new_page()
    page[:] = 255
    return page[:PAGE_SIZE].tobytes() if _restore(buf, parsed, images, page) else None


def _pglz_literals(data: bytes) -> bytes:
    return b"".join(b"\0" + data[at : at + 8] for at in range(0, len(data), 8))


COMPRESSED = {
    "pglz": (FORM.image_pglz, _pglz_literals),
    "lz4": (FORM.image_lz4, lambda data: pa.Codec("lz4_raw").compress(data, asbytes=True)),
    "zstd": (FORM.image_zstd, lambda data: pa.Codec("zstd").compress(data, asbytes=True)),
}


def test_a_page_as_it_is() -> None:
    assert _restored(PAGE, 0, 0) == PAGE
    assert _restored(PAGE[:-1], 0, 0) is None


def test_a_page_without_its_hole() -> None:
    assert _restored(WITHOUT_HOLE, IMAGE_HAS_HOLE, HOLE) == PAGE


@pytest.mark.parametrize("method", COMPRESSED)
def test_a_compressed_page(method: str) -> None:
    info, compress = COMPRESSED[method]
    assert _restored(compress(PAGE), info, 0) == PAGE
    assert _restored(compress(WITHOUT_HOLE), info | IMAGE_HAS_HOLE, HOLE, HOLE_LENGTH) == PAGE


@pytest.mark.parametrize("method", COMPRESSED)
def test_an_image_that_makes_no_page(method: str) -> None:
    info, compress = COMPRESSED[method]
    assert _restored(compress(WITHOUT_HOLE), info | IMAGE_HAS_HOLE, HOLE, HOLE_LENGTH - 1) is None
    assert _restored(compress(WITHOUT_HOLE), info | IMAGE_HAS_HOLE, HOLE, HOLE_LENGTH + 1) is None
    assert _restored(compress(WITHOUT_HOLE)[:-3], info | IMAGE_HAS_HOLE, HOLE, HOLE_LENGTH) is None
    assert _restored(b"", info | IMAGE_HAS_HOLE, HOLE, HOLE_LENGTH) is None


@pytest.mark.parametrize("method", COMPRESSED)
def test_a_damaged_image_makes_no_page_or_one_with_other_bytes(method: str) -> None:
    """None of the three has a checksum in PostgreSQL; but nothing is written beyond the page, and no other error comes of it."""
    info, compress = COMPRESSED[method]
    sound = compress(PAGE)
    for _ in range(200):
        at = _DICE.randrange(len(sound))
        flipped = sound[:at] + bytes([sound[at] ^ 1 << _DICE.randrange(8)]) + sound[at + 1 :]
        assert len(_restored(flipped, info, 0) or PAGE) == PAGE_SIZE


@pytest.mark.parametrize("method", COMPRESSED)
def test_a_hole_beyond_the_page(method: str) -> None:
    info, compress = COMPRESSED[method]
    assert _restored(compress(WITHOUT_HOLE), info | IMAGE_HAS_HOLE, HOLE + 200, HOLE_LENGTH) is None
    assert _restored(compress(WITHOUT_HOLE), info | IMAGE_HAS_HOLE, 0, 60000) is None
