"""A running server at one snapshot: its tables as the log and the snapshot have them, and the log up to there.

In: a connection string, and where the log is wanted from. Out: `ServerSource`, for as long as a `with` lasts: which tables are to be compared, the
sessions in which their rows are read, and a feed of what the server still has of the log before the snapshot, of which a lake that is behind can be
brought to it aside.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from pathlib import Path

from tailrace.client.copy_options import CopyStrategy
from tailrace.client.server_snapshot import LogAtHand, ServerSnapshot
from tailrace.client.server_tables import ServerTable
from tailrace.client.table_pages import TablePages
from tailrace.client.visible_commits import await_commits, write_something
from tailrace.dataclass import dataclass
from tailrace.errors import MissingHistory
from tailrace.feed import Feed
from tailrace.model import Lsn, Relation
from tailrace.past.tables_to_copy import relations_to_copy
from tailrace.pipeline.log_feed import LogFeed
from tailrace.pipeline.open_log import open_log
from tailrace.sources.server_copy import ServerCopy, received_copy
from tailrace.sources.source import Source
from tailrace.storage.state_location import definitions_in
from tailrace.types.encodings.server_encodings import codec_of_values
from tailrace.verify.seen_feed import SeenFeed
from tailrace.verify.server_rows import Leaf

THREADS = min(4, os.cpu_count() or 1)
_LEAVES = """
SELECT n.nspname::text, c.relname::text, pg_relation_size(c.oid)
FROM pg_partition_tree(%s::oid::regclass) t JOIN pg_class c ON c.oid = t.relid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE t.isleaf AND c.relkind = 'r' ORDER BY c.oid
"""


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table with the columns that are wanted of it; `where` is the condition that its rows meet, and `leaves` are the tables that have them. Its
    rows are read from the `pages` of its file where there are such."""

    relation: Relation
    where: str | None
    leaves: Sequence[Leaf]
    pages: TablePages | None = None


@dataclass(frozen=True, slots=True)
class ServerSource:
    """`log` begins where was asked for, or behind that, where the server has no more of it."""

    snapshot: ServerSnapshot
    log: LogFeed
    database: str
    publications: tuple[str, ...]
    state: Path | None
    tables: Mapping[int, SourceTable] = field(default_factory=dict)

    @classmethod
    @contextmanager
    def taken(
        cls, dsn: str, database: str, since: Lsn, publications: tuple[str, ...], state: Path | None, tell: Callable[[str], None],
        strategy: CopyStrategy = CopyStrategy.AUTO, wanted: Callable[[Relation], bool] = lambda _: True,
    ) -> Iterator[ServerSource]:  # fmt: skip
        """With the pages of those tables that are `wanted`, by that strategy. A standby is waited for until it has replayed what lies before `since`.
        Raises PeerError as the server does."""
        await_commits(dsn, database)
        with ServerSnapshot.taken(
            dsn, database, THREADS, tell, lambda: False, awaits_older=False, log=lambda: LogAtHand(since)
        ) as snapshot:
            assert snapshot is not None, "nobody stops it"
            write_something(dsn, database)  # what is visible is flushed with it
            source = _received(dsn, database, since)
            start = since if since >= source.segments.first_lsn else None
            log = open_log(source, database, start_lsn=start, upto_lsn=snapshot.reach).feed()
            made = cls(_with_end(snapshot, log), log, database, publications, state)
            yield replace(made, tables={each.relation.oid: each for each in made._chosen(strategy, wanted)})

    @property
    def end(self) -> Lsn:
        """All that the snapshot has seen commits before here."""
        return self.snapshot.seen.end

    @property
    def changes(self) -> Feed:
        """What the snapshot has seen of the log."""
        published = self.log.publishing(self.publications, self.state) if self.publications else self.log
        return SeenFeed(published, self.snapshot.seen)

    def _chosen(self, strategy: CopyStrategy, wanted: Callable[[Relation], bool]) -> Iterator[SourceTable]:
        """One that the snapshot has not seen was made behind it, and has no rows there."""
        span, there = self.log.span, self.snapshot.tables
        definitions = definitions_in(self.state, span.system, span.database) if self.state else ()
        found = relations_to_copy(self.log.history, self.end, span, self.database, self.publications, definitions)
        seen = [each for each in found if each.relation.oid in there]
        asked = [each for each in seen if wanted(each.relation)]
        for each in asked:
            there[each.relation.oid].check_is(each.relation, self.end)
        whole = [each.relation for each in asked if each.where is None]
        files = self.snapshot.readable_files({each.oid for each in whole}, strategy)
        pages = self.snapshot.in_pages(files, whole, codec_of_values(self.log.history.encoding), strategy)
        for each in seen:
            oid = each.relation.oid
            yield SourceTable(each.shown, each.where, self._leaves(oid, there[oid]), pages.get(oid))

    def _leaves(self, oid: int, known: ServerTable) -> list[Leaf]:
        if known.kind == "r":
            return [Leaf(known.schema, known.name, known.size)]
        session = self.snapshot.sessions.get()
        try:
            return [Leaf(*row) for row in session.execute(_LEAVES, [oid]).fetchall()]
        finally:
            self.snapshot.sessions.put(session)


def _with_end(snapshot: ServerSnapshot, log: LogFeed) -> ServerSnapshot:
    """With the end of what it has seen as the log tells it, where the server's word is too early."""
    seen = snapshot.seen
    if snapshot.reach > seen.end:
        for window in log.windows():
            made = window.plan.transactions
            seen = seen.with_end_behind(made.full_xid, made.commit_lsn, made.end_lsn)
    return replace(snapshot, seen=seen)


def _received(dsn: str, database: str, since: Lsn) -> Source:
    """What the server has of its log from there on, and from a little before it, with its catalogs: transactions are whole from where the log says
    which of them run. Where the server has no more of it, from its last checkpoint on."""
    with suppress(MissingHistory):
        return _opened(received_copy(dsn, database, None, 0, lambda _: None, since))
    return _opened(received_copy(dsn, database, None, 0, lambda _: None))


def _opened(copy: ServerCopy) -> Source:
    return replace(Source.open(copy.path), lease=copy.lease, received=copy)
