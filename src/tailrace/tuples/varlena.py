"""The header of a variable-length value, and what it says of the rest (`varatt.h`), on little-endian machines:

xxxxxxx1            short: one byte, the value's length with it in the upper seven bits
00000001 tag …      external: a byte that says what follows; on disk, a varatt_external
xxxxxx00 …          plain: four bytes, the length with them in the upper thirty bits
xxxxxx10 … tcinfo   compressed: as plain, then a word with the size before and the method
"""

from __future__ import annotations

from tailrace.kernels import inner_kernel
from tailrace.wal.unaligned import u8, u32

# How a value is stored
PLAIN = 0
NULL = 1
MISSING = 2  # the tuple is older than the column
PGLZ = 3  # compressed in line; at and size are the stream's, behind tcinfo
LZ4 = 4
EXTERNAL = 5  # at is the varatt_external's

MISFIT = -1
"""Instead of a form: no such value, or it runs on beyond the end."""

LONG_HEADER = 4  # VARHDRSZ
SHORT_HEADER = 1  # VARHDRSZ_SHORT
_COMPRESSED_HEADER = 8  # VARHDRSZ_COMPRESSED
_EXTERNAL_HEADER = 2  # VARHDRSZ_EXTERNAL
_EXTERNAL_MARK = 1
_ON_DISK = 18  # VARTAG_ONDISK

# varatt_external: va_rawsize, va_extinfo, va_valueid, va_toastrelid
SIZE_OF_EXTERNAL = 16
_EXTINFO_AT = 4
_VALUEID_AT = 8

_SIZE_BITS = 30  # of va_tcinfo and va_extinfo: below them a size, above them the compression method
_SIZE_MASK = (1 << _SIZE_BITS) - 1
_TCINFO = 4


@inner_kernel
def varlena_at(buf, at, stop):  # type: ignore[no-untyped-def]
    """The value at `buf[at]`, which is below `stop`: (form, where its payload begins, the payload's size, where the value ends), or MISFIT."""
    first = u8(buf, at)
    if first == _EXTERNAL_MARK:
        payload = at + _EXTERNAL_HEADER
        if payload + SIZE_OF_EXTERNAL > stop or u8(buf, at + 1) != _ON_DISK:
            return MISFIT, at, 0, at
        return EXTERNAL, payload, SIZE_OF_EXTERNAL, payload + SIZE_OF_EXTERNAL
    if first & 1:
        return PLAIN, at + SHORT_HEADER, (first >> 1) - SHORT_HEADER, at + (first >> 1)
    if at + LONG_HEADER > stop:
        return MISFIT, at, 0, at
    total = u32(buf, at) >> 2
    compressed = first & 3 == 2
    header = _COMPRESSED_HEADER if compressed else LONG_HEADER
    if total < header:
        return MISFIT, at, 0, at
    form = PLAIN
    if compressed:
        form = LZ4 if u32(buf, at + LONG_HEADER) >> _SIZE_BITS else PGLZ
    return form, at + header, total - header, at + total


@inner_kernel
def size_before(buf, at):  # type: ignore[no-untyped-def]
    """Of a value compressed in line, whose stream begins at `at`, the size before."""
    return u32(buf, at - _TCINFO) & _SIZE_MASK


@inner_kernel
def external_size(buf, at):  # type: ignore[no-untyped-def]
    """The size of an external value, not compressed."""
    return u32(buf, at) - LONG_HEADER


@inner_kernel
def stored_size(buf, at):  # type: ignore[no-untyped-def]
    """How much of an external value there is in chunks: less than its size if it is compressed."""
    return u32(buf, at + _EXTINFO_AT) & _SIZE_MASK


@inner_kernel
def external_is_lz4(buf, at):  # type: ignore[no-untyped-def]
    """Whether a compressed one is so by LZ4, not pglz."""
    return u32(buf, at + _EXTINFO_AT) >> _SIZE_BITS != 0


@inner_kernel
def value_id(buf, at):  # type: ignore[no-untyped-def]
    """Which value of its TOAST table an external value is."""
    return u32(buf, at + _VALUEID_AT)
