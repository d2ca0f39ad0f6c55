"""Numbers in network byte order, one at a time: for messages of both protocols (manual, "Message Data Types"). For kernels: `big_endian.py`."""

from __future__ import annotations

from collections.abc import Callable

from tailrace.logicalproto.payload import Payload


def read_number(size: int, *, signed: bool = False) -> Callable[[Payload], int]:
    """What reads one of so many bytes."""
    return lambda message: int.from_bytes(message.take(size), "big", signed=signed)


def write_number(size: int, *, signed: bool = False) -> Callable[[bytearray, int], None]:
    """What appends one."""

    def write(out: bytearray, value: int) -> None:
        out += value.to_bytes(size, "big", signed=signed)

    return write
