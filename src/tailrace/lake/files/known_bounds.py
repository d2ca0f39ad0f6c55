"""What the log says of the values in files, read once and kept from one version of a table to the next.

In: files, and columns. Out: their bounds, as `file_bounds` has them, and which files may have any of some keys. A table of ten thousand files has
that many texts of JSON, of which a commit changes a few. State: per column what was read, by the path of the file and the text that it was read from.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.apply.matching import Numbers
from tailrace.dataclass import dataclass
from tailrace.delta_log.actions import DataFile
from tailrace.delta_log.file_bounds import FileBounds, file_bounds

_FORGOTTEN = 10_000
"""So many files that are gone may stay in here, beside as many as there are."""


@dataclass(slots=True)
class _Known:
    places: dict[str, tuple[str, int]]
    bounds: FileBounds


class KnownBounds:
    """Of one table. Whoever uses it at once with others loses nothing but time."""

    def __init__(self) -> None:
        self._columns: dict[tuple[str, str], _Known] = {}

    def of(self, files: Sequence[DataFile], schema: pa.Schema, columns: Sequence[str]) -> dict[str, FileBounds]:
        """Of each of these columns of the schema, the bounds in each file."""
        return {name: self._of(files, schema, name) for name in columns}

    def _of(self, files: Sequence[DataFile], schema: pa.Schema, name: str) -> FileBounds:
        key = name, str(schema.field(name).type)
        known = self._columns.get(key)
        places = known.places if known else {}
        new = [file for file in files if (found := places.get(file.path)) is None or found[0] != file.statistics]
        if known is None or len(places) + len(new) > 2 * len(files) + _FORGOTTEN:
            new, known = list(files), None
        if new or known is None:
            known = _with(known, new, file_bounds(new, schema, [name])[name])
            self._columns[key] = known
        chosen = pa.array([known.places[file.path][1] for file in files], pa.int64())
        return FileBounds(known.bounds.lower.take(chosen), known.bounds.upper.take(chosen))


def _with(known: _Known | None, files: Sequence[DataFile], bounds: FileBounds) -> _Known:
    if known is None:
        return _Known({file.path: (file.statistics, place) for place, file in enumerate(files)}, bounds)
    first = len(known.bounds.lower)
    more = {file.path: (file.statistics, first + place) for place, file in enumerate(files)}
    both = zip((known.bounds.lower, known.bounds.upper), (bounds.lower, bounds.upper), strict=True)
    return _Known(known.places | more, FileBounds(*(pa.concat_arrays(pair) for pair in both)))


@dataclass(frozen=True, slots=True)
class KeysInFiles:
    """Which keys each file may have, by the bounds of one column: those at `order[first:last]`, and the `nulls`, which nothing bounds."""

    order: Numbers
    nulls: Numbers
    first: Numbers
    last: Numbers

    @classmethod
    def of(cls, bounds: FileBounds, keys: pa.Array) -> KeysInFiles:
        is_null = keys.is_null().to_numpy(zero_copy_only=False)
        order = pc.sort_indices(keys).to_numpy().astype(np.int64)[: len(keys) - keys.null_count]
        ordered = keys.take(pa.array(order))
        ends = np.where(bounds.lower.is_null(), 0, _before(ordered, bounds.lower, "left"))
        last = np.where(bounds.upper.is_null(), len(ordered), _before(ordered, bounds.upper, "right"))
        return cls(order, np.flatnonzero(is_null), ends.astype(np.int64), last.astype(np.int64))

    @property
    def files(self) -> Numbers:
        """Those that may have any."""
        return np.arange(len(self.first)) if len(self.nulls) else np.flatnonzero(self.last > self.first)

    def keys_of(self, file: int) -> Numbers:
        """The places of keys that it may have, ascending."""
        return np.sort(np.concatenate([self.order[self.first[file] : self.last[file]], self.nulls]))


def _before(ordered: pa.Array, bounds: pa.Array, side: str) -> Numbers:
    """How many of the values come before each bound (0 for null), those that are equal among them if `side` is right."""
    kind = ordered.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_temporal(kind):
        values, wanted = (_plain(each) for each in (ordered, bounds))
        return np.searchsorted(values, wanted, side).astype(np.int64)  # type: ignore[call-overload]
    find, texts = bisect_left if side == "left" else bisect_right, ordered.to_pylist()
    return np.array([0 if bound is None else find(texts, bound) for bound in bounds.to_pylist()], np.int64)


def _plain(values: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.generic]]:
    if pa.types.is_temporal(values.type):
        values = values.cast(pa.int32() if values.type.bit_width == 32 else pa.int64())
    return values.fill_null(0).to_numpy(zero_copy_only=False)
