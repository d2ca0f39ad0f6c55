"""CRC-32C as PostgreSQL computes it (`port/pg_crc32c.h`): Castagnoli polynomial, reflected, inverted before and after.

On x86 the SSE4.2 instruction eats eight bytes at a time; elsewhere a table eats one. Both are chosen when this module is
imported, so that kernels compile against one of them without a branch.
"""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import config
from numba.extending import intrinsic

from tailrace.kernels import kernel
from tailrace.wal.unaligned import u8, u32, word

_CRC_AT = 20
"""Where a record's header (`access/xlogrecord.h`) has xl_crc."""
_RECORD_HEADER = 24


_WITH_SSE42 = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
"""Of the processors that Numba may be told to compile for (NUMBA_CPU_NAME), those of which it is known."""


def _has_sse42() -> bool:
    """Whether the processor that kernels are compiled for has the instruction: this machine's, unless Numba was told of another."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    if config.CPU_NAME or config.CPU_FEATURES is not None:
        return config.CPU_NAME in _WITH_SSE42 or "+sse4.2" in (config.CPU_FEATURES or "")
    from llvmlite import binding  # noqa: PLC0415 - asked once, and only where the answer can be yes

    return bool(binding.get_host_cpu_features().get("sse4.2", False))


def _make_table() -> np.ndarray:
    table = np.zeros(256, np.uint32)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
        table[byte] = crc
    return table


_TABLE = _make_table()


@intrinsic
def _crc32_u64(_context: Any, crc: Any, word: Any) -> Any:
    """llvm.x86.sse42.crc32.64.64(crc, word)"""

    def emit(_ctx: Any, builder: Any, _signature: Any, args: Any) -> Any:
        word64 = ir.IntType(64)
        function = builder.module.declare_intrinsic("llvm.x86.sse42.crc32.64.64", fnty=ir.FunctionType(word64, [word64, word64]))
        return builder.call(function, args)

    return types.uint64(types.uint64, types.uint64), emit


def _crc32(bits: int) -> Any:
    """llvm.x86.sse42.crc32.32.<bits>(crc, number) for the bytes that do not fill a word"""

    @intrinsic
    def crc32(_context: Any, crc: Any, piece: Any) -> Any:
        def emit(_ctx: Any, builder: Any, _signature: Any, args: Any) -> Any:
            word32, narrow = ir.IntType(32), ir.IntType(bits)
            function = builder.module.declare_intrinsic(
                f"llvm.x86.sse42.crc32.32.{bits}", fnty=ir.FunctionType(word32, [word32, narrow])
            )
            return builder.call(function, [args[0], builder.trunc(args[1], narrow) if bits < 64 else args[1]])

        return types.uint32(types.uint32, types.int64), emit

    return crc32


_crc32_u32 = _crc32(32)
_crc32_u8 = _crc32(8)


@kernel
def _extend_by_instruction(crc: np.uint32, buf: np.ndarray, start: int, stop: int) -> np.uint32:
    state = np.uint64(crc)
    at = start
    while at + 8 <= stop:
        state = _crc32_u64(state, word(buf, at))
        at += 8
    rest = np.uint32(state)
    if at + 4 <= stop:
        rest = _crc32_u32(rest, u32(buf, at))
        at += 4
    while at < stop:
        rest = _crc32_u8(rest, u8(buf, at))
        at += 1
    return rest


@kernel
def _extend_by_table(crc: np.uint32, buf: np.ndarray, start: int, stop: int) -> np.uint32:
    rest = np.uint32(crc)
    for at in range(start, stop):
        rest = _TABLE[(rest ^ buf[at]) & np.uint32(0xFF)] ^ (rest >> np.uint32(8))
    return rest


extend = _extend_by_instruction if _has_sse42() else _extend_by_table
"""extend(crc, buf, start, stop): the running (inverted) checksum after more bytes. Kernel."""


@kernel
def record_crc(buf: np.ndarray, at: int, length: int) -> np.uint32:
    """Checksum of a contiguous WAL record: its body first, then its header up to xl_crc (`access/xloginsert.c`'s order)."""
    crc = extend(np.uint32(0xFFFFFFFF), buf, at + _RECORD_HEADER, at + length)
    crc = extend(crc, buf, at, at + _CRC_AT)
    return crc ^ np.uint32(0xFFFFFFFF)


NO_RECORDS = 0
"""The fingerprint of no records. That of others is a polynomial of their checksums, modulo 2^64, so that two neighbours' make that of both
(`fingerprint_of_both`)."""
_BASE = 0x9E3779B97F4A7C15
_MODULUS = 1 << 64


@kernel
def fingerprinted(fingerprint, crc):  # type: ignore[no-untyped-def]
    """The fingerprint (uint64) of records after one more, whose checksum is `crc`."""
    return fingerprint * np.uint64(_BASE) + np.uint64(crc)


def fingerprint_of_both(first: int, second: int, records: int) -> int:
    """The fingerprint of records and of those that follow on them, which are so many. Fingerprints are kept as int64."""
    both = (first * pow(_BASE, records, _MODULUS) + second) % _MODULUS
    return both - _MODULUS if both >= _MODULUS >> 1 else both


def crc32c(data: bytes) -> int:
    """CRC-32C of plain bytes (pg_control, relation maps)."""
    view = np.frombuffer(data, np.uint8)
    return int(extend(np.uint32(0xFFFFFFFF), view, 0, len(view)) ^ np.uint32(0xFFFFFFFF))
