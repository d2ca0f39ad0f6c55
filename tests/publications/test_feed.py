"""What publications publish as a feed, which DataFrames and lake tables are made from, against pgoutput of live servers."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from support.cases import DBNAME
from support.pgoutput import UNCHANGED, Change
from support.publication_scenarios import WITH_FILTERS, WITHOUT_FILTERS
from support.publications import Scenario, Told, told_by
from support.servers import Server
from tailrace.errors import TailraceError
from tailrace.feed import Feed
from tailrace.model import Lsn, Relation
from tailrace.pipeline import Scanning, open_feed
from tailrace.spark.changed_table import ChangedTable
from tailrace.spark.rows import RowShape, rows_of
from tailrace.window import WindowSize

EVERY = (*WITHOUT_FILTERS, *WITH_FILTERS)
SHAPE = RowShape.of({"tables": "all of them"})
MANY_WINDOWS = Scanning(window=WindowSize(wal_bytes=1 << 15))

Placed = tuple[tuple[int, int, int], Change]
"""A change by where it stands."""


MAJORS = [pytest.param(each, marks=pytest.mark.matrix) for each in (18, 14, 15, 16, 17)]


@pytest.mark.parametrize("major", MAJORS)
@pytest.mark.filterwarnings("ignore:skipped loading publication")
def test_a_feed_has_what_pgoutput_sends(major: int) -> None:
    """A sixth of what there is, one in windows."""
    _check(major, EVERY[major % 6 :: 6], in_windows=12)


@pytest.mark.marathon
@pytest.mark.parametrize("major", MAJORS)
@pytest.mark.filterwarnings("ignore:skipped loading publication")
def test_every_scenario(major: int) -> None:
    _check(major, EVERY, in_windows=3)


def _check(major: int, scenarios: Sequence[Scenario], in_windows: int) -> None:
    """What pgoutput sends, or its error; of 18 one in so many in many windows."""
    with Server(major, dbname=DBNAME, test_decoding=False) as server:
        server.checkpoint()
        told, _ = told_by(server, scenarios)
        server.stop()
        assert sum(bool(each.sent) for each in told) > len(told) / 2
        for number, each in enumerate(told):
            if each.error is None:
                expected = [(sent.commit_lsn, change) for sent in each.sent for change in sent.changes]
                assert (
                    sent_by(server, each, MANY_WINDOWS if major == 18 and number % in_windows == 0 else Scanning()) == expected
                ), each.scenario.name
            else:
                with pytest.raises(TailraceError) as raised:
                    sent_by(server, each, Scanning())
                assert (raised.value.sqlstate, raised.value.message) == each.error, each.scenario.name


def sent_by(server: Server, told: Told, scanning: Scanning) -> list[tuple[int, Change]]:
    """The changes of a scenario in order, each behind its commit; values are those of maps of text."""
    feed = open_feed(server.data_dir, DBNAME, start_lsn=Lsn(told.start), upto_lsn=Lsn(told.stop), scanning=scanning)
    feed = feed.publishing(", ".join(told.scenario.names))
    changes = [*_rows(feed), *_truncations(feed)]
    return [(place[0], change) for place, change in sorted(changes, key=lambda each: each[0])]


def _truncations(feed: Feed) -> Iterator[Placed]:
    for each in feed.truncations:
        oids = tuple(relation.oid for relation in each.truncation.relations)
        yield (int(each.commit_lsn), int(each.truncation.lsn), 0), Change("truncate", oids)


def _rows(feed: Feed) -> Iterator[Placed]:
    versions: dict[int, list[Relation]] = {}
    for relation in feed.relations:
        versions.setdefault(relation.oid, []).append(relation)
    for oid, relations in versions.items():
        (identity,) = {relation.replica_identity for relation in relations}
        for part in feed.parts(frozenset({oid})):
            for piece in map(pickle.loads, map(pickle.dumps, part.pieces)):
                for batch in rows_of(feed.decoder, piece, [ChangedTable(relations[0], None)], SHAPE):
                    yield from (_change(row, oid, identity) for row in batch.to_pylist())


def _change(row: dict[str, Any], oid: int, identity: str) -> Placed:
    place = row["commit_lsn"], row["lsn"], row["sequence"]
    new = tuple(UNCHANGED if name in row["unchanged"] else value for name, value in row["new"] or ())
    old_kind = "" if row["old"] is None else "O" if identity == "f" else "K"
    return place, Change(row["kind"], (oid,), new, old_kind, tuple(value for _, value in row["old"] or ()))
