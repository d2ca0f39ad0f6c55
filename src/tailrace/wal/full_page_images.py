"""Full-page images: a page as a record left it, without the hole in its middle, perhaps compressed (`access/xlogrecord.h`).

In: records that `wal.records` has parsed. Out: pages. Kernels expand pglz and LZ4; zstd is Arrow's, so pages compressed so are expanded beforehand,
all at once.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tailrace.kernels import inner_kernel, kernel
from tailrace.memcpy import memcpy
from tailrace.model import PAGE_SIZE
from tailrace.wal import records
from tailrace.wal.compression import lz4, pglz
from tailrace.wal.hashing import find, rehashed
from tailrace.wal.records import FIRST_BLOCK, HOLE, HOLE_LENGTH, IMAGE, IMAGE_INFO, IMAGE_LENGTH
from tailrace.wal.versions import WalFormat

_SLACK = 64
"""Bytes that expanding may write beyond the page."""
_SMALLEST_BLOCK_HEADER = 4 + 5 + 4
"""XLogRecordBlockHeader and XLogRecordBlockImageHeader of the same relation as before, and a block number."""


class ImageBits(NamedTuple):
    """BKPIMAGE_* of one major: images that replay installs, and how one is compressed."""

    apply: int
    pglz: int
    lz4: int
    zstd: int
    compressed: int

    @classmethod
    def of(cls, form: WalFormat) -> ImageBits:
        return cls(form.image_apply, form.image_pglz, form.image_lz4, form.image_zstd, form.image_compressed)


class ZstdPages(NamedTuple):
    """Pages from images compressed with zstd, without their holes: `page[i]` is expanded from `at[i]`, found by a `wal.hashing` table."""

    table: NDArray[np.int32]
    at: NDArray[np.int64]
    page: NDArray[np.uint8]


class Images(NamedTuple):
    """What restoring the images of some records takes: the bits, pages of those compressed with zstd, and room for expanding one of the others."""

    bits: ImageBits
    zstd: ZstdPages
    expanded: NDArray[np.uint8]

    @classmethod
    def of(cls, form: WalFormat, data: NDArray[np.uint8], at: NDArray[np.int64], length: NDArray[np.int64]) -> Images:
        """For records `data[at[i] : at[i] + length[i]]`."""
        bits = ImageBits.of(form)
        return cls(bits, expand_zstd(data, at, length, bits), new_page())


def new_page() -> NDArray[np.uint8]:
    """A buffer for one page."""
    return np.zeros(PAGE_SIZE + _SLACK, np.uint8)


@inner_kernel
def is_installed(parsed, block, bits):  # type: ignore[no-untyped-def]
    """Whether the block has an image that replay puts in place of the page; others are there for checks only."""
    return parsed[block + IMAGE] != 0 and parsed[block + IMAGE_INFO] & bits.apply != 0


@inner_kernel
def restore_block_image(buf, parsed, block, images, page):  # type: ignore[no-untyped-def]
    """Fill `page` from a block's image, as RestoreBlockImage does. False if the image does not make a page."""
    bits = images.bits
    expanded = images.expanded
    at = parsed[block + IMAGE]
    length = parsed[block + IMAGE_LENGTH]
    hole_length = parsed[block + HOLE_LENGTH]
    hole = parsed[block + HOLE] if hole_length else np.int64(0)
    info = parsed[block + IMAGE_INFO]
    size = PAGE_SIZE - hole_length
    if not hole <= size <= PAGE_SIZE:
        return False
    if info & bits.compressed == 0:
        if length != size:
            return False
        _put_with_hole(buf, at, size, hole, page)
        return True
    if info & bits.pglz:
        expanded_size = pglz(buf, at, at + length, expanded, 0, size)
    elif info & bits.lz4:
        expanded_size = lz4(buf, at, at + length, expanded, 0, size)
    else:
        slot = find(images.zstd.table, images.zstd.at, at)
        if slot < 0:
            return False
        _put_with_hole(images.zstd.page, slot * PAGE_SIZE, size, hole, page)
        return True
    if expanded_size != size:
        return False
    _put_with_hole(expanded, 0, size, hole, page)
    return True


@inner_kernel
def _put_with_hole(image, at, size, hole, page):  # type: ignore[no-untyped-def]
    """The `size` bytes of an image as a page, with zeros where it has its hole."""
    hole_stop = hole + PAGE_SIZE - size
    memcpy(page, 0, image, at, hole)
    for i in range(hole, hole_stop):
        page[i] = 0
    memcpy(page, hole_stop, image, at + hole, size - hole)


class CompressedImages(NamedTuple):
    """Where compressed images lie, how long they are, and how long they were before."""

    at: NDArray[np.int64]
    length: NDArray[np.int64]
    size: NDArray[np.int64]


@kernel
def note_zstd(data, at, length, bits, parsed, images):  # type: ignore[no-untyped-def]
    """Note the images compressed with zstd of records `data[at[i] : at[i] + length[i]]`. Returns how many."""
    count = 0
    for row in range(len(at)):
        if not records.parse(data, at[row], length[row], bits.compressed, parsed):
            continue
        for i in range(parsed[records.BLOCKS]):
            block = FIRST_BLOCK + i * records.BLOCK_FIELDS
            if parsed[block + IMAGE] == 0 or not parsed[block + IMAGE_INFO] & bits.zstd:
                continue
            size = PAGE_SIZE - parsed[block + HOLE_LENGTH]
            if size > 0 and count < len(images.at):
                images.at[count] = parsed[block + IMAGE]
                images.length[count] = parsed[block + IMAGE_LENGTH]
                images.size[count] = size
                count += 1
    return count


def expand_zstd(data: NDArray[np.uint8], at: NDArray[np.int64], length: NDArray[np.int64], bits: ImageBits) -> ZstdPages:
    """All pages that records bring compressed with zstd. Of an image that is damaged there is none."""
    most = len(data) // _SMALLEST_BLOCK_HEADER + 1 if bits.zstd else 0
    images = CompressedImages(*(np.zeros(most, np.int64) for _ in CompressedImages._fields))
    count = note_zstd(data, at, length, bits, records.new_parsed(), images) if bits.zstd else 0
    images = CompressedImages(*(column[:count].copy() for column in images))
    codec = pa.Codec("zstd")
    pages = np.zeros((count, PAGE_SIZE), np.uint8)
    whole = 0
    for start, stored, size in zip(*(column.tolist() for column in images), strict=True):
        with suppress(OSError, pa.ArrowException):
            expanded = codec.decompress(data[start : start + stored].tobytes(), decompressed_size=size)
            pages[whole, :size] = np.frombuffer(expanded, np.uint8)
            images.at[whole] = start
            whole += 1
    return ZstdPages(rehashed(images.at, whole, max(whole, 1)), images.at[:whole], pages)
