"""The C library's functions of floating point, which PostgreSQL asks for exp, sin and their kin: this machine's own, as the last digit is its matter.

A function gives the array of results, and where `errno` told of a domain or of a range.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import errno
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(ctypes.util.find_library("m") or "libm.so.6", use_errno=True)


@cache
def function(name: str, arguments: int = 1) -> Callable[..., float]:
    """One of libm's functions of double."""
    found: Callable[..., float] = getattr(_library(), name)
    found.argtypes = [ctypes.c_double] * arguments  # type: ignore[attr-defined]
    found.restype = ctypes.c_double  # type: ignore[attr-defined]
    return found


def results(name: str, *arguments: Floats) -> Floats:
    """The function's result for each row. Equal arguments are asked about once where all are of one column."""
    call = function(name, len(arguments))
    if len(arguments) == 1:
        distinct, places = np.unique(arguments[0].view(np.int64), return_inverse=True)
        found = np.array([call(each) for each in distinct.view(np.float64).tolist()], np.float64)
        return found[places]
    rows = np.broadcast_arrays(*arguments)
    return np.array([call(*row) for row in zip(*(each.tolist() for each in rows), strict=True)], np.float64)


def errors(name: str, *arguments: float) -> int:
    """What `errno` is after a call."""
    ctypes.set_errno(0)
    function(name, len(arguments))(*arguments)
    return ctypes.get_errno()


def out_of_range(name: str, found: Floats, *arguments: Floats) -> NDArray[np.bool_]:
    """Where `errno` is ERANGE. glibc sets it for results that are 0, subnormal or infinite alone, so only these are asked about again."""
    doubtful = np.flatnonzero((np.abs(found) < np.finfo(np.float64).tiny) | np.isinf(found))
    told = np.zeros(len(found), np.bool_)
    rows = [np.broadcast_to(each, found.shape) for each in arguments]
    for row in doubtful.tolist():
        told[row] = errors(name, *(float(each[row]) for each in rows)) == errno.ERANGE
    return told
