"""Texts put end to end, or picked from several runs of texts, in another order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from tailrace.kernels import kernel
from tailrace.memcpy import memcpy
from tailrace.types.values import Texts


def end_to_end(parts: Iterable[Texts], room: int) -> Texts:
    """All of them in one run, each let go before the next is asked for. More than they are likely to take is a good `room`: what is not written to
    costs nothing, and NumPy asks for large pages, which an array that grows would not have."""
    waiting = iter(parts)
    first = next(waiting, None)
    if first is None:
        return Texts.of([])
    second = next(waiting, None)
    if second is None:
        return first
    whole, used = np.empty(room, np.uint8), 0
    offsets = [np.zeros(1, np.int64)]
    parts = chain((first, second), waiting)
    del first, second
    while (part := next(parts, None)) is not None:
        offsets.append(part.offsets[1:] + used)
        stop = used + len(part.data)
        if stop > len(whole):
            before, whole = whole[:used], np.empty(2 * stop, np.uint8)
            whole[:used] = before
            del before
        whole[used:stop] = part.data
        used = stop
        del part
    return Texts(np.concatenate(offsets), whole[:used])


def taken(parts: Sequence[Texts], order: NDArray[np.int64]) -> Texts:
    """Rows of the concatenation of `parts`, in the given order, each copied once."""
    parts = [part for part in parts if len(part.offsets) > 1]
    if len(parts) == 1 and bool((np.diff(order) == 1).all()) and (not len(order) or order[0] == 0):
        return parts[0]
    lengths = np.concatenate([np.diff(part.offsets) for part in parts]) if parts else np.zeros(0, np.int64)
    offsets = np.zeros(len(order) + 1, np.int64)
    np.cumsum(lengths[order], out=offsets[1:])
    out = np.empty(offsets[-1], np.uint8)
    place = np.empty(len(order), np.int64)
    place[order] = offsets[:-1]
    base = 0
    for part in parts:
        rows = len(part.offsets) - 1
        copy_texts(part.data, part.offsets, place[base : base + rows], out)
        base += rows
    return Texts(offsets, out)


@kernel
def copy_texts(data, offsets, place, out):  # type: ignore[no-untyped-def]
    """Text i to out[place[i]]."""
    for i in range(len(place)):
        memcpy(out, place[i], data, offsets[i], offsets[i + 1] - offsets[i])
