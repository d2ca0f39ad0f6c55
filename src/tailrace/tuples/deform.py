"""Heap tuples -> where each attribute lies (`access/htup_details.h`).

In: references to logged tuples, each an xl_heap_header (infomask2, infomask, hoff: 5 bytes) and what follows it. Out: for each attribute and row its
payload's position, length and form. Nothing is copied here and no value is looked at; `tuples.gather` makes columns of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailrace.kernels import inner_kernel, kernel
from tailrace.tuples.errors import CorruptTuple
from tailrace.tuples.varlena import MISFIT, MISSING, NULL, PLAIN, varlena_at
from tailrace.wal.heap import SIZE_OF_HEADER
from tailrace.wal.unaligned import u8, u16

TUPLE_HEADER = 23  # SizeofHeapTupleHeader, up to t_bits: what xl_heap_header stands for, and what t_hoff counts from
_INFOMASK2_AT = 0
_INFOMASK_AT = 2
_HOFF_AT = 4
_HAS_NULL = 0x0001  # HEAP_HASNULL
_NATTS = 0x07FF  # HEAP_NATTS_MASK

_VARLENA = -1
"""pg_attribute.attlen of a varlena. A cstring has -2, and ends with a zero."""


class Tuples(NamedTuple):
    """Tuple i is `buf[at[i] : at[i] + length[i]]`; where `at` is -1, there is none, and all its attributes are NULL."""

    at: NDArray[np.int64]
    length: NDArray[np.int64]


class AttributeLayout(NamedTuple):
    """By attribute, attlen and attalign, in bytes."""

    length: NDArray[np.int64]
    align: NDArray[np.int64]


class Attributes(NamedTuple):
    """Where payloads lie, how long they are, and in which form: by attribute and row, or by row of one attribute. Of those that are
    not stored place and length mean nothing."""

    at: NDArray[np.int64]
    size: NDArray[np.int32]
    form: NDArray[np.uint8]

    def of(self, attribute: int) -> Attributes:
        """Those of one attribute."""
        return Attributes(self.at[attribute], self.size[attribute], self.form[attribute])


@kernel
def deform_rows(buf, tuples, layout, attributes):  # type: ignore[no-untyped-def]
    """Fill `attributes`. Returns -1, or the first row whose attributes run past its end."""
    for row in range(len(tuples.at)):
        start = tuples.at[row]
        if start < 0:
            for i in range(len(layout.length)):
                attributes.form[i, row] = NULL
        elif not deform_row(buf, start, start + tuples.length[row], layout, attributes, row):
            return row
    return -1


@inner_kernel
def user_data_at(buf, tuple_at):  # type: ignore[no-untyped-def]
    """Where the attributes of a tuple begin, behind the bitmap of NULLs."""
    return tuple_at + SIZE_OF_HEADER + u8(buf, tuple_at + _HOFF_AT) - TUPLE_HEADER


@inner_kernel
def deform_row(buf, start, stop, layout, attributes, row):  # type: ignore[no-untyped-def]
    """Whether the attributes of `buf[start:stop]` end within."""
    bitmap = start + SIZE_OF_HEADER
    if bitmap > stop:
        return False
    stored = u16(buf, start + _INFOMASK2_AT) & _NATTS
    has_null = u16(buf, start + _INFOMASK_AT) & _HAS_NULL
    data = user_data_at(buf, start)
    if data > stop or bitmap + (((stored + 7) >> 3) if has_null else 0) > data:
        return False
    at = data
    for i in range(len(layout.length)):
        if i >= stored:
            attributes.form[i, row] = MISSING
            continue
        if has_null and not (u8(buf, bitmap + (i >> 3)) >> (i & 7)) & 1:
            attributes.form[i, row] = NULL
            continue
        length = layout.length[i]
        aligned = data + ((at - data + layout.align[i] - 1) & -layout.align[i])
        if length > 0:
            form, at, size, end = PLAIN, aligned, length, aligned + length
        elif length == _VARLENA:
            # Padding is zeros, which no short header is; a long one is aligned.
            if at < stop and u8(buf, at) == 0:
                at = aligned
            if at >= stop:
                return False
            form, at, size, end = varlena_at(buf, at, stop)
        else:
            end = at
            while end < stop and u8(buf, end) != 0:
                end += 1
            form, size = PLAIN, end - at
            end += 1
        if form == MISFIT or end > stop:
            return False
        attributes.form[i, row] = form
        attributes.at[i, row] = at
        attributes.size[i, row] = size
        at = end
    return True


class AttributesRoom:
    """Room for the attributes of tuples that a thread takes one lot after another: memory that is new takes longer to get than to fill. What was put
    there is there until it is asked for once more."""

    def __init__(self) -> None:
        self._kept = _new_attributes((0,))

    def of(self, attributes: int, rows: int) -> Attributes:
        """All NULL."""
        shape, count = (attributes, rows), attributes * rows
        if count > len(self._kept.form):
            self._kept = _new_attributes((count,))
        at, size, form = self._kept
        found = Attributes(at[:count].reshape(shape), size[:count].reshape(shape), form[:count].reshape(shape))
        found.form.fill(NULL)
        return found


def deform(
    buf: NDArray[np.uint8], row_at: NDArray[np.int64], row_length: NDArray[np.int64], lengths: NDArray[np.int64], aligns: NDArray[np.int64],
    room: AttributesRoom | None = None,
) -> Attributes:  # fmt: skip
    """Where the attributes lie, by attribute and row; in that room, if there is one. Raises CorruptTuple for a tuple that does not hold what its
    relation has."""
    tuples, shape = Tuples(row_at, row_length), (len(lengths), len(row_at))
    attributes = _new_attributes(shape) if room is None else room.of(*shape)
    bad = deform_rows(buf, tuples, AttributeLayout(lengths, aligns), attributes)
    if bad >= 0:
        raise CorruptTuple(
            "tuple does not have the layout of its relation", row=bad, hint="The catalog state may not belong to this WAL."
        )
    return attributes


def first_misfit(
    buf: NDArray[np.uint8],
    row_at: NDArray[np.int64],
    row_length: NDArray[np.int64],
    lengths: Sequence[int],
    aligns: Sequence[int],
) -> int:
    """The first tuple whose header or attributes run beyond its end, -1 if all keep within. The tuples themselves must lie in `buf`."""
    layout = AttributeLayout(np.array(lengths, np.int64), np.array(aligns, np.int64))
    return int(deform_rows(buf, Tuples(row_at, row_length), layout, _new_attributes((len(lengths), len(row_at)))))


def _new_attributes(shape: tuple[int, ...]) -> Attributes:
    return Attributes(np.zeros(shape, np.int64), np.zeros(shape, np.int32), np.full(shape, NULL, np.uint8))
