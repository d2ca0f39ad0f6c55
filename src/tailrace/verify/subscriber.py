"""A subscriber compared with its publisher, beside a stream that goes on.

In: connection strings of both. Out: for each table that is published and subscribed to how many rows were compared, and which differ. Both sides sum
up their rows by buckets in SQL, so only rows of buckets that differ come here. A row is told to differ if it does in a first look, and has the same
versions on both sides in a second one (`verify/two_looks.py` says why that is no lag). Rows that agree in the second look are right; the others were
changed meanwhile, and are looked at twice once more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import field
from typing import TypeVar

import numpy as np

from tailrace.dataclass import dataclass
from tailrace.model import Lsn
from tailrace.types.row_hashes import Hashes
from tailrace.verify.checksums import BUCKETS, Mask, RowNumbers, bucket_of, groups_of, only_here
from tailrace.verify.differences import MOST_HELD, Differences, RowDifference, row_differences
from tailrace.verify.sql_rows import SqlRows, summed_with
from tailrace.verify.subscribed_tables import SubscribedTable, Subscriptions, await_copies, subscribed_tables, subscriptions_of
from tailrace.verify.two_looks import Look, TwoServers, patience

LOOKS = 20
"""At rows that were changed in between each time, twice."""
_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class SubscriberTable:
    """`rows` are the publisher's. `undecided` is how many rows were changed whenever they were looked at, and are not among those `found`."""

    table: SubscribedTable
    rows: int = 0
    found: Differences = field(default_factory=Differences)
    listed: Sequence[RowDifference] = ()
    undecided: Hashes | None = None

    @property
    def differs(self) -> bool:
        return bool(self.found.rows or self.table.unfit)

    def with_more(self, later: SubscriberTable, listed: int) -> SubscriberTable:
        """With what was decided of its rows later."""
        counts = {kind: number + later.found.counts[kind] for kind, number in self.found.counts.items()}
        rows = [*self.listed, *later.listed][:listed]
        return SubscriberTable(self.table, self.rows, Differences(counts), rows, later.undecided)


@dataclass(frozen=True, slots=True)
class SubscriberVerification:
    """`tables` are named as in SQL, all if there are none; of each so many rows that differ are `listed`."""

    servers: TwoServers
    subscriptions: Subscriptions
    tables: Sequence[str] = ()
    listed: int = 100
    tell: Callable[[str], None] = lambda _: None

    def run(self) -> tuple[Lsn, list[SubscriberTable]]:
        """In the order of their names; and where the publisher was. Raises UsageError and PeerError as `TwoServers` does."""
        servers = self.servers
        self.tell("waiting for the first copy of tables")
        await_copies(servers.subscriber, self.subscriptions, patience())
        tables = list(subscribed_tables(servers.source, servers.subscriber, self.subscriptions, self.tables))
        found = {each.name: SubscriberTable(each) for each in tables}
        asked, lsn = [each for each in tables if not each.why_not], Lsn(0)
        for number in range(LOOKS):
            time.sleep(min(_LONGEST_PAUSE, _PAUSE * 2**number) if number else 0)
            with servers.looked_at_twice(self.subscriptions, asked) as looks:
                lsn = lsn or looks[0].lsn
                for each in asked:
                    self.tell(f"table {each.name}")
                    before = found[each.name]
                    now = _TableLooks.of(each, looks, self.listed).compared(before.undecided)
                    found[each.name] = now if before.undecided is None else before.with_more(now, self.listed)
            asked = [each for each in asked if _any(found[each.name].undecided)]
            if not asked:
                break
        return lsn, [found[each.name] for each in tables]


def _any(hashes: Hashes | None) -> bool:
    return hashes is not None and len(hashes) > 0


@dataclass(frozen=True, slots=True)
class _TableLooks:
    """A table in two looks: the publisher's rows, and the subscriber's."""

    table: SubscribedTable
    first: tuple[SqlRows, SqlRows]
    second: tuple[SqlRows, SqlRows]
    listed: int

    @classmethod
    def of(cls, table: SubscribedTable, looks: tuple[Look, Look], listed: int) -> _TableLooks:
        first, second = (
            (SqlRows(look.source, table.source, table.hashes), SqlRows(look.subscriber, table.subscriber, table.hashes))
            for look in looks
        )
        return cls(table, first, second, listed)

    def compared(self, keys: Hashes | None) -> SubscriberTable:
        """All rows, or those with these keys' hashes alone."""
        groups: Iterator[Mask]
        if keys is None:
            one, two = _on_both(self.first, SqlRows.sums)
            groups, rows = map(summed_with, groups_of(one.different(two), one, two)), one.rows
        else:
            groups, rows = iter([_buckets_with(keys)]), 0
        found, undecided = Differences(), []
        for buckets in groups:
            mine, theirs, moved = self._decided(buckets, keys)
            found = found.with_more(mine, theirs, MOST_HELD, is_keyed=bool(self.table.hashes.key))
            undecided.append(moved)
        listed: list[RowDifference] = []
        if found.rows and self.listed:
            names = [each.name for each in self.table.hashes.columns]
            few, (publisher, subscriber) = found.first(self.listed), self.first
            listed = row_differences(few, self.table.hashes.key, names, publisher.rows, subscriber.rows, self.listed)
        moved = np.concatenate(undecided) if undecided else np.zeros(0, np.uint64)
        return SubscriberTable(self.table, rows, found, listed, moved)

    def _decided(self, buckets: Mask, keys: Hashes | None) -> tuple[RowNumbers, RowNumbers, Hashes]:
        """The rows that only the publisher has, and only the subscriber; and the keys of those of which that is not known."""
        one, two = _on_both(self.first, lambda side: side.numbers(buckets))
        if keys is not None:
            one, two = _with_keys(one, keys), _with_keys(two, keys)
        mine, theirs = only_here(one, two), only_here(two, one)
        suspects = _keys_of(mine, theirs)
        if not len(suspects):
            return mine, theirs, suspects
        later = _on_both(self.second, lambda side: side.numbers(_buckets_with(suspects)))
        later_one, later_two = (_with_keys(each, suspects) for each in later)
        moved = np.union1d(_moved(_with_keys(one, suspects), later_one), _moved(_with_keys(two, suspects), later_two))
        still = _keys_of(only_here(later_one, later_two), only_here(later_two, later_one))
        mine, theirs = (each.chosen(~np.isin(each.keys, moved)) for each in (mine, theirs))
        return mine, theirs, np.intersect1d(moved, still)


def _on_both(sides: tuple[SqlRows, SqlRows], work: Callable[[SqlRows], Result]) -> tuple[Result, Result]:
    """At once."""
    with ThreadPoolExecutor(1) as aside:
        other = aside.submit(work, sides[1])
        return work(sides[0]), other.result()


def _with_keys(numbers: RowNumbers, keys: Hashes) -> RowNumbers:
    return numbers.chosen(np.isin(numbers.keys, keys))


def _keys_of(one: RowNumbers, two: RowNumbers) -> Hashes:
    return np.union1d(one.keys, two.keys)


def _moved(before: RowNumbers, after: RowNumbers) -> Hashes:
    """The keys of which not the same versions of rows are there."""
    one, two = (RowNumbers(each.keys, each.places.astype(np.uint64), each.places) for each in (before, after))
    return _keys_of(only_here(one, two), only_here(two, one))


def _buckets_with(keys: Hashes) -> Mask:
    buckets = np.zeros(BUCKETS, np.bool_)
    buckets[bucket_of(keys)] = True
    return buckets


@contextmanager
def subscriber_verification(
    dsn: str, database: str, subscriber: str, subscriptions: Sequence[str] = (), tables: Sequence[str] = (), *, listed: int = 100,
    tell: Callable[[str], None] = lambda _: None,
) -> Iterator[SubscriberVerification]:  # fmt: skip
    """Of the subscriber's database, with the publisher's. Raises UsageError where there is no such subscription."""
    with TwoServers.connected(dsn, database, subscriber) as servers:
        yield SubscriberVerification(servers, subscriptions_of(servers.subscriber, subscriptions), tables, listed, tell)
