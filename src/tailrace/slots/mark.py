"""A mark: all that decoding must know of the log before an LSN, to go on from there (`plan.carried`). All slots of a database
share its marks.

In and out: `Carried`, and its bytes. The parts of indexes that it holds have full xids, and need not be sealed. What is read is
checked as indexes and states are (`wal.indexfile`, `catalog.state.state_file`), and besides that its parts are of one system: kernels
believe them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.state.catalog_state import CatalogState
from tailrace.catalog.state.state_file import STATE_DTYPES, content_of_state, state_from
from tailrace.checksummed_file import Dtypes, FileKind, fact
from tailrace.model import Lsn
from tailrace.plan.carried import Carried
from tailrace.ragged import bounds_of
from tailrace.transactions.commit_or_abort import NEVER, EndedElsewhere
from tailrace.transactions.scanned_log import Earlier, InvalidatedRelations
from tailrace.wal.index import Index
from tailrace.wal.indexfile import content_of_index, index_dtypes, index_from
from tailrace.wal.log_fingerprint import LogFingerprint

MARK_FILE = FileKind(
    "mark", "a mark", version=2, compression="zstd",
    hint="The mark before it is used. If there is none, drop the slot and create it again.",
)  # fmt: skip
_STATE, _REMNANTS = "state.", "remnants."
"""The file calls the indexes of unfinished transactions `remnants`."""
_LENGTHS = "remnant_lengths"
"""One row an index: how much of each array is its, in the order of their names below."""
_OF_INDEX, _SEALED = index_dtypes(np.int64), index_dtypes()
_DTYPES: Dtypes = {
    **{_STATE + name: dtype for name, dtype in STATE_DTYPES.items()},
    **{_REMNANTS + name: dtype for name, dtype in _OF_INDEX.items()},
    _LENGTHS: np.dtype("<i8"), "ended.xid": np.dtype("<i8"), "ended.seen_from": np.dtype("<i8"), "catalog_changes": np.dtype("<i8"),
}  # fmt: skip
_XIDS = [name for name, dtype in _OF_INDEX.items() if dtype != _SEALED[name]]


def write_mark(carried: Carried) -> bytes:
    """The file's bytes. The catalogs' state must be complete (every page known)."""
    if not carried.state.complete:
        raise ValueError("a mark needs a catalog state that knows every page")
    earlier = carried.earlier
    of_state, state = content_of_state(carried.state)
    of_indexes, indexes = _content_of_indexes(earlier.indexes_of_unfinished)
    ended = earlier.ended or EndedElsewhere.none()
    arrays = {
        **{_STATE + name: array for name, array in state.items()}, **indexes,
        "ended.xid": ended.xid, "ended.seen_from": ended.seen_from, "catalog_changes": earlier.catalog_changes,
    }  # fmt: skip
    is_open = earlier.open_at_start
    facts = {
        "lsn": carried.lsn, "next_xid": carried.next_xid, "known_from": carried.known_from, "last": carried.last,
        "state": of_state, "remnants": of_indexes,
        "open_at_start": None if is_open is None else list(is_open.items()), "knows_ended": earlier.ended is not None,
        "wal_levels": earlier.wal_levels, "began_low": earlier.began_low, "stale": earlier.invalidated.pairs(),
        "stood": carried.fingerprint.facts() if carried.fingerprint is not None else None,
    }  # fmt: skip
    return MARK_FILE.write(
        facts, {name: array.astype(_DTYPES[name], casting="safe", copy=False) for name, array in arrays.items()}
    )


def read_mark(data: bytes, where: str) -> Carried:
    """Raises UnsupportedFile for files that are no mark, or of a format that this version does not read; CorruptFile for
    damaged ones."""
    carried = MARK_FILE.read_as(data, where, _DTYPES, _carried)
    if why := _contradiction(carried):
        raise MARK_FILE.unsound(where, why)
    return carried


def _content_of_indexes(indexes: Sequence[Index]) -> tuple[list[dict[str, Any]], dict[str, NDArray]]:
    """Facts of each, and their arrays one behind the other, since a file's arrays must be known beforehand."""
    contents = [content_of_index(each) for each in indexes]
    joined: dict[str, NDArray] = {
        _REMNANTS + name: np.concatenate([np.zeros(0, dtype), *(arrays[name].ravel() for _, arrays in contents)])
        for name, dtype in _OF_INDEX.items()
    }
    joined[_LENGTHS] = np.array([[len(arrays[name]) for name in _OF_INDEX] for _, arrays in contents], np.int64)
    return [facts for facts, _ in contents], joined


def _indexes(facts: Sequence[Any], arrays: Mapping[str, NDArray]) -> tuple[Index, ...]:
    lengths = arrays[_LENGTHS].reshape(len(facts), len(_OF_INDEX))
    parts: dict[str, list[NDArray]] = {}
    for name, counts in zip(_OF_INDEX, lengths.T, strict=True):
        joined = arrays[_REMNANTS + name]
        if (counts < 0).any() or (counts > len(joined)).any() or counts.sum() != len(joined):
            raise ValueError(f"the indexes of unfinished transactions do not share out {name}")
        parts[name] = [joined[start:stop].copy() for start, stop in pairwise(bounds_of(counts).tolist())]
    return tuple(index_from(each, {name: part[i] for name, part in parts.items()}) for i, each in enumerate(facts))


def _carried(facts: dict[str, Any], arrays: dict[str, NDArray]) -> Carried:
    def pairs(values: Any, *kinds: type) -> list[tuple[Any, ...]]:
        return [tuple(fact(each, kind) for each, kind in zip(pair, kinds, strict=True)) for pair in values]

    is_open = facts["open_at_start"]
    state = state_from(facts["state"], {name: arrays[_STATE + name] for name in STATE_DTYPES})
    knows_ended = fact(facts["knows_ended"], bool)
    at, next_xid = facts["next_xid"]
    return Carried(
        lsn=fact(facts["lsn"], Lsn),
        next_xid=(int(fact(at, Lsn)), fact(next_xid, int)),
        earlier=Earlier(
            open_at_start=None if is_open is None else {xid: int(lsn) for xid, lsn in pairs(is_open, int, Lsn)},
            indexes_of_unfinished=_indexes(facts["remnants"], arrays),
            ended=EndedElsewhere(arrays["ended.xid"], arrays["ended.seen_from"]) if knows_ended else None,
            catalog_changes=arrays["catalog_changes"],
            # Not in marks of before it was known.
            invalidated=InvalidatedRelations.of((lsn, fact(oid, int)) for lsn, oid in pairs(facts.get("stale", ()), Lsn, int)),
            wal_levels=tuple((lsn, level) for lsn, level in pairs(facts["wal_levels"], Lsn, int)),
            began_low=fact(facts["began_low"], bool),
        ),
        state=state,
        known_from=fact(facts["known_from"], Lsn),
        last=fact(facts["last"], Lsn),
        fingerprint=LogFingerprint.of(facts.get("stood")),
    )


def _contradiction(carried: Carried) -> str:
    """The first thing about a mark that cannot be, beside what cannot be of its parts; empty if there is none."""
    earlier, state = carried.earlier, carried.state
    if not 0 <= carried.next_xid[1] < NEVER:
        return f"{carried.next_xid[1]} is no transaction id"
    if earlier.ended is not None and (why := _of_ended(earlier.ended)):
        return why
    if (earlier.catalog_changes < 0).any():
        return "changes of catalogs have no LSN"
    if (np.diff(earlier.invalidated.lsn) < 0).any() or (earlier.invalidated.oid < 0).any():
        return "what commits invalidated is not in order"
    if any(not 0 <= xid < NEVER for xid in earlier.open_at_start or ()):
        return "there are negative transaction ids"
    return next((why for part in earlier.indexes_of_unfinished if (why := _of_index(part, state))), "")


def _of_ended(ended: EndedElsewhere) -> str:
    if len(ended.xid) != len(ended.seen_from):
        return "the columns of ended transactions differ in length"
    if (np.diff(ended.xid) <= 0).any() or (ended.xid < 0).any():
        return "ended transactions are not in order"
    return "ended transactions have no LSN" if (ended.seen_from < 0).any() else ""


def _of_index(part: Index, state: CatalogState) -> str:
    if (part.system, part.major) != (state.system, state.major):
        return f"it has a part of the index of system {part.system}, PostgreSQL {part.major}"
    _, arrays = content_of_index(part)
    return "there are negative transaction ids" if any((arrays[name] < 0).any() for name in _XIDS) else ""
