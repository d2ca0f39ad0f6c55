"""What became of tables, from the whole log: its catalogs, and when the transactions that changed them committed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import UsageError
from tailrace.past.past_log import PastLog
from tailrace.past.schema_events import SchemaEvent, named_ever, schema_events, with_facts
from tailrace.plan.events import CommittedTruncation

_CATALOGS = ("pg_class", "pg_attribute", "pg_namespace")


def table_events(feed: PastLog, named: tuple[str, str] | None = None) -> list[SchemaEvent]:
    """What became of the tables that were ever called so (None: of all tables). Raises UsageError if none ever was."""
    history = feed.history
    oids = None
    if named is not None:
        oids = named_ever(history, *named)
        if not oids:
            raise no_table(feed, *named)
    rows = [history.table(name).rows for name in _CATALOGS]
    commits = np.unique(np.concatenate([lsns for each in rows for lsns in (each.begin, each.end)]))
    facts, truncations = facts_of(feed, commits)
    return with_facts(schema_events(history, truncations, feed.catalogs_from, oids), facts)


def facts_of(feed: PastLog, commits: NDArray[np.int64]) -> tuple[dict[int, tuple[int, int]], list[CommittedTruncation]]:
    """Xid and time by commit LSN, of these and of all that truncate; and the TRUNCATEs."""
    facts: dict[int, tuple[int, int]] = {}
    truncations: list[CommittedTruncation] = []
    for window in feed.windows():
        transactions = window.log.outcomes.transactions
        truncations += window.truncations
        told = np.array([each.commit_lsn for each in window.truncations], np.int64)
        wanted = np.flatnonzero(np.isin(transactions.commit_lsn, np.concatenate([commits, told])))
        for row in wanted.tolist():
            facts[int(transactions.commit_lsn[row])] = int(transactions.full_xid[row]), int(transactions.time[row])
    return facts, truncations


def no_table(feed: PastLog, schema: str, name: str) -> UsageError:
    context = f"in the log from {feed.catalogs_from} to {feed.span.stop}"
    return UsageError(f'relation "{schema}.{name}" does not exist', sqlstate="42P01", context=context)
