"""One record's headers -> a row of numbers.

In: a contiguous record. Out: `parsed`, an int64 array that the caller keeps for the whole walk: fields of the record first, then one
group of fields per block reference. Layout: `access/xlogrecord.h` (fragment headers, then block data and images, then main data).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tailrace.kernels import inner_kernel, kernel
from tailrace.model import PAGE_SIZE
from tailrace.wal.framing import RECORD_HEADER
from tailrace.wal.record_header import H_INFO, H_MANAGER, H_XID, ID_DATA_LONG, ID_DATA_SHORT, ID_ORIGIN, ID_TOP_XID
from tailrace.wal.unaligned import u8, u16, u32

# XLogRecord: where fields lie that are wanted of a record before the rest of it is
_XID_AT = 4  # xl_xid
_MANAGER_AT = 17  # xl_rmid
_CRC_AT = 20  # xl_crc

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

NEEDS_BLOCK = 1 << 14
"""Of what is asked of a record (`required`), the bit of one that is of a block."""

MAX_BLOCKS = 33
PARSED_SIZE = FIRST_BLOCK + MAX_BLOCKS * BLOCK_FIELDS

# A block reference is a XLogRecordBlockHeader, of an image a XLogRecordBlockImageHeader, of a compressed one with a hole two bytes for that
# (XLogRecordBlockCompressHeader), a RelFileLocator unless it is the same as of the block before, and a BlockNumber.
_FORK_FLAGS = 1  # 1 byte
_BLOCK_DATA_LENGTH = 2  # 2
_SIZE_OF_BLOCK_HEADER = 4
_HOLE_OFFSET = 2  # 2; before it stands the image's length
_BIMG_INFO = 4  # 1
_SIZE_OF_IMAGE_HEADER = 5
_SIZE_OF_COMPRESS_HEADER = 2
_DATABASE_OID = 4  # 4; before it stands the tablespace's
_REL_NUMBER = 8  # 4
_SIZE_OF_LOCATOR = 12
_SIZE_OF_BLOCK_NUMBER = 4
_SIZE_OF_SHORT = 2  # SizeOfXLogRecordDataHeaderShort
_SIZE_OF_LONG = 5
_SIZE_OF_ORIGIN = 3
_SIZE_OF_TOP_XID = 5

# fork_flags and bimg_info bits
_FORK_MASK = 0x0F
WILL_INIT = 0x40
_HAS_IMAGE = 0x10
_SAME_REL = 0x80
_HAS_HOLE = 0x01

_PLAIN_BLOCK = _SIZE_OF_BLOCK_HEADER + _SIZE_OF_LOCATOR + _SIZE_OF_BLOCK_NUMBER
_PLAIN_HEADER = RECORD_HEADER + _PLAIN_BLOCK + _SIZE_OF_SHORT


def new_parsed() -> NDArray[np.int64]:
    """A buffer for one parsed record."""
    return np.zeros(PARSED_SIZE, np.int64)


@inner_kernel
def xid_of(buf, at):  # type: ignore[no-untyped-def]
    """The xid of the record at `buf[at]`."""
    return u32(buf, at + _XID_AT)


@inner_kernel
def manager_of(buf, at):  # type: ignore[no-untyped-def]
    """The resource manager of a record."""
    return u8(buf, at + _MANAGER_AT)


@inner_kernel
def crc_of(buf, at):  # type: ignore[no-untyped-def]
    """The checksum that a record says it has."""
    return u32(buf, at + _CRC_AT)


@inner_kernel
def file_key(parsed):  # type: ignore[no-untyped-def]
    """Database and number of the first block's file as one number."""
    return (parsed[FIRST_BLOCK + DATABASE] << 32) | parsed[FIRST_BLOCK + NUMBER]


@kernel
def parse(buf, at, length, compressed, parsed):  # type: ignore[no-untyped-def]
    """Fill `parsed` from the record at `buf[at:at+length]`. `compressed` are the version's image-compression bits.

    Returns False if the headers do not add up to the record's length (the record is then damaged or of an unknown layout).
    """
    parsed[XID] = u32(buf, at + H_XID)
    parsed[INFO] = u8(buf, at + H_INFO)
    parsed[MANAGER] = u8(buf, at + H_MANAGER)
    parsed[TOP_XID] = 0
    parsed[ORIGIN] = 0
    header = at + RECORD_HEADER
    if (
        length > _PLAIN_HEADER
        and u8(buf, header) == 0
        and not u8(buf, header + _FORK_FLAGS) & (_HAS_IMAGE | _SAME_REL)
        and u8(buf, header + _PLAIN_BLOCK) == ID_DATA_SHORT
    ):
        return _parse_plain(buf, at, length, parsed)
    return _parse_fragments(buf, at, length, compressed, parsed)


@inner_kernel
def _parse_plain(buf, at, length, parsed):  # type: ignore[no-untyped-def]
    """What nearly every record of user data is: one block without an image, then short main data."""
    header = at + RECORD_HEADER
    data_length = u16(buf, header + _BLOCK_DATA_LENGTH)
    main_length = u8(buf, header + _PLAIN_BLOCK + 1)
    if _PLAIN_HEADER + data_length + main_length != length:
        return False
    flags = u8(buf, header + _FORK_FLAGS)
    locator = header + _SIZE_OF_BLOCK_HEADER
    parsed[FIRST_BLOCK + FORK] = flags & _FORK_MASK
    parsed[FIRST_BLOCK + BLOCK_FLAGS] = flags
    parsed[FIRST_BLOCK + BLOCK_ID] = 0
    parsed[FIRST_BLOCK + IMAGE] = 0
    parsed[FIRST_BLOCK + IMAGE_LENGTH] = 0
    parsed[FIRST_BLOCK + TABLESPACE] = u32(buf, locator)
    parsed[FIRST_BLOCK + DATABASE] = u32(buf, locator + _DATABASE_OID)
    parsed[FIRST_BLOCK + NUMBER] = u32(buf, locator + _REL_NUMBER)
    parsed[FIRST_BLOCK + BLOCK] = u32(buf, locator + _SIZE_OF_LOCATOR)
    parsed[FIRST_BLOCK + DATA] = at + _PLAIN_HEADER
    parsed[FIRST_BLOCK + DATA_LENGTH] = data_length
    parsed[BLOCKS] = 1
    parsed[MAIN] = at + _PLAIN_HEADER + data_length
    parsed[MAIN_LENGTH] = main_length
    return True


@inner_kernel
def _parse_fragments(buf, at, length, compressed, parsed):  # type: ignore[no-untyped-def]
    parsed[MAIN_LENGTH] = 0
    stop = at + length
    header = at + RECORD_HEADER
    blocks = 0
    payload = 0  # bytes that the fragments so far say will follow them
    while stop - header > payload:
        fragment = u8(buf, header)
        if fragment < MAX_BLOCKS:
            if blocks >= MAX_BLOCKS:
                return False
            block = FIRST_BLOCK + blocks * BLOCK_FIELDS
            header = _parse_block(buf, header, stop, compressed, parsed, block)
            if header < 0:
                return False
            payload += parsed[block + DATA_LENGTH] + parsed[block + IMAGE_LENGTH]
            blocks += 1
        elif fragment == ID_DATA_SHORT:
            if header + _SIZE_OF_SHORT > stop:
                return False
            parsed[MAIN_LENGTH] = u8(buf, header + 1)
            payload += parsed[MAIN_LENGTH]
            header += _SIZE_OF_SHORT
            break
        elif fragment == ID_DATA_LONG:
            if header + _SIZE_OF_LONG > stop:
                return False
            parsed[MAIN_LENGTH] = u32(buf, header + 1)
            payload += parsed[MAIN_LENGTH]
            header += _SIZE_OF_LONG
            break
        elif fragment == ID_ORIGIN:
            if header + _SIZE_OF_ORIGIN > stop:
                return False
            parsed[ORIGIN] = u16(buf, header + 1)
            header += _SIZE_OF_ORIGIN
        elif fragment == ID_TOP_XID:
            if header + _SIZE_OF_TOP_XID > stop:
                return False
            parsed[TOP_XID] = u32(buf, header + 1)
            header += _SIZE_OF_TOP_XID
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


@inner_kernel
def _parse_block(buf, header, stop, compressed, parsed, block):  # type: ignore[no-untyped-def]
    """Fill the fields from `parsed[block]` on from the block reference at `buf[header]`. Where its data lie comes later; until then IMAGE is 1 if
    there is one. Returns what stands behind it, or -1 if it runs beyond `stop`, or is the first and yet of the same file as the one before."""
    if header + _SIZE_OF_BLOCK_HEADER > stop:
        return -1
    flags = u8(buf, header + _FORK_FLAGS)
    parsed[block + BLOCK_ID] = u8(buf, header)
    parsed[block + FORK] = flags & _FORK_MASK
    parsed[block + BLOCK_FLAGS] = flags
    parsed[block + DATA_LENGTH] = u16(buf, header + _BLOCK_DATA_LENGTH)
    parsed[block + IMAGE] = 0
    parsed[block + IMAGE_LENGTH] = 0
    header += _SIZE_OF_BLOCK_HEADER
    if flags & _HAS_IMAGE:
        if header + _SIZE_OF_IMAGE_HEADER + _SIZE_OF_COMPRESS_HEADER > stop:
            return -1
        image_length = u16(buf, header)
        info = u8(buf, header + _BIMG_INFO)
        parsed[block + IMAGE] = 1
        parsed[block + IMAGE_LENGTH] = image_length
        parsed[block + HOLE] = u16(buf, header + _HOLE_OFFSET)
        parsed[block + IMAGE_INFO] = info
        header += _SIZE_OF_IMAGE_HEADER
        parsed[block + HOLE_LENGTH] = 0
        if info & _HAS_HOLE and info & compressed:
            parsed[block + HOLE_LENGTH] = u16(buf, header)
            header += _SIZE_OF_COMPRESS_HEADER
        elif info & _HAS_HOLE:
            parsed[block + HOLE_LENGTH] = PAGE_SIZE - image_length
    if header + (0 if flags & _SAME_REL else _SIZE_OF_LOCATOR) + _SIZE_OF_BLOCK_NUMBER > stop:
        return -1
    if flags & _SAME_REL:
        if block == FIRST_BLOCK:
            return -1
        before = block - BLOCK_FIELDS
        parsed[block + TABLESPACE] = parsed[before + TABLESPACE]
        parsed[block + DATABASE] = parsed[before + DATABASE]
        parsed[block + NUMBER] = parsed[before + NUMBER]
    else:
        parsed[block + TABLESPACE] = u32(buf, header)
        parsed[block + DATABASE] = u32(buf, header + _DATABASE_OID)
        parsed[block + NUMBER] = u32(buf, header + _REL_NUMBER)
        header += _SIZE_OF_LOCATOR
    parsed[block + BLOCK] = u32(buf, header)
    return header + _SIZE_OF_BLOCK_NUMBER


@inner_kernel
def required(parsed, requirements):  # type: ignore[no-untyped-def]
    """What is asked of the record (`wal.opcodes.requirements`): negative if its kind is not known."""
    return np.int64(requirements[(parsed[MANAGER] << 4) | (parsed[INFO] >> 4)])


@inner_kernel
def is_long_enough(parsed, least):  # type: ignore[no-untyped-def]
    """Whether the record has the main data and the block that its kind has, as `required` says."""
    return parsed[MAIN_LENGTH] >= least & (NEEDS_BLOCK - 1) and (least < NEEDS_BLOCK or parsed[BLOCKS] > 0)


@inner_kernel
def is_among(origins, origin):  # type: ignore[no-untyped-def]
    """Whether an origin is one of these few."""
    for i in range(len(origins)):
        if origins[i] == origin:
            return True
    return False
