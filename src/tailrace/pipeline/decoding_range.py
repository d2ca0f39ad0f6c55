"""A `DecodingRange` says which transactions of a log are decoded, whether it is planned at once or window by window."""

from __future__ import annotations

from dataclasses import field

from tailrace.dataclass import dataclass
from tailrace.model import Lsn
from tailrace.plan.demand import Demand
from tailrace.transactions.blocks import StreamedByXid
from tailrace.transactions.commit_or_abort import NEVER


@dataclass(frozen=True, slots=True)
class DecodingRange:
    """Transactions that commit in `[start, upto)`, as `demand` says. If it `is_strict`, one that is not whole is an error.
    What commits before `asked_from` nobody misses: it lies in the first stretch, before a captured state.
    What the catalogs were from `horizon` on is kept for others who read the same log, whatever is open. Of transactions in
    progress `streamed` has been given."""

    start: Lsn
    upto: Lsn
    demand: Demand
    is_strict: bool
    horizon: Lsn = Lsn(NEVER)
    asked_from: Lsn = Lsn(0)
    streamed: StreamedByXid = field(default_factory=dict)
