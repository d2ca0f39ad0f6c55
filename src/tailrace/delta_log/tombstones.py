"""Tombstones of a Delta table as columns: which files were removed, and when. A table that is written to all day has tens of thousands.

In: actions of commits, and the column `remove` of checkpoints. Out: the same column for the next checkpoint, with what VACUUM still has to know, and
until when each file is to stay. VACUUM deletes what neither the table nor a tombstone names, so of several tombstones that name one file the last
will do, and none is needed of a file that the table itself names: a file that got one deletion vector after the other has one tombstone, not a
thousand.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.delta_log.actions import DataFile, RemoveFile, json_of
from tailrace.delta_log.deletion_vector import DeletionVector

TEXTS = pa.map_(pa.string(), pa.string())
VECTOR = pa.struct(
    {
        "storageType": pa.string(),
        "pathOrInlineDv": pa.string(),
        "offset": pa.int32(),
        "sizeInBytes": pa.int32(),
        "cardinality": pa.int64(),
    }
)
REMOVE = pa.struct(
    {
        "path": pa.string(),
        "deletionTimestamp": pa.int64(),
        "dataChange": pa.bool_(),
        "extendedFileMetadata": pa.bool_(),
        "partitionValues": TEXTS,
        "size": pa.int64(),
        "deletionVector": VECTOR,
        "baseRowId": pa.int64(),
        "defaultRowCommitVersion": pa.int64(),
    }
)
_NEVER = 2**63 - 1
"""When a file is to go of which nobody said when it was removed."""


def columns_of(removed: Iterable[RemoveFile]) -> pa.StructArray:
    """These actions as a checkpoint has them."""
    return as_columns([json_of(each)["remove"] for each in removed], REMOVE)


def as_columns(said: Sequence[dict[str, Any]], kind: pa.StructType) -> pa.StructArray:
    """Actions of one kind, as JSON has them, a column at a time: row by row Arrow takes ten times as long."""
    arrays = []
    for field in kind:
        values = [each.get(field.name) for each in said]
        if field.type == TEXTS:
            values = [None if value is None else list(value.items()) for value in values]
        elif pa.types.is_struct(field.type):
            present = [value or {} for value in values]
            mask = pa.array([value is None for value in values], pa.bool_())
            children = [pa.array([each.get(child.name) for each in present], child.type) for child in field.type]
            arrays.append(pa.StructArray.from_arrays(children, fields=list(field.type), mask=mask))
            continue
        arrays.append(pa.array(values, field.type))
    return pa.StructArray.from_arrays(arrays, fields=list(kind))


def conformed(removed: pa.StructArray, kind: pa.StructType = REMOVE) -> pa.StructArray:
    """What another writer's checkpoint has, in the columns of ours. Raises ArrowException where it cannot be."""
    have = dict(zip((field.name for field in removed.type), removed.flatten(), strict=True))
    arrays = []
    for field in kind:
        there = have.get(field.name)
        if there is None:
            arrays.append(pa.nulls(len(removed), field.type))
        elif pa.types.is_struct(field.type):
            arrays.append(conformed(there, field.type))
        else:
            arrays.append(there.cast(field.type))
    mask = removed.is_null() if removed.null_count else None
    return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=mask)


def still_needed(removed: pa.StructArray, files: Iterable[DataFile], oldest: int) -> pa.StructArray:
    """Without those of before `oldest` (milliseconds of Unix's clock), and such as name nothing that others, or `files` of the table, do not."""
    files = list(files)
    paths, times = removed.field("path"), _times(removed)
    vectors = _vector_files(removed)
    named = _known({file.path for file in files}), _known(_stored_in(files))
    keep = _last_of_each(paths, times, named[0]) | _last_of_each(vectors, times, named[1])
    return removed.filter(pa.array(keep & (times >= oldest)))


def kept_until(removed: pa.StructArray, retention: float) -> dict[str, float]:
    """Until when each file is to stay, in seconds of Unix's clock."""
    ends = [math.inf if at == _NEVER else at / 1000 + retention for at in _times(removed).tolist()]
    until: dict[str, float] = {}
    for path, end in zip(removed.field("path").to_pylist(), ends, strict=True):
        until[path] = max(until.get(path, 0.0), end)
    in_file: dict[str, float] = {}
    for text, end in zip(_vector_files(removed).to_pylist(), ends, strict=True):
        if text is not None:
            in_file[text] = max(in_file.get(text, 0.0), end)
    for text, end in in_file.items():
        if (name := DeletionVector("u", text, 0, 0).file_name) is not None:
            until[name] = max(until.get(name, 0.0), end)
    return until


def _times(removed: pa.StructArray) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return pc.fill_null(removed.field("deletionTimestamp"), _NEVER).to_numpy()


def _vector_files(removed: pa.StructArray) -> pa.Array:
    """How each tombstone's vector names its file; null of none, and of one that lies in the log or elsewhere."""
    storage, text = removed.field("deletionVector").flatten()[:2]
    return pc.if_else(pc.fill_null(pc.equal(storage, "u"), False), text, pa.scalar(None, pa.string()))


def _stored_in(files: Iterable[DataFile]) -> set[str]:
    vectors = (file.deletion_vector for file in files if file.deletion_vector)
    return {vector.path_or_inline for vector in vectors if vector.storage_type == "u"}


def _known(names: set[str]) -> pa.Array:
    return pa.array(sorted(names), pa.string())


def _last_of_each(
    names: pa.Array, times: np.ndarray[tuple[int], np.dtype[np.int64]], known: pa.Array
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Of each name that is not `known` the last, by these times."""
    keep = np.zeros(len(names), np.bool_)
    wanted = np.flatnonzero(pc.and_(names.is_valid(), pc.invert(pc.is_in(names, known))).to_numpy(zero_copy_only=False))
    if len(wanted):
        codes = names.take(pa.array(wanted)).dictionary_encode().indices.to_numpy()
        order = np.lexsort((times[wanted], codes))
        ends = np.flatnonzero(np.append(np.diff(codes[order]) != 0, True))
        keep[wanted[order[ends]]] = True
    return keep
