"""What the log says of the past of tables, put together: which transactions there were, and what became of a table."""

from __future__ import annotations

import numpy as np

from tailrace.errors import UsageError
from tailrace.feed import CommittedTruncation
from tailrace.past.schema_events import SchemaEvent, named_ever, schema_events, with_facts
from tailrace.pipeline.log_feed import LogFeed


def table_events(feed: LogFeed, named: tuple[str, str] | None = None) -> list[SchemaEvent]:
    """What became of the tables that were ever called so (None: of all tables). Raises UsageError if none ever was."""
    history = feed.history
    oids = None
    if named is not None:
        oids = named_ever(history, *named)
        if not oids:
            schema, name = named
            raise UsageError(
                f'relation "{schema}.{name}" does not exist', sqlstate="42P01",
                context=f"in the log from {feed.catalogs_from} to {feed.span.stop}",
            )  # fmt: skip
    facts: dict[int, tuple[int, int]] = {}
    truncations: list[CommittedTruncation] = []
    commits = np.concatenate([times[times > feed.catalogs_from] for times in _commits_of_catalogs(feed)])
    for window in feed.windows():
        transactions = window.log.fates.transactions
        truncations += window.truncations
        told = [each.commit_lsn for each in window.truncations]
        wanted = np.flatnonzero(np.isin(transactions.commit_lsn, np.append(commits, told)))
        for row in wanted.tolist():
            facts[int(transactions.commit_lsn[row])] = int(transactions.full_xid[row]), int(transactions.time[row])
    return with_facts(schema_events(history, truncations, feed.catalogs_from, oids), facts)


def _commits_of_catalogs(feed: LogFeed):  # type: ignore[no-untyped-def]
    for name in ("pg_class", "pg_attribute", "pg_namespace"):
        rows = feed.history.table(name).rows
        yield rows.begin
        yield rows.end
