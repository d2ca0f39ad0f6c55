"""What lies between where a lake is complete and where its slot stands: what was in the log before the slot began, or what a lake that was put back
has lost.

In: an acquired slot, and a lake. Out: the windows in between, if the slot's source is in files, which still have them. The log of a server that is
connected to is received from where the slot begins on: a lake begins there as well.
"""

from __future__ import annotations

from collections.abc import Generator

from tailrace.catalog.state.catalog_state import CatalogState
from tailrace.errors import MissingHistory, UsageError
from tailrace.lake.catalog import LakeCatalog
from tailrace.lake.lake import Lake
from tailrace.model import Lsn
from tailrace.pipeline.log_feed import LogFeed
from tailrace.pipeline.open_log import open_feed
from tailrace.pipeline.pipeline import Pipeline
from tailrace.pipeline.scanning import Scanning
from tailrace.replication.acquired_slot import AcquiredSlot
from tailrace.storage.location_folder import is_received
from tailrace.window import WindowSize


def earlier_windows(
    acquired: AcquiredSlot, lake: Lake, captured: CatalogState | None, upto: Lsn | None, size: WindowSize
) -> Generator[Pipeline, None, None] | None:  # fmt: skip
    """None if there is nothing to read: the lake is as far as the slot, or begins with it. `captured` is the catalog state that WAL alone needs; what
    commits at `upto` or later is left out. Raises MissingHistory where a lake is behind the slot, and the log does not have what lies between."""
    slot, catalog = acquired.slot, lake.catalog
    stop = slot.confirmed_flush_lsn if upto is None else min(upto, slot.confirmed_flush_lsn)
    if catalog is not None and catalog.complete >= stop:
        return None
    if is_received(slot.source):
        if catalog is None:
            return None
        raise _behind(acquired, lake, catalog)
    start = catalog.complete if catalog is not None else None
    try:
        feed = open_feed(
            slot.source, slot.database, runner=acquired.runner, catalog=captured, start_lsn=start, upto_lsn=stop, scanning=Scanning(window=size)
        )  # fmt: skip
    except (MissingHistory, UsageError) as error:
        if catalog is None:
            raise
        raise _behind(acquired, lake, catalog, error) from error
    return _windows(feed)


def _windows(feed: LogFeed) -> Generator[Pipeline, None, None]:
    yield from feed.windows()


def _behind(
    acquired: AcquiredSlot, lake: Lake, catalog: LakeCatalog, error: MissingHistory | UsageError | None = None
) -> MissingHistory:
    slot = acquired.slot
    return MissingHistory(
        f'lake "{lake.store.url}" is complete up to {catalog.complete}, and replication slot "{slot.name}" has confirmed {slot.confirmed_flush_lsn}',
        detail=f"What lies between is not at hand: {error.message}." if error else "What lies between is not received any more.",
        hint="The lake was put back to an earlier state, the slot was used with another lake, or it is a new one, made since the state location was "
        "gone: put back what was there. Or have all tables copied from the server once more, in place, with --resync; or make the lake anew in "
        "another place, with a new slot.",
        sqlstate="55000", lsn=catalog.complete,
    )  # fmt: skip
