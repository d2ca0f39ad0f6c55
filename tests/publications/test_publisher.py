"""The publish stage on batches made by hand: the four cases of an UPDATE, TOAST, DELETEs that say nothing, partitions in another order."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from tailrace.decode import DELETE, INSERT, NO_OLD, OLD_KEY, OLD_ROW, UPDATE, Batch
from tailrace.errors import InsufficientLogging, PublicationWarning, UsageError
from tailrace.expressions.evaluate import Facts
from tailrace.model import Column, PgType, Relation
from tailrace.publications.publication import ALL_ACTIONS, SQL, PublicationActions, RowFilter
from tailrace.publications.publishing.entry_timeline import EntrySpans, EntryTimeline, Generation
from tailrace.publications.publishing.filter_compiler import FilterCompiler, stored_filters
from tailrace.publications.publishing.published_relation import warn_of_missing
from tailrace.publications.publishing.publisher import Publisher
from tailrace.publications.publishing.relation_sync_entry import PublicationRelation, RelationSyncEntry
from tailrace.types.values import Mask, Values

INT = PgType(23, "pg_catalog", "int4", "integer", "b", 4, 4)
TEXT = PgType(25, "pg_catalog", "text", "text", "b", -1, 4)
COLUMNS = (Column(1, "id", INT, -1, 4, 4), Column(2, "v", TEXT, -1, -1, 4))
TABLE = Relation(20000, "public", "x", "r", "p", "d", 0, COLUMNS, identity=(1,))
IS_LARGE = RowFilter("id > 5")

Row = tuple[int | None, bytes | None]


@dataclass(frozen=True)
class Above:
    """id > 5, by hand."""

    columns: Sequence[int] = (1,)
    error: UsageError | None = None

    def matches(self, values: Mapping[int, Values], count: int) -> Mask:
        column = values[self.columns[0]]
        assert len(column) == count
        return column.valid & (column.as_dtype("<i4") > 5)


@dataclass(frozen=True)
class Long(Above):
    """length(v) > 3, by hand."""

    columns: Sequence[int] = (2,)

    def matches(self, values: Mapping[int, Values], count: int) -> Mask:
        offsets, _ = values[2].payloads
        return values[2].valid & (np.diff(offsets) > 3)


def member(
    name: str = "p",
    actions: PublicationActions = ALL_ACTIONS,
    row_filter: RowFilter | None = None,
    columns: tuple[int, ...] | None = None,
) -> PublicationRelation:
    return PublicationRelation(name, actions, columns, row_filter, "n", False, False)


def publisher(entry: RelationSyncEntry, condition: object = None, major: int = 16) -> Publisher:
    spans = {TABLE.oid: EntrySpans((0,), (entry,))}
    timeline = EntryTimeline((0,), (Generation(spans, {}),))
    return Publisher(timeline, major, lambda *_: condition or Above())  # type: ignore[arg-type,return-value]


def values(rows: Sequence[Row | None], place: int, unchanged: Sequence[int] = ()) -> Values:
    if place == 0:
        numbers = [None if row is None or row[0] is None else int(row[0]).to_bytes(4, "little") for row in rows]
        return Values.of_payloads(numbers, 4)
    made = Values.of_payloads([None if row is None else row[1] for row in rows], -1)
    return replace(made, unchanged=np.isin(np.arange(len(rows)), unchanged)) if unchanged else made


def batch(changes: Sequence[tuple[int, Row | None, int, Row | None]], unchanged: Sequence[int] = ()) -> Batch:
    """Of (kind, new row, old kind, old row); `unchanged` are the rows whose new v the record did not carry."""
    kinds, new, old_kinds, old = zip(*changes, strict=True)
    numbers = np.arange(len(changes))
    return Batch(
        relations=(TABLE,), published_as=(TABLE,), number=numbers * 0, columns=COLUMNS, ordinal=numbers * 0, lsn=numbers + 100, sequence=numbers * 0,
        kind=np.array(kinds, np.uint8), old_kind=np.array(old_kinds, np.uint8),
        new=[values(new, 0), values(new, 1, unchanged)], old=[values(old, 0), values(old, 1)],
    )  # fmt: skip


def told(made: Batch) -> list[tuple[int, int, list[object], int, list[object]]]:
    """By change its LSN, its kind, the new row, the old kind and the old row."""
    assert made.old is not None
    sides = [[_list(column) for column in side] for side in (made.new, made.old)]
    return [
        (int(made.lsn[row]), int(made.kind[row]), [column[row] for column in sides[0]], int(made.old_kind[row]), [column[row] for column in sides[1]])
        for row in range(len(made))
    ]  # fmt: skip


def _list(column: Values) -> list[object]:
    unchanged = column.unchanged if column.unchanged is not None else np.zeros(len(column), np.bool_)
    raw = [int.from_bytes(each, "little") if column.fixed is not None else each for each in column.payload_list()]
    return ["unchanged" if u else value if ok else None for value, ok, u in zip(raw, column.valid, unchanged, strict=True)]


CHAIN = batch(
    [
        (INSERT, (1, b"a"), NO_OLD, None), (INSERT, (10, b"b"), NO_OLD, None), (UPDATE, (1, b"c"), NO_OLD, None),
        (UPDATE, (10, b"d"), NO_OLD, None), (UPDATE, (11, b"d"), OLD_KEY, (10, None)), (UPDATE, (20, b"c"), OLD_KEY, (1, None)),
        (UPDATE, (2, b"c"), OLD_KEY, (20, None)), (UPDATE, (3, b"c"), OLD_KEY, (2, None)), (DELETE, None, OLD_KEY, (3, None)),
        (DELETE, None, OLD_KEY, (11, None)), (DELETE, None, NO_OLD, None),
    ],
    unchanged=(5,),
)  # fmt: skip


def test_the_four_cases() -> None:
    entry = RelationSyncEntry(ALL_ACTIONS, None, (member(row_filter=IS_LARGE),))
    (made,) = publisher(entry).publish(CHAIN)
    none: list[object] = [None, None]
    assert told(made) == [
        (101, INSERT, [10, b"b"], NO_OLD, none), (103, UPDATE, [10, b"d"], NO_OLD, none), (104, UPDATE, [11, b"d"], OLD_KEY, [10, None]),
        (105, INSERT, [20, "unchanged"], NO_OLD, none), (106, DELETE, none, OLD_KEY, [20, None]), (109, DELETE, none, OLD_KEY, [11, None]),
    ]  # fmt: skip


def test_without_filters_only_deletes_that_say_nothing_are_dropped() -> None:
    (made,) = publisher(RelationSyncEntry(ALL_ACTIONS, None, (member(),))).publish(CHAIN)
    assert made.lsn.tolist() == list(range(100, 110))


@pytest.mark.parametrize("action", ["insert", "update", "delete"])
def test_actions_have_filters_of_their_own(action: str) -> None:
    """One publication filters, the other publishes one action of all rows."""
    entry = RelationSyncEntry(ALL_ACTIONS, None, (member(row_filter=IS_LARGE), member("q", PublicationActions(**{action: True}))))
    kind = {"insert": INSERT, "update": UPDATE, "delete": DELETE}[action]
    (made,) = publisher(entry).publish(CHAIN)
    (filtered,) = publisher(RelationSyncEntry(ALL_ACTIONS, None, (member(row_filter=IS_LARGE),))).publish(CHAIN)
    every = [lsn for lsn in CHAIN.lsn[CHAIN.kind == kind].tolist() if lsn != 110]
    rest = [row for row in told(filtered) if CHAIN.kind[row[0] - 100] != kind]
    assert [row for row in told(made) if CHAIN.kind[row[0] - 100] == kind] == [
        row for row in told(replace(CHAIN)) if row[0] in every
    ]
    assert [row for row in told(made) if CHAIN.kind[row[0] - 100] != kind] == rest


def test_unchanged_values_come_from_the_old_row_where_an_update_becomes_an_insert() -> None:
    full = batch(
        [(UPDATE, (1, None), OLD_ROW, (1, b"long value")), (UPDATE, (9, None), OLD_ROW, (1, b"long value")), (UPDATE, (9, None), OLD_ROW, (9, b"no"))],  # noqa: E501
        unchanged=(0, 1, 2),
    )  # fmt: skip
    (made,) = publisher(RelationSyncEntry(ALL_ACTIONS, None, (member(row_filter=IS_LARGE),))).publish(full)
    assert told(made)[0] == (101, INSERT, [9, b"long value"], NO_OLD, [None, None])
    assert told(made)[1] == (102, UPDATE, [9, "unchanged"], OLD_ROW, [9, b"no"])
    (long,) = publisher(RelationSyncEntry(ALL_ACTIONS, None, (member(row_filter=IS_LARGE),)), Long()).publish(full)
    assert [row[:3] for row in told(long)] == [(100, UPDATE, [1, "unchanged"]), (101, UPDATE, [9, "unchanged"])]


def test_a_value_that_the_log_does_not_have_is_not_guessed() -> None:
    unknown = batch([(UPDATE, (9, b"x"), NO_OLD, None), (UPDATE, (9, None), NO_OLD, None)], unchanged=(1,))
    with pytest.raises(InsufficientLogging, match="reads column 2") as caught:
        list(publisher(RelationSyncEntry(ALL_ACTIONS, None, (member(row_filter=IS_LARGE),)), Long()).publish(unknown))
    assert caught.value.lsn == 101


def test_a_partition_goes_out_with_its_roots_columns() -> None:
    root = replace(
        TABLE,
        oid=19999,
        name="p",
        kind="p",
        columns=(Column(1, "v", TEXT, -1, -1, 4), Column(2, "gone", None, -1, 4, 4), Column(3, "id", INT, -1, 4, 4)),
    )
    entry = RelationSyncEntry(ALL_ACTIONS, root, (member(row_filter=IS_LARGE),))
    (made,) = publisher(entry, Above((3,))).publish(CHAIN.part(0, 2))
    assert (made.published_relation, made.relation, [(column.number, column.name) for column in made.columns]) == (
        root,
        TABLE,
        [(1, "v"), (3, "id")],
    )
    assert [_list(column) for column in made.new] == [[b"b"], [10]]
    only = RelationSyncEntry(ALL_ACTIONS, root, (member(columns=(3,)),))
    (listed,) = publisher(only).publish(CHAIN.part(0, 2))
    assert [_list(column) for column in listed.new] == [[1, 10]]


def test_a_missing_publication_stops_the_stream_before_18() -> None:
    entry = RelationSyncEntry(ALL_ACTIONS, None, (member(),), missing=("nope",))
    with pytest.raises(UsageError, match='publication "nope" does not exist') as caught:
        list(publisher(entry, major=17).publish(CHAIN))
    assert caught.value.sqlstate == "42704"
    passing_over = publisher(entry, major=18)
    assert len(list(passing_over.publish(CHAIN))) == 1
    assert passing_over.passed_over == {"nope"}
    with pytest.warns(PublicationWarning, match='^skipped loading publication "nope"\nDETAIL:  .* at this point in the WAL'):
        warn_of_missing(passing_over.passed_over)


def test_transactions_that_see_another_entry() -> None:
    """Others see nothing published up to 104; transaction 1 published it itself from 101 on."""
    nothing, all_of_it = RelationSyncEntry(), RelationSyncEntry(ALL_ACTIONS, None, (member(),))
    common = {TABLE.oid: EntrySpans((0, 104), (nothing, all_of_it))}
    own = {1: {TABLE.oid: EntrySpans((0, 101), (nothing, all_of_it))}}
    timeline = EntryTimeline((0,), (Generation(common, own),))
    mixed = replace(CHAIN, ordinal=np.array([0, 1, 1, 0, 1, 0, 1, 0, 1, 0, 1]))
    (made,) = Publisher(timeline, 16, lambda *_: Above()).publish(mixed)  # type: ignore[arg-type,return-value]
    assert made.lsn.tolist() == [102, 104, 105, 106, 107, 108, 109]


def test_what_cannot_be_published_is_not() -> None:
    for other in (replace(TABLE, persistence="u"), replace(TABLE, oid=13000), replace(TABLE, kind="m")):
        assert (
            list(publisher(RelationSyncEntry(ALL_ACTIONS, None, (member(),))).publish(replace(CHAIN, relations=(other,)))) == []
        )


WORKER = """
import pickle, sys
publisher, batch = pickle.load(sys.stdin.buffer)
print([int(lsn) - 100 for published in publisher.publish(batch) for lsn in published.lsn])
print([name for name in sys.modules if name.partition(".")[0] == "pglast" or name.startswith("tailrace.expressions.analysis.transform")])
"""


def _in_a_worker(made: Publisher) -> list[str]:
    travelling = pickle.dumps((made.part({TABLE.oid}, {0}), CHAIN))
    done = subprocess.run([sys.executable, "-c", WORKER], input=travelling, capture_output=True, check=False)
    return [*done.stdout.decode().splitlines(), *done.stderr.decode().splitlines()[-1:]]


def test_a_worker_needs_no_parser_for_a_filter_in_sql() -> None:
    where = RowFilter("id > 5", SQL, ((1, "id"), (2, "v")))
    entry = RelationSyncEntry(ALL_ACTIONS, None, (member(row_filter=where),))
    compiler = FilterCompiler(16, Facts())
    ready = replace(publisher(entry), compile=compiler)
    ready.stored = stored_filters(compiler, ready.timeline.filters_of([TABLE]))
    ours = [row[0] - 100 for published in publisher(entry).publish(CHAIN) for row in told(published)]
    assert _in_a_worker(ready) == [str(ours), "[]"]


def test_what_cannot_be_analysed_is_an_error_of_the_first_change() -> None:
    where = RowFilter("nosuch > 5", SQL, ((1, "id"), (2, "v")))
    entry = RelationSyncEntry(ALL_ACTIONS, None, (member(row_filter=where),))
    compiler = FilterCompiler(16, Facts())
    ready = replace(publisher(entry), compile=compiler)
    ready.stored = stored_filters(compiler, ready.timeline.filters_of([TABLE]))
    context = 'WHERE clause of a publication, table "public.x"'
    assert _in_a_worker(ready) == [f"CONTEXT:  {context}"]
    with pytest.raises(UsageError, match='column "nosuch" does not exist') as caught:
        list(ready.publish(CHAIN))
    assert caught.value.context == context
