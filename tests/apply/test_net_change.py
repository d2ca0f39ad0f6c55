"""Applying the net of changes is applying the changes one by one."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.applied_changes import applied
from support.changes_by_hand import Log, relation
from tailrace.apply.net_change import net_change
from tailrace.changes import row_schema
from tailrace.errors import InsufficientLogging, MissingHistory

KEYS = st.tuples(st.integers(0, 3), st.sampled_from("ab"))
WHAT = ("insert", "update", "update", "toast", "toast", "move", "move toast", "delete", "truncate")
STEP = st.tuples(st.sampled_from(WHAT), KEYS, KEYS, st.integers())
NAMES = ("k", "l", "a", "big")


def _row(key, a, big):
    return {"k": key[0], "l": key[1], "a": a % 1000, "big": big}


def _play(steps, log, target, *, full):
    """The steps that make sense, on a dict of key -> row, and into the log."""
    rows = dict(target)

    def old_of(row):
        return row if full else {name: row[name] if name in ("k", "l") else None for name in NAMES}

    for number, (what, key, other, a) in enumerate(steps):
        row, big = rows.get(key), f"big {number}"
        if what == "truncate":
            log.truncate()
            rows = {}
        elif what == "insert" and row is None:
            rows[key] = _row(key, a, big)
            log.add("insert", rows[key])
        elif row is None or (what.startswith("move") and (other in rows or other == key)) or what == "insert":
            continue
        elif what == "delete":
            log.add("delete", None, old_of(rows.pop(key)))
        else:
            keeps, moves = what.endswith("toast"), what.startswith("move")
            del rows[key]
            final = other if moves else key
            rows[final] = _row(final, a, row["big"] if keeps else big)
            sent = {**rows[final], "big": None} if keeps else rows[final]
            log.add("update", sent, old_of(row) if moves or full else None, ["big"] if keeps else [])
    return rows


def _table(rows, of):
    return pa.Table.from_pylist(list(rows), schema=row_schema(of))


@settings(max_examples=300, deadline=None)
@given(st.lists(STEP, max_size=40), st.sets(KEYS), st.randoms(use_true_random=False), st.sampled_from(["d", "f"]))
def test_net_equals_one_by_one(steps, present, shuffle, identity):
    of = relation(identity=identity, key=(1, 2) if identity == "d" else (), primary=(1, 2))
    target = {key: _row(key, -1, f"first {key}") for key in present}
    log = Log(of)
    expected = _play(steps, log, target, full=identity == "f")
    order = list(range(len(log.rows)))
    shuffle.shuffle(order)
    net = net_change(log.table(order), of, log.truncations)
    result = applied(net, _table(target.values(), of)).to_pylist()
    assert {(row["k"], row["l"]): row for row in result} == expected
    assert len(result) == len(expected)


@settings(max_examples=200, deadline=None)
@given(st.lists(STEP, max_size=40), st.sets(KEYS))
def test_without_a_key_rows_are_counted(steps, present):
    of = relation(identity="f", key=())
    target = {key: _row(key, -1, None) for key in present}
    log = Log(of)
    expected = _play(steps, log, target, full=True)
    # Twins that nothing tells apart
    twin = _row((9, "z"), 1, "twin")
    log.add("insert", twin)
    log.add("insert", twin)
    log.add("delete", None, twin)
    result = applied(net_change(log.table(), of, log.truncations), _table(target.values(), of)).to_pylist()
    assert Counter(map(str, result)) == Counter(map(str, [*expected.values(), twin]))


def test_a_long_chain_of_unsent_values():
    of = relation()
    log = Log(of)
    log.add("insert", _row((0, "a"), 0, "deep"))
    for number in range(1, 5000):
        log.add("update", {**_row((number, "a"), number, None)}, {"k": number - 1, "l": "a", "a": None, "big": None}, ["big"])
    net = net_change(log.table(), of)
    assert net.upserts.to_pylist() == [_row((4999, "a"), 4999, "deep")]
    assert net.fills == []
    assert len(net.deletes) == 4999


def test_a_value_that_nobody_has():
    of = relation()
    log = Log(of)
    log.add("update", _row((1, "a"), 1, None), None, ["big"])
    net = net_change(log.table(), of)
    assert [fill.column for fill in net.fills] == ["big"]
    with pytest.raises(MissingHistory, match='"big" was not sent'):
        applied(net, _table([], of))


NO_IDENTITY = "because it does not have a replica identity and publishes"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("update", f'cannot update table "t" {NO_IDENTITY} updates'),
        ("delete", f'cannot delete from table "t" {NO_IDENTITY} deletes'),
    ],
)
def test_no_identity(kind, words):
    of = relation(identity="n", key=())
    log = Log(of)
    log.add("insert", _row((1, "a"), 1, "x"))
    assert len(net_change(log.table(), of).upserts) == 1
    log.add(kind, _row((1, "a"), 2, "x") if kind == "update" else None)
    with pytest.raises(InsufficientLogging, match=words) as caught:
        net_change(log.table(), of)
    assert caught.value.sqlstate == "55000"


def test_truncate_alone():
    of = relation()
    log = Log(of)
    log.truncate()
    net = net_change(log.table(), of, log.truncations)
    assert net.truncated
    assert len(applied(net, _table([_row((1, "a"), 1, "x")], of))) == 0
