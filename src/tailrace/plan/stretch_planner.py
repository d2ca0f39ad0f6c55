"""Make the `StretchPlan` of each stretch, with what lies in other stretches: earlier TOAST chunks of its rows, later confirmations of its inserts.

In: the indexes of all stretches, and which transactions are wanted. Out: a plan for each stretch that has rows of theirs. TOAST chunks serve rows of
later stretches, and a speculative insert may be confirmed in one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.history.history import History
from tailrace.catalog.names.name_timeline import name_timeline
from tailrace.plan.demand import Demand
from tailrace.plan.files import FileMapper
from tailrace.plan.streams import Streams
from tailrace.plan.stretch_plan import EarlierToastChunks, StretchPlan, commits_of
from tailrace.transactions.scanned_log import ScannedLog
from tailrace.types.encodings.server_encodings import codec_of_values
from tailrace.wal import index
from tailrace.wal.index import Index


def stretch_plans(
    log: ScannedLog,
    history: History,
    begins: NDArray[np.int64],
    wanted: NDArray[np.bool_],
    demand: Demand,
    streams: Streams,
    unwanted_origins: NDArray[np.uint16],
) -> list[StretchPlan]:
    """The stretches with rows of transactions that are `wanted` (by ordinal), but for those of `unwanted_origins`; `begins` are their first
    records, subtransactions' included."""
    commits = log.outcomes.transactions.commit_lsn
    mapper = FileMapper(history, begins, commits, wanted, rewrites=demand.rewrites)
    confirmed = _confirmed_elsewhere(log.indexes)
    chunks = _WaitingChunks()
    plans: list[StretchPlan] = []
    for part in log.indexes:
        ordinal = log.outcomes.ordinals_of(part.xids.xid)
        mine = (ordinal >= 0) & ((part.xids.flags & (index.HAS_ROWS | index.STARTS_WITH_CONFIRM)) != 0)
        mine[mine] = wanted[ordinal[mine]] & (streams.since[ordinal[mine]] < part.stretch.stop)
        if mine.any():
            order = np.argsort(part.xids.xid[mine])
            xids = part.xids.xid[mine][order]
            file_map, relations = mapper.map(part)
            names = name_timeline(history, part.stretch, relations, ordinal[mine], part.xids.first_lsn[mine], commits)
            plans.append(
                StretchPlan(
                    stretch=part.stretch,
                    start=int(part.first) if part.first else int(part.stretch.start),
                    segment_size=log.segment_size,
                    major=part.major,
                    fingerprint=part.fingerprint,
                    xid=xids,
                    ordinal=ordinal[mine][order],
                    row_bytes=part.xids.bytes[mine][order],
                    since=streams.since[ordinal[mine][order]],
                    stream=np.where(streams.streamed, log.outcomes.transactions.xid, np.uint32(0))[ordinal[mine][order]],
                    files=file_map,
                    relations=relations,
                    earlier_toast=chunks.serving(xids),
                    confirmed=confirmed,
                    names=names,
                    codec=codec_of_values(history.encoding),
                    unwanted_origins=unwanted_origins,
                    commits=commits_of(log.outcomes.transactions, ordinal[mine][order]) if demand.commits else None,
                )
            )
        chunks.pass_over(part)
    return plans


class _WaitingChunks:
    """TOAST chunks that wait for the row that they serve, over as many stretches as it takes: by xid, the stretches, and which chunks there."""

    def __init__(self) -> None:
        self._of_xid: dict[int, list[tuple[Index, NDArray[np.int64]]]] = {}

    def serving(self, xids: NDArray[np.int64]) -> tuple[EarlierToastChunks, ...]:
        if not self._of_xid:
            return ()
        return tuple(
            EarlierToastChunks(
                source.stretch, source.waiting_lsn[rows], np.full(len(rows), xid, np.int64), source.waiting_crc[rows]
            )
            for xid in xids[np.isin(xids, list(self._of_xid))].tolist()
            for source, rows in self._of_xid[xid]
        )

    def pass_over(self, part: Index) -> None:
        """To the end of a stretch."""
        if self._of_xid:
            for xid in part.xids.xid[(part.xids.flags & index.CLOSED_TOAST) != 0].tolist():
                self._of_xid.pop(xid, None)
        for xid in np.unique(part.waiting_xid).tolist():
            self._of_xid.setdefault(xid, []).append((part, np.flatnonzero(part.waiting_xid == xid)))


def _confirmed_elsewhere(indexes: Sequence[Index]) -> NDArray[np.int64]:
    """LSNs of speculative inserts at the end of one stretch whose confirmation begins a later one."""
    confirmed: list[int] = []
    waiting: dict[int, int] = {}
    for part in indexes:
        for slot in np.flatnonzero(part.xids.flags & (index.STARTS_WITH_CONFIRM | index.STARTS_WITH_CANCEL)).tolist():
            lsn = waiting.pop(int(part.xids.xid[slot]), None)
            if lsn is not None and part.xids.flags[slot] & index.STARTS_WITH_CONFIRM:
                confirmed.append(lsn)
        for slot in np.flatnonzero(part.xids.speculative).tolist():
            waiting[int(part.xids.xid[slot])] = int(part.xids.speculative[slot])
    return np.array(confirmed, np.int64)
