"""Batches of stored values as typed Arrow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from support.changes_by_hand import INT4, TEXT, relation
from tailrace.changes import change_batch, change_schema
from tailrace.decode import DELETE, INSERT, NO_OLD, OLD_KEY, OLD_ROW, UPDATE, Batch
from tailrace.errors import UsageError
from tailrace.model import Column, PgType
from tailrace.transactions.commit_or_abort import Transactions
from tailrace.types.values import Values

INT8 = PgType(20, "pg_catalog", "int8", "bigint", "b", 8, 8)
NONE = np.zeros(0, np.uint32)


def _ints(*numbers):
    return Values.of_payloads([None if n is None else n.to_bytes(4, "little") for n in numbers], 4)


def _texts(*texts):
    return Values.of_payloads([None if text is None else text.encode() for text in texts], -1)


def _facts():
    longs = [np.array(numbers, np.int64) for numbers in ([900, 950], [910, 960], [1, 2], [1_000_000, 0])]
    two = np.zeros(2, np.int64)
    xids = np.array([7, 4_000_000_000])
    return Transactions(
        two.astype(np.uint8), two - 1, xids.astype(np.uint32), xids, *longs, two.astype(np.uint32), two.astype(np.uint16), two, two, two, [],
        np.zeros(3, np.int64), NONE,
    )  # fmt: skip


def _batch(of=None):
    """An insert, an update with unsent values and a changed key, a delete by key, an update with a whole old row."""
    new_big = _texts("big", None, None, None)
    new_big.unchanged = np.array([False, True, False, True])
    table = of or relation()
    return Batch(
        relations=(table,), published_as=(table,), number=np.zeros(4, np.int64), columns=table.live_columns,
        ordinal=np.array([0, 0, 1, 1]), lsn=np.array([100, 110, 120, 130]), sequence=np.array([0, 0, 0, 3]),
        kind=np.array([INSERT, UPDATE, DELETE, UPDATE], np.uint8), old_kind=np.array([NO_OLD, OLD_KEY, OLD_KEY, OLD_ROW], np.uint8),
        new=[_ints(1, 2, None, 4), _texts("a", "b", None, "d"), _ints(10, None, None, 40), new_big],
        old=[_ints(None, 1, 3, 4), _texts(None, "a", "c", "d"), _ints(None, 99, 99, 39), _texts(None, None, None, "whole")],
    )  # fmt: skip


def test_a_batch():
    found = change_batch(_batch(), _facts())
    assert found.schema.equals(change_schema(relation()))
    found.validate(full=True)
    rows = found.to_pylist()
    assert [row["kind"] for row in rows] == ["insert", "update", "delete", "update"]
    assert [(row["commit_lsn"], row["end_lsn"], row["xid"], row["lsn"], row["sequence"]) for row in rows] == [
        (900, 910, 7, 100, 0), (900, 910, 7, 110, 0), (950, 960, 4_000_000_000, 120, 0), (950, 960, 4_000_000_000, 130, 3),
    ]  # fmt: skip
    assert [str(row["commit_timestamp"]) for row in rows[1:3]] == ["2000-01-01 00:00:01+00:00", "2000-01-01 00:00:00+00:00"]
    assert [row["unchanged"] for row in rows] == [[], ["big"], [], ["big"]]
    assert [row["new"] for row in rows] == [
        {"k": 1, "l": "a", "a": 10, "big": "big"}, {"k": 2, "l": "b", "a": None, "big": None}, None, {"k": 4, "l": "d", "a":
        40, "big": None}, ]  # fmt: skip
    assert [row["old"] for row in rows] == [
        None, {"k": 1, "l": "a", "a": None, "big": None}, {"k": 3, "l": "c", "a": None, "big": None},
        {"k": 4, "l": "d", "a": 39, "big": "whole"},
    ]  # fmt: skip


def test_nothing_old():
    batch = replace(_batch(), old=None, old_kind=np.zeros(4, np.uint8))
    assert change_batch(batch, _facts())["old"].null_count == 4


def test_as_a_later_version():
    """A renamed and widened column, a dropped one, and one that was added with a default."""
    first, second, _, big = relation().columns
    added = Column(5, "added", TEXT, -1, -1, 4, missing=b"given")
    later = replace(
        relation(), columns=(replace(first, name="key", type=INT8, length=8), second, Column(3, "", None, -1, 4, 4), big, added)
    )
    plain = change_batch(_batch(), _facts(), later)
    assert plain.schema.equals(change_schema(later))
    assert plain.to_pylist()[0]["new"] == {"key": 1, "l": "a", "big": "big", "added": None}
    filled = change_batch(_batch(), _facts(), later, fill_missing=True).to_pylist()
    assert [row["new"] and row["new"]["added"] for row in filled] == ["given", "given", None, "given"]
    assert filled[3]["old"] == {"key": 4, "l": "d", "big": "whole", "added": "given"}


def test_a_retype_that_does_not_widen():
    columns = relation().columns
    later = replace(relation(), columns=(columns[0], replace(columns[1], type=INT4, length=4), *columns[2:]))
    with pytest.raises(UsageError, match="cannot read values of type string as int32") as caught:
        change_batch(_batch(), _facts(), later)
    assert caught.value.context == "column l of table public.t, changes that commit from 0/384 to 0/3B6"


def test_only_types_that_spark_takes():
    for field in change_schema(relation()):
        assert field.type != pa.large_string()
