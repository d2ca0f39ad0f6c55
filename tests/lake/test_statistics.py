"""Delta's statistics are right, or there are none: decimals of many digits, in tables of ours and after others compacted them."""

from __future__ import annotations

import json
import random
from decimal import Context, Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from support.servers import Server
from tailrace.lake.changelog import append_changes
from tailrace.lake.delta.statistics import table_settings
from tailrace.lake.delta.table import find
from tailrace.lake.files.data_files import DataFiles
from tailrace.lake.files.file_changes import FileChanges
from tailrace.lake.files.statistics import without_statistics
from tailrace.lake.mirror import mirror
from tailrace.lake.reading import read_table
from tailrace.lake.table import CommitNote
from tailrace.pipeline import open_pipeline
from tailrace.storage.local_store import LocalStore

BIG = [Decimal("1234567890123456.78"), Decimal("9" * 35 + ".99"), Decimal("-" + "9" * 16 + ".01")]
SMALL = Decimal("9999999999999.99")
ODD = 'N."o, d`d'


def _statistics(folder):
    """Of each file of the newest version, by path: the last that the log says."""
    said = {}
    for file in sorted((folder / "_delta_log").glob("*.json")):
        for action in map(json.loads, file.read_text().splitlines()):
            if "add" in action:
                said[action["add"]["path"]] = json.loads(action["add"]["stats"])
    live = pa.table(DeltaTable(folder).get_add_actions())["path"].to_pylist()
    return [said[path] for path in live]


def _sides(folder, *names):
    """Where a column is mentioned."""
    found = []
    for each in _statistics(folder):
        for side in ("minValues", "maxValues", "nullCount"):
            values = each.get(side) or {}
            for name in names:
                values = values.get(name) or {} if name != names[-1] else values
            if names[-1] in values:
                found.append(side)
    return found


def _rows(ids, name="n", digits=38):
    decimals = pa.array((BIG * len(ids))[: len(ids)], pa.decimal128(digits, 2))
    return pa.table(
        {"id": pa.array(ids, pa.int64()), name: decimals, "small": pa.array([SMALL] * len(ids), pa.decimal128(15, 2))}
    )


@pytest.mark.parametrize("name", ["n", ODD])
def test_who_writes_and_who_compacts_leaves_them_out(tmp_path, name):
    rows = _rows([1, 2, 3], name)
    write_deltalake(tmp_path, rows.schema.empty_table(), configuration=table_settings(rows.schema))
    for _ in range(2):
        _append(tmp_path, rows)
    write_deltalake(tmp_path, rows, mode="append")  # whoever that is
    assert DeltaTable(tmp_path).optimize.compact()["numFilesAdded"] == 1
    assert _sides(tmp_path, name) == []
    assert set(_sides(tmp_path, "id")) == set(_sides(tmp_path, "small")) == {"minValues", "maxValues", "nullCount"}
    assert table_settings(rows.drop_columns([name]).schema) == {}
    for value in BIG:
        found = (
            DeltaTable(tmp_path)
            .to_pyarrow_dataset()
            .to_table(filter=pc.field(name) == pa.scalar(value, rows.schema.field(name).type))
        )
        assert found.num_rows == 3


def _append(folder, rows):
    """As we do."""
    file = DataFiles(LocalStore(folder), rows.schema, "run", without_statistics(rows.schema)).write(rows)
    find(folder).commit("t", FileChanges(added=(file,)), CommitNote())


def test_fifteen_digits_are_right(tmp_path):
    """The limit is where a float no longer tells one from the next."""
    values = [Decimal(f"{sign}99999999999{n:02}.{m:02}") for sign in ("", "-") for n in range(100) for m in (0, 1, 49, 99)]
    for number, value in enumerate(values[::8]):
        write_deltalake(tmp_path, pa.table({"n": pa.array([value], pa.decimal128(15, 2))}), mode="append" if number else "error")
    for each in pa.table(DeltaTable(tmp_path).get_add_actions(flatten=True)).to_pylist():
        assert each["min.n"] == each["max.n"]
        assert each["min.n"] in values


@pytest.mark.parametrize("checkpointed", [False, True])
def test_what_was_wrong_is_put_right(tmp_path, checkpointed):
    """The same files with true statistics: no row comes or goes, also where the log begins with a checkpoint."""
    for start in (0, 10, 20):
        write_deltalake(tmp_path, _rows([start, start + 1, start + 2]), mode="append")
    if checkpointed:
        DeltaTable(tmp_path).create_checkpoint()
        for number in range(2):
            (tmp_path / "_delta_log" / f"{number:020}.json").unlink()
    opened = find(tmp_path)
    found, table = opened.found, DeltaTable(tmp_path)
    before = read_table(tmp_path).sort_by("id")
    wrong = table.to_pyarrow_dataset().to_table(filter=pc.field("n") == pa.scalar(BIG[1], pa.decimal128(38, 2)))
    assert wrong.num_rows < 3
    right = opened.put_right("t", opened.wrong_files())
    assert right.version == found.version + 1
    assert right.open().wrong_files() == []
    table = DeltaTable(tmp_path)
    assert table.version() == right.version
    assert len(table.file_uris()) == 3
    assert read_table(tmp_path).sort_by("id").equals(before)
    actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    assert {each.get("null_count.n") for each in actions} == {None}
    assert sorted((each["min.id"], each["max.id"]) for each in actions) == [(0, 2), (10, 12), (20, 22)]
    for value in BIG:
        filtered = pc.field("n") == pa.scalar(value, pa.decimal128(38, 2))
        assert table.to_pyarrow_dataset().to_table(filter=filtered).num_rows == 3
    table.create_checkpoint()
    assert read_table(tmp_path).sort_by("id").equals(before)


@pytest.mark.postgres
def test_tables_made_before_are_put_right_by_the_next_run(tmp_path):
    """A merge whose key is such a number finds its row; so does who reads with a filter."""
    with Server(18, test_decoding=False) as server:
        server.say("CREATE TABLE t (n numeric(38,2) PRIMARY KEY, note text)")
        for number, value in enumerate(BIG):
            server.say(f"INSERT INTO t VALUES ({value}, '{number}')")
        lake, log = tmp_path / "lake" / "public.t", tmp_path / "log" / "public.t"
        mirror(open_pipeline(server.data_dir, "postgres"), lake.parent)
        append_changes(open_pipeline(server.data_dir, "postgres"), log.parent)
        assert _sides(lake, "n") == _sides(log, "new", "n") == []
        for folder in (lake, log):  # as tables are that were made without the setting
            DeltaTable(folder).alter.set_table_properties({"delta.dataSkippingStatsColumns": "n,note,new"})
            rows = read_table(folder)
            write_deltalake(folder, rows, mode="overwrite", commit_properties=CommitProperties(max_commit_retries=0))
        assert _sides(lake, "n")
        assert _sides(log, "new", "n")
        feed = open_pipeline(server.data_dir, "postgres")
        assert [each.trouble for each in mirror(feed, lake.parent) + append_changes(feed, log.parent)] in ([], [None, None])
        assert _sides(lake, "n") == _sides(log, "new", "n") == []
        server.say("ALTER TABLE t ADD COLUMN big numeric(20,4)")
        server.say(*(f"UPDATE t SET note = note || '!', big = {n}.5 WHERE n = {value}" for n, value in enumerate(BIG)))
        server.say("ALTER TABLE t ALTER big TYPE numeric(30,4)")
        mirror(open_pipeline(server.data_dir, "postgres"), lake.parent)
        append_changes(open_pipeline(server.data_dir, "postgres"), log.parent)
        assert sorted(row["note"] for row in read_table(lake).to_pylist()) == ["0!", "1!", "2!"]
        assert len(read_table(log)) == 6
        for folder in (lake, log):
            DeltaTable(folder).optimize.compact()
        assert _sides(lake, "n") == _sides(lake, "big") == _sides(log, "new", "n") == _sides(log, "new", "big") == []


@pytest.mark.parametrize("seed", range(3))
def test_no_reader_misses_a_row(tmp_path, seed):
    _trial(tmp_path, seed)


@pytest.mark.marathon
@pytest.mark.parametrize("seed", range(100, 200))
def test_no_reader_misses_a_row_ever(tmp_path, seed):
    _trial(tmp_path, seed)


def _trial(folder, seed):
    """Written by us, by others and by merges, compacted, made before and put right: in any order; and readers that go by statistics."""
    chance = random.Random(seed)
    digits, name = chance.choice((15, 16, 17, 18, 20, 28, 37, 38)), chance.choice(("n", "N n", ODD.replace("`", "")))
    kind = pa.decimal128(digits, chance.choice((0, 2, 5, 6, 15)))
    schema = pa.schema([("id", pa.int64()), (name, kind), ("f", pa.float64())])
    write_deltalake(folder, schema.empty_table(), configuration=table_settings(schema) if chance.random() < 0.5 else None)
    rows = {}
    for number in range(chance.randrange(3, 7)):
        values = {number * 10 + k: _decimal(chance, kind) for k in range(chance.randrange(1, 5))}
        table = pa.table([list(values), pa.array(list(values.values()), kind), [1.5] * len(values)], schema=schema)
        ours = chance.random() < 0.5
        if ours:
            _append(folder, table)
        else:
            write_deltalake(folder, table, mode="append")
        rows.update(values)
        if chance.random() < 0.3:
            DeltaTable(folder).optimize.compact()
        if chance.random() < 0.2:
            DeltaTable(folder).create_checkpoint()
    table = find(folder)
    if wrong := table.wrong_files():
        table.put_right("t", wrong)
    else:
        DeltaTable(folder).alter.set_table_properties({"delta.appendOnly": "false", **table_settings(schema)})
    table = DeltaTable(folder)
    print(seed, kind, len(rows), len(wrong))
    assert digits > 15 or kind.scale > 5 or not wrong
    for key, value in rows.items():
        equal = pc.field(name) == pa.scalar(value, kind)
        same = sorted(each for each, other in rows.items() if other == value)
        assert sorted(table.to_pyarrow_dataset().to_table(filter=equal)["id"].to_pylist()) == same, (key, value)
    values = list(dict.fromkeys(rows.values()))
    merged = pa.table([[-1] * len(values), pa.array(values, kind), [2.5] * len(values)], schema=schema)
    quoted = '"' + name.replace('"', '""') + '"'
    how = {"source_alias": "s", "target_alias": "t", "streamed_exec": False}
    done = (
        table.merge(merged, f"t.{quoted} = s.{quoted}", **how).when_matched_update_all().when_not_matched_insert_all().execute()
    )
    assert (done["num_target_rows_updated"], done["num_target_rows_inserted"]) == (len(rows), 0)
    assert find(folder).wrong_files() == []


def _decimal(chance, kind):
    """Often as near to another as can be, and at the ends."""
    whole = 10**kind.precision
    number = chance.choice((whole - 1, whole // 3, 0, chance.randrange(whole))) - chance.choice((0, 1, 0, 2))
    return Decimal(number * chance.choice((1, -1))).scaleb(-kind.scale, Context(prec=60))
