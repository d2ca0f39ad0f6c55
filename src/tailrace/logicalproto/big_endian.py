"""Numbers in network byte order, for kernels: read from, or put into, an array of bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tailrace.kernels import inner_kernel


@inner_kernel
def be16(data: Any, at: Any) -> Any:
    """Read an unsigned number of two bytes."""
    return (np.int64(data[at]) << 8) | np.int64(data[at + 1])


@inner_kernel
def be32(data: Any, at: Any) -> Any:
    """Read an unsigned number of four bytes."""
    return (be16(data, at) << 16) | be16(data, at + 2)


@inner_kernel
def be64(data: Any, at: Any) -> Any:
    """Signed; an LSN beyond half of what there could be is negative."""
    return (be32(data, at) << 32) | be32(data, at + 4)


@inner_kernel
def put_be16(out: Any, to: Any, number: Any) -> Any:
    """Returns where the next byte goes."""
    out[to] = (number >> 8) & 0xFF
    out[to + 1] = number & 0xFF
    return to + 2


@inner_kernel
def put_be32(out: Any, to: Any, number: Any) -> Any:
    """Returns where the next byte goes."""
    value = np.int64(number)
    out[to] = (value >> 24) & 0xFF
    out[to + 1] = (value >> 16) & 0xFF
    out[to + 2] = (value >> 8) & 0xFF
    out[to + 3] = value & 0xFF
    return to + 4
