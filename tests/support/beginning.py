"""Where the first window of a log begins, for tests that cut it themselves."""

from __future__ import annotations

from collections.abc import Sequence

from tailrace.catalog.state.catalog_state import CatalogState
from tailrace.model import Lsn
from tailrace.pipeline.decoding_range import DecodingRange
from tailrace.pipeline.open_log import open_log
from tailrace.pipeline.runner import Runner
from tailrace.plan.carried import Carried
from tailrace.plan.demand import Demand
from tailrace.sources.source import Source
from tailrace.wal.index import Index


def begin(
    source: Source, runner: Runner, indexes: Sequence[Index], database: str, state: CatalogState | None, *, start_lsn: Lsn | None,
    upto_lsn: Lsn | None, demand: Demand,
) -> tuple[Carried, DecodingRange]:  # fmt: skip
    log = open_log(source, database, runner=runner, catalog=state, start_lsn=start_lsn, upto_lsn=upto_lsn, demand=demand)
    return log.begin(indexes)
