"""One record's headers -> a row of numbers.

In: a contiguous record. Out: `parsed`, an int64 array that the caller keeps for the whole walk: fields of the record first, then one
group of fields per block reference. Layout: `access/xlogrecord.h` (fragment headers, then block data and images, then main data).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tailrace.kernels import kernel
from tailrace.wal.framing import RECORD_HEADER
from tailrace.wal.unaligned import u8, u16, u32

# Fields of the record
XID = 0
INFO = 1
MANAGER = 2
TOP_XID = 3  # from fragment 252; 0 if absent
ORIGIN = 4
MAIN = 5  # offset of the main data
MAIN_LENGTH = 6
BLOCKS = 7  # number of block references
FIRST_BLOCK = 8

# Fields of a block reference, relative to block(i)
TABLESPACE = 0
DATABASE = 1
NUMBER = 2
FORK = 3
BLOCK = 4
BLOCK_FLAGS = 5
DATA = 6
DATA_LENGTH = 7
IMAGE = 8  # offset, 0 if there is none
IMAGE_LENGTH = 9
HOLE = 10
HOLE_LENGTH = 11
IMAGE_INFO = 12
BLOCK_ID = 13
BLOCK_FIELDS = 14

MAX_BLOCKS = 33
PARSED_SIZE = FIRST_BLOCK + MAX_BLOCKS * BLOCK_FIELDS

# fork_flags and bimg_info bits
WILL_INIT = 0x40
_HAS_IMAGE = 0x10
_SAME_REL = 0x80
_HAS_HOLE = 0x01
_PLAIN_HEADER = RECORD_HEADER + 4 + 16 + 2  # one block reference, then the length of short main data


def new_parsed() -> NDArray[np.int64]:
    """Room for one parsed record."""
    return np.zeros(PARSED_SIZE, np.int64)


@kernel
def parse(buf, at, length, compressed, parsed):  # type: ignore[no-untyped-def]
    """Fill `parsed` from the record at `buf[at:at+length]`. `compressed` are the version's image-compression bits.

    Returns False if the headers do not add up to the record's length (the record is then damaged or of an unknown layout).
    """
    parsed[XID] = u32(buf, at + 4)
    parsed[INFO] = u8(buf, at + 16)
    parsed[MANAGER] = u8(buf, at + 17)
    parsed[TOP_XID] = 0
    parsed[ORIGIN] = 0
    stop = at + length
    header = at + RECORD_HEADER
    if (
        length > _PLAIN_HEADER
        and u8(buf, header) == 0
        and not u8(buf, header + 1) & (_HAS_IMAGE | _SAME_REL)
        and u8(buf, header + 20) == 255
    ):
        # What nearly every record of user data is: one block without an image, then short main data.
        data_length = u16(buf, header + 2)
        main_length = u8(buf, header + 21)
        if _PLAIN_HEADER + data_length + main_length != length:
            return False
        flags = u8(buf, header + 1)
        parsed[FIRST_BLOCK + FORK] = flags & 0x0F
        parsed[FIRST_BLOCK + BLOCK_FLAGS] = flags
        parsed[FIRST_BLOCK + BLOCK_ID] = 0
        parsed[FIRST_BLOCK + IMAGE] = 0
        parsed[FIRST_BLOCK + IMAGE_LENGTH] = 0
        parsed[FIRST_BLOCK + TABLESPACE] = u32(buf, header + 4)
        parsed[FIRST_BLOCK + DATABASE] = u32(buf, header + 8)
        parsed[FIRST_BLOCK + NUMBER] = u32(buf, header + 12)
        parsed[FIRST_BLOCK + BLOCK] = u32(buf, header + 16)
        parsed[FIRST_BLOCK + DATA] = at + _PLAIN_HEADER
        parsed[FIRST_BLOCK + DATA_LENGTH] = data_length
        parsed[BLOCKS] = 1
        parsed[MAIN] = at + _PLAIN_HEADER + data_length
        parsed[MAIN_LENGTH] = main_length
        return True
    parsed[MAIN_LENGTH] = 0
    blocks = 0
    payload = 0
    while stop - header > payload:
        kind = u8(buf, header)
        if kind < MAX_BLOCKS:
            if header + 4 > stop or blocks >= MAX_BLOCKS:
                return False
            block = FIRST_BLOCK + blocks * BLOCK_FIELDS
            blocks += 1
            flags = u8(buf, header + 1)
            parsed[block + BLOCK_ID] = kind
            parsed[block + FORK] = flags & 0x0F
            parsed[block + BLOCK_FLAGS] = flags
            parsed[block + DATA_LENGTH] = u16(buf, header + 2)
            payload += parsed[block + DATA_LENGTH]
            header += 4
            parsed[block + IMAGE] = 0
            parsed[block + IMAGE_LENGTH] = 0
            if flags & _HAS_IMAGE:
                image_length = u16(buf, header)
                info = u8(buf, header + 4)
                parsed[block + IMAGE] = 1
                parsed[block + IMAGE_LENGTH] = image_length
                parsed[block + HOLE] = u16(buf, header + 2)
                parsed[block + IMAGE_INFO] = info
                header += 5
                parsed[block + HOLE_LENGTH] = 0
                if info & compressed:
                    if info & _HAS_HOLE:
                        parsed[block + HOLE_LENGTH] = u16(buf, header)
                        header += 2
                elif info & _HAS_HOLE:
                    parsed[block + HOLE_LENGTH] = 8192 - image_length
                payload += image_length
            if flags & _SAME_REL:
                if blocks < 2:
                    return False
                before = block - BLOCK_FIELDS
                parsed[block + TABLESPACE] = parsed[before + TABLESPACE]
                parsed[block + DATABASE] = parsed[before + DATABASE]
                parsed[block + NUMBER] = parsed[before + NUMBER]
            else:
                parsed[block + TABLESPACE] = u32(buf, header)
                parsed[block + DATABASE] = u32(buf, header + 4)
                parsed[block + NUMBER] = u32(buf, header + 8)
                header += 12
            parsed[block + BLOCK] = u32(buf, header)
            header += 4
        elif kind == 255:
            parsed[MAIN_LENGTH] = u8(buf, header + 1)
            payload += parsed[MAIN_LENGTH]
            header += 2
            break
        elif kind == 254:
            parsed[MAIN_LENGTH] = u32(buf, header + 1)
            payload += parsed[MAIN_LENGTH]
            header += 5
            break
        elif kind == 253:
            parsed[ORIGIN] = u16(buf, header + 1)
            header += 3
        elif kind == 252:
            parsed[TOP_XID] = u32(buf, header + 1)
            header += 5
        else:
            return False
    if stop - header != payload:
        return False
    parsed[BLOCKS] = blocks
    for i in range(blocks):
        block = FIRST_BLOCK + i * BLOCK_FIELDS
        if parsed[block + IMAGE] != 0:
            parsed[block + IMAGE] = header
            header += parsed[block + IMAGE_LENGTH]
        parsed[block + DATA] = header
        header += parsed[block + DATA_LENGTH]
    parsed[MAIN] = header
    return True
