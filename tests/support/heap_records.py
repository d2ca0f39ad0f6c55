"""Heap records, logged tuples and pages, written out (`access/xlogrecord.h`, `access/heapam_xlog.h`, `storage/bufpage.h`)."""

from __future__ import annotations

import struct
from typing import NamedTuple

from tailrace.model import PAGE_SIZE

TABLESPACE = 1663
DATABASE = 5
FILE = 1259
XID = 700

HAS_IMAGE, HAS_DATA = 0x10, 0x20
IMAGE_HAS_HOLE, IMAGE_APPLY = 0x01, 0x02  # since 15
TUPLE_HEADER = struct.pack("<HHB", 3, 0, 24)
"""xl_heap_header of a tuple without NULLs: t_hoff is 24, so one byte of padding follows."""


class Block(NamedTuple):
    """A block reference: its header without the id, and what lies behind the headers."""

    header: bytes
    payload: bytes


def logged_tuple(values: bytes) -> bytes:
    return TUPLE_HEADER + b"\0" + values


def block(
    data: bytes = b"", *, number: int = 0, image: bytes = b"", image_info: int = IMAGE_APPLY, hole: tuple[int, ...] = (0,), file: int = FILE
) -> Block:  # fmt: skip
    """`hole` is the offset of the image's hole and, where the image is compressed, its length."""
    header = struct.pack("<BH", (HAS_DATA if data else 0) | (HAS_IMAGE if image else 0), len(data))
    if image:
        header += struct.pack("<HHB", len(image), hole[0], image_info) + b"".join(
            struct.pack("<H", length) for length in hole[1:]
        )
    return Block(header + struct.pack("<IIII", TABLESPACE, DATABASE, file, number), image + data)


def record(manager: int, info: int, main: bytes, *blocks: Block, xid: int = XID) -> bytes:
    headers = b"".join(bytes([number]) + each.header for number, each in enumerate(blocks))
    rest = headers + bytes([255, len(main)]) + b"".join(each.payload for each in blocks) + main
    return struct.pack("<IIQBBHI", 24 + len(rest), xid, 0, info, manager, 0, 0) + rest


def page(*tuples: tuple[int, int, bytes], xmax: int = 0) -> bytes:
    """A page with (xmin, infomask, logged tuple) at line pointers 1 on, all with this xmax."""
    content = bytearray(PAGE_SIZE)
    upper = PAGE_SIZE
    for number, (xmin, infomask, logged) in enumerate(tuples):
        whole = struct.pack("<III6x", xmin, xmax, 0) + logged[:2] + struct.pack("<H", infomask) + logged[4:]
        upper -= (len(whole) + 7) & ~7
        content[upper : upper + len(whole)] = whole
        struct.pack_into("<I", content, 24 + 4 * number, upper | 1 << 15 | len(whole) << 17)
    struct.pack_into("<HHHH", content, 12, 24 + 4 * len(tuples), upper, PAGE_SIZE, PAGE_SIZE | 4)
    return bytes(content)
