"""Tables are maintained: their rows stay what they are, small files become few, and nothing goes that somebody may still ask for."""

from __future__ import annotations

import json
import random
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from support.sampling import some_of
from tailrace.delta_log.file_statistics import FileStatistics
from tailrace.delta_log.log_files import FOLDER, checkpoint_name, commit_name
from tailrace.errors import CorruptFile, MissingHistory, Overtaken
from tailrace.lake.delta.removal import remove_dead_runs
from tailrace.lake.delta.rows import read_rows
from tailrace.lake.delta.snapshot import DeltaSnapshot
from tailrace.lake.delta.table import DeltaVersion
from tailrace.lake.files import gathering
from tailrace.lake.files.data_files import MOST_ROWS, DataFiles, is_full
from tailrace.lake.files.gathering import gather
from tailrace.lake.files.table_edit import TableEdit
from tailrace.lake.maintenance import maintain
from tailrace.lake.table import DAY, CommitNote, FileLayout, Gathered
from tailrace.storage.local_store import LocalStore

WEEK = 7 * DAY


@dataclass
class Clock:
    """What `time.time` says, moved."""

    ahead: float = 0.0

    def pass_by(self, seconds: float) -> None:
        self.ahead += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    moved, real, real_ns = Clock(), time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: real() + moved.ahead)
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() + int(moved.ahead * 1e9))
    return moved


def _edit(found: DeltaVersion, layout: FileLayout, schema: pa.Schema) -> TableEdit:
    data = DataFiles(found.store, schema, uuid.uuid4().hex, layout.without_statistics)
    files = found.open().files if found.is_there else []
    return TableEdit(data, files, layout.by or schema.names, keeps_vectors=not found.is_there or found.open().keeps_vectors)


def apply(
    found: DeltaVersion, layout: FileLayout, rows: pa.Table, gone: pa.Table | None = None, *, vectors: bool = True
) -> DeltaVersion:
    """A window: keys that go, rows that come."""
    edit = _edit(found, layout, rows.schema)
    if gone is not None:
        edit.delete(gone) if layout.by else edit.delete_copies(gone)
    edit.insert(rows)
    note = CommitNote().with_vectors() if vectors else CommitNote()
    if not found.is_there:
        edit.keeps_vectors = vectors
        return found.make("t", "t", rows.schema, note, edit.changes()[0])
    return found.commit("t", edit.changes()[0], CommitNote())


def rows_of(found: DeltaVersion) -> pa.Table:
    return pa.Table.from_batches(read_rows(found.store, found.snapshot), found.snapshot.schema)


def content(found: DeltaVersion) -> list[str]:
    return sorted(map(repr, rows_of(found).to_pylist()))


def begun(folder: Path) -> DeltaVersion:
    return DeltaVersion(LocalStore(folder))


def check_files(found: DeltaVersion, layout: FileLayout) -> None:
    """Statistics are exact, files have one group of rows, and are no larger than they should be."""
    for file in found.open().files:
        with found.store.open(file.path) as source:
            parquet = pq.ParquetFile(source)
            assert parquet.metadata.num_row_groups == 1
            assert not parquet.metadata.row_group(0).column(0).has_offset_index
            rows = parquet.read()
        assert rows.num_rows <= MOST_ROWS
        columns = [name for name in found.snapshot.schema.names if name not in layout.without_statistics]
        expected = json.loads(FileStatistics.of(rows.cast(found.snapshot.schema), columns).as_json())
        said = json.loads(file.statistics)
        said.pop("tightBounds", None)
        assert said == expected


def _data(found: DeltaVersion) -> DataFiles:
    return DataFiles(found.store, found.snapshot.schema, uuid.uuid4().hex)


def _values(ids: Sequence[int], salt: int) -> dict[str, Any]:
    return {
        "id": pa.array(ids, pa.int64()), "n": pa.array([Decimal(number * 7 + salt) / 100 for number in ids], pa.decimal128(12, 2)),
        "text": pa.array([None if number % 5 == 0 else f"é {number} {salt}" for number in ids], pa.string()),
        "at": pa.array([1_700_000_000_000_001 + number * 1_000_003 for number in ids], pa.timestamp("us", "UTC")),
    }  # fmt: skip


def _keyed(ids: Sequence[int], salt: int) -> pa.Table:
    return pa.table(_values(ids, salt))


def _by_text(ids: Sequence[int], salt: int) -> pa.Table:
    return pa.table({"code": pa.array([f"k{number:06} é" for number in ids], pa.string()), **_values(ids, salt)})


def _by_two(ids: Sequence[int], salt: int) -> pa.Table:
    parts = {
        "x": pa.array([number % 3 for number in ids], pa.int32()),
        "y": pa.array([f"{number}" for number in ids], pa.string()),
    }
    return pa.table({**parts, **_values(ids, salt)})


def _nullable(ids: Sequence[int], salt: int) -> pa.Table:
    keys = {"a": pa.array([number // 2 if number % 4 else None for number in ids], pa.int64()), "b": pa.array(ids, pa.int64())}
    return pa.table({**keys, **_values(ids, salt)})


def _lists(ids: Sequence[int], salt: int) -> pa.Table:
    tags = pa.array([[number, salt] for number in ids], pa.list_(pa.field("element", pa.int64())))
    return pa.table({"tags": tags, **_values(ids, salt)})


def _one_column(ids: Sequence[int], salt: int) -> pa.Table:
    return pa.table({"id": pa.array([number % 50 for number in ids], pa.int64())})


KINDS = {
    "keyed": (_keyed, FileLayout(("id",))),
    "text": (_by_text, FileLayout(("code",), frozenset({"n"}))),
    "composite": (_by_two, FileLayout(("x", "y"))),
    "nullable": (_nullable, FileLayout(("a", "b"))),
    "no key": (_keyed, FileLayout()),
    "no key, lists": (_lists, FileLayout()),
    "no key, one column": (_one_column, FileLayout()),
}


@pytest.mark.parametrize("vectors", [True, pytest.param(False, marks=pytest.mark.marathon)])
@pytest.mark.parametrize("kind", some_of([pytest.param(each, id=each) for each in KINDS], 2))
def test_rows_stay_and_files_become_few(tmp_path: Path, kind: str, vectors: bool) -> None:
    make, layout = KINDS[kind]
    random.seed(7)
    found = begun(tmp_path)
    there: list[int] = []
    for step in range(30):
        new = [*range(step * 40, step * 40 + 40)]
        old = random.sample(there, min(len(there), 25))
        gone = make(old, 0) if layout.by else (rows_of(found).slice(3, 9) if step else None)
        again = old[:12] if layout.by else []
        found = apply(found, layout, make([*new, *again], step), gone if step else None, vectors=vectors)
        if layout.by:
            there = [*(set(there) - set(old)), *new, *again]
    expected, before = content(found), len(found.open().files)
    assert not layout.by or len(expected) == len(there)
    assert before >= 20
    assert not vectors or any(file.deletion_vector for file in found.open().files)
    after, gathered = gather(found, "t", layout)
    assert content(after) == expected
    assert len(after.open().files) < 10
    assert gathered.files >= 20
    assert not any(file.deletion_vector for file in after.open().files)
    assert content(found) == expected  # a reader of the version before
    check_files(after, layout)
    delta = DeltaTable(tmp_path)
    assert delta.version() == after.version
    if kind != "no key, lists":
        told = QueryBuilder().register("t", delta).execute("SELECT * FROM t").read_all()
        assert sorted(map(repr, pa.table(told).cast(after.snapshot.schema).to_pylist())) == expected
    info = json.loads((tmp_path / commit_name(after.version)).read_text().splitlines()[0])["commitInfo"]
    assert info["operation"] == "OPTIMIZE"
    actions = [json.loads(line) for line in (tmp_path / commit_name(after.version)).read_text().splitlines()[1:]]
    assert {next(iter(each.values()))["dataChange"] for each in actions} == {False}
    again, gathered = gather(after, "t", layout)
    assert (again.version, gathered) == (after.version, Gathered())
    later = apply(again, layout, make([9000, 9001], 1), make(there[:5], 0) if layout.by else None)
    assert len(content(later)) == len(expected) - (5 if layout.by else 0) + 2


def test_rows_are_not_written_again_and_again(tmp_path: Path) -> None:
    """Of small windows, each row is gathered a few times, and not with every ten windows that follow."""
    layout, found, written = FileLayout(("id",)), begun(tmp_path), 0
    rng = random.Random(3)
    for step in range(200):
        noise = pa.array([rng.randbytes(500) for _ in range(20)], pa.binary())
        found = apply(found, layout, pa.table({"id": pa.array(range(step * 20, step * 20 + 20), pa.int64()), "b": noise}))
        if step % 10 == 9:
            before = {file.path for file in found.open().files}
            found, _ = gather(found, "t", layout)
            written += sum(file.size for file in found.open().files if file.path not in before)
    size = sum(file.size for file in found.open().files)
    assert size > 2_000_000
    assert written < 3.5 * size
    assert len(found.open().files) < 30


def test_files_that_span_the_same_keys_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of random updates: each left a file with keys from the first to the last."""
    monkeypatch.setattr(gathering, "_SMALL", 0)  # so that all are large
    monkeypatch.setattr(gathering, "FILE_BYTES", 400_000)
    random.seed(1)
    for make, layout in (KINDS["text"], KINDS["nullable"], KINDS["composite"]):
        found = begun(tmp_path / make.__name__)
        for step in range(20):
            ids = random.sample(range(100_000), 500)
            found = apply(found, layout, make(ids, step), make(ids, 0))
        expected = content(found)
        deep = gathering._spanning_one_key(found.open().files, _data(found), layout.by[0])
        assert len(deep) == 20
        after, gathered = gather(found, "t", layout)
        assert content(after) == expected
        if make is _by_two:  # three values of the first column cannot be cut into more parts
            assert len(gathering._spanning_one_key(after.open().files, _data(after), "x")) <= 20
            continue
        assert gathered.files == 20
        assert 2 <= gathered.into <= 20
        assert len(gathering._spanning_one_key(after.open().files, _data(after), layout.by[0])) <= 2
        check_files(after, layout)
        assert gather(after, "t", layout)[1] == Gathered()


def test_memory_is_bounded_by_rows_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of the same text over and over are small, and large in memory: they are gathered in portions, once."""
    from tailrace.lake.files import data_files, table_edit  # noqa: PLC0415

    monkeypatch.setattr(table_edit, "FILE_BYTES", 1 << 20)
    monkeypatch.setattr(data_files, "FILE_BYTES", 1 << 20)
    monkeypatch.setattr(table_edit, "_GATHERED_BYTES", 2 << 20)
    layout, found = FileLayout(("id",)), begun(tmp_path)
    for step in range(12):
        ids = pa.array(range(step * 500, step * 500 + 500), pa.int64())
        found = apply(found, layout, pa.table({"id": ids, "text": pa.array(["x" * 2000] * 500)}))
    expected, largest = content(found), []
    insert = TableEdit.insert

    def watched(self: TableEdit, rows: pa.Table) -> None:
        largest.append(rows.nbytes)
        insert(self, rows)

    monkeypatch.setattr(TableEdit, "insert", watched)
    after, gathered = gather(found, "t", layout)
    assert gathered.files == 12
    assert content(after) == expected
    assert max(largest) < 3.2 * (1 << 20)
    assert all(is_full(file) for file in after.open().files if file.path not in {each.path for each in found.open().files})
    assert gather(after, "t", layout)[1] == Gathered()


def test_two_gather_at_once(tmp_path: Path) -> None:
    layout, found = FileLayout(("id",)), begun(tmp_path)
    for step in range(12):
        found = apply(found, layout, _keyed([step, step + 100], step))
    expected = content(found)
    after, _ = gather(found, "t", layout)
    files = {path.name for path in tmp_path.glob("*.parquet")}
    with pytest.raises(Overtaken, match="has a version 12 that this run did not write") as caught:
        gather(found, "t", layout)
    assert "Another run (OPTIMIZE) committed it" in (caught.value.detail or "")
    assert {path.name for path in tmp_path.glob("*.parquet")} == files  # what the loser wrote is gone
    assert content(after.refreshed()) == expected


@pytest.mark.parametrize("first", ["gather", "apply"])
def test_gathering_meets_an_apply(tmp_path: Path, first: str) -> None:
    """Exactly one wins, and what the other has is told, and goes in after."""
    layout, found = FileLayout(("id",)), begun(tmp_path)
    for step in range(12):
        found = apply(found, layout, _keyed([step, step + 100], step))
    keys, new = _keyed([3, 105], 0), _keyed([3, 500], 99)
    edit = _edit(found, layout, new.schema)
    edit.delete(keys)
    edit.insert(new)
    changes = edit.changes()[0]
    if first == "gather":
        gather(found, "t", layout)
        with pytest.raises(Overtaken):
            found.commit("t", changes, CommitNote())
        edit.abandon()
        latest = apply(found.refreshed(), layout, new, keys)
    else:
        found.commit("t", changes, CommitNote())
        with pytest.raises(Overtaken):
            gather(found, "t", layout)
        latest, _ = gather(found.refreshed(), "t", layout)
    ids = sorted(rows_of(latest)["id"].to_pylist())
    assert ids == sorted({*range(12), *range(100, 112), 500} - {105})
    assert [row["n"] for row in rows_of(latest).to_pylist() if row["id"] == 3] == [Decimal("1.20")]


def test_many_threads_gather_apply_and_remove(tmp_path: Path) -> None:
    """Drawn by the scheduler: at the end the table has what was applied, and no file is missing that it needs."""
    layout, found = FileLayout(("id",)), begun(tmp_path)
    found = apply(found, layout, _keyed([0], 0))
    expected: dict[int, int] = {0: 0}
    over, failed = threading.Event(), []

    def keep_up() -> None:
        mine = begun(tmp_path)
        while not over.is_set():
            try:
                mine = maintain(mine.refreshed(), "t", layout).version
            except Overtaken:
                continue
            except Exception as error:
                failed.append(error)

    threads = [threading.Thread(target=keep_up) for _ in range(2)]
    for thread in threads:
        thread.start()
    rng = random.Random(5)
    for step in range(1, 60):
        ids = rng.sample(range(200), 8)
        while True:
            try:
                found = apply(found.refreshed(), layout, _keyed(ids, step), _keyed(ids, 0))
                break
            except Overtaken:
                continue
        expected |= dict.fromkeys(ids, step)
    over.set()
    for thread in threads:
        thread.join()
    assert failed == []
    rows = rows_of(begun(tmp_path).refreshed()).to_pylist()
    assert {row["id"]: row["n"] for row in rows} == {
        number: Decimal(number * 7 + salt) / 100 for number, salt in expected.items()
    }
    assert len(rows) == len(expected)


# -- removal -----------------------------------------------------------------------------------------------------------------------------


def _churned(folder: Path, steps: int = 30) -> DeltaVersion:
    """A table with vectors in files, and many files that are gone."""
    layout = FileLayout(("id",))
    found = apply(begun(folder), layout, _keyed(range(2000), 0))
    for step in range(steps):
        ids = [*range(step, 2000, 20)]
        found = apply(found, layout, _keyed(ids, step), _keyed(ids, 0))
    return found


def test_files_stay_for_the_retention(tmp_path: Path, clock: Clock) -> None:
    layout = FileLayout(("id",))
    found = _churned(tmp_path)
    assert list(tmp_path.glob("_dv/*"))
    expected = content(found)
    done = maintain(found, "t", layout)
    assert done.gathered.files
    assert done.removed.objects == 0
    clock.pass_by(WEEK - 60)
    assert done.version.remove_unneeded()[1].objects == 0
    assert content(found) == expected  # who reads the version before still does
    assert abs(done.version.remove_unneeded()[1].due - time.time() - 60) < 30
    clock.pass_by(90)
    after, removed = done.version.remove_unneeded()
    assert removed.objects > 30
    with pytest.raises(CorruptFile):
        content(found)
    assert content(after) == expected
    named = {file.path for file in after.open().files}
    assert {path.name for path in tmp_path.glob("*.parquet")} == named
    assert not list(tmp_path.glob("_dv/*"))
    assert content(begun(tmp_path).refreshed()) == expected
    assert after.remove_unneeded()[1].objects == 0


def test_what_the_configuration_says_of_retention(tmp_path: Path, clock: Clock) -> None:
    layout = FileLayout(("id",))
    for interval, seconds in (("interval 1 hour", 3600), ("interval 2 fortnights", None)):
        folder = tmp_path / interval[-9:]
        settings = {"delta.deletedFileRetentionDuration": interval, "delta.enableDeletionVectors": "true"}
        edit = _edit(begun(folder), layout, _keyed([1], 0).schema)
        edit.insert(_keyed(range(100), 0))
        found = begun(folder).make("t", "t", _keyed([1], 0).schema, CommitNote(settings=settings), edit.changes()[0])
        found = apply(found, layout, _keyed(range(100), 1), _keyed(range(100), 0))
        clock.pass_by(3700)
        assert found.remove_unneeded()[1].objects == (1 if seconds else 0)
        clock.pass_by(10 * WEEK)
        assert found.remove_unneeded()[1].objects == 0
        assert len(list(folder.glob("*.parquet"))) == (1 if seconds else 2)


def test_orphans_and_what_is_being_written(tmp_path: Path, clock: Clock) -> None:
    """A run's files are taken for a dead run's when the youngest of them is old. Others' are never touched."""
    layout = FileLayout(("id",))
    found = apply(begun(tmp_path), layout, _keyed(range(100), 0))
    dead, slow = (_edit(found, layout, _keyed([1], 0).schema) for _ in range(2))
    dead.insert(_keyed([500], 0))
    slow.insert(_keyed([600], 0))
    (tmp_path / "_dv").mkdir(exist_ok=True)
    foreign = [
        "part-00000-8a3c.snappy.parquet", "notes.txt", "_dv/readme", f"deletion_vector_{uuid.uuid4()}.bin", "part-of-me.parquet",
        f"sub/part-{uuid.uuid4().hex}-{uuid.uuid4().hex}.parquet", f"part-{uuid.uuid4().hex}-{uuid.uuid4().hex}.parquet.bak",
    ]  # fmt: skip
    for name in foreign:
        found.store.put(name, b"mine")
    found.store.put(f"_dv/deletion_vector_{uuid.uuid4()}.bin", b"ours")
    unfinished = tmp_path / f".part-{uuid.uuid4().hex}-{uuid.uuid4().hex}.parquet.{uuid.uuid4().hex}.new"
    unfinished.write_bytes(b"half")
    clock.pass_by(DAY - 60)
    slow.insert(_keyed([601], 0))
    assert found.remove_unneeded()[1].objects == 0
    assert unfinished.exists()
    clock.pass_by(120)
    after, removed = found.remove_unneeded()
    assert removed.objects == 2  # the dead run's file and the vector's; of the slow run none
    found = after.commit("t", slow.changes()[0], CommitNote())
    assert sorted(rows_of(found)["id"].to_pylist()) == [*range(100), 600, 601]
    assert all((tmp_path / name).exists() for name in foreign)
    assert not unfinished.exists()
    orphan = _edit(found, layout, _keyed([1], 0).schema)
    orphan.insert(_keyed([700], 0))
    assert found.remove_unneeded(orphans_older_than=-1)[1].objects == 1


def test_all_of_dead_runs_and_nothing_else(tmp_path: Path) -> None:
    layout = FileLayout(("id",))
    found = _churned(tmp_path, steps=3)
    older = found.snapshot
    found = apply(found, layout, _keyed(range(2000), 50), _keyed(range(2000), 0))
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    dead = _edit(found, layout, _keyed([1], 0).schema)
    dead.insert(_keyed([5000], 0))
    assert remove_dead_runs(found.store) == 1
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == before
    assert len(list(read_rows(found.store, older))) > 0  # files that were released are not a dead run's


def test_the_log_is_cut_behind_its_retention(tmp_path: Path, clock: Clock) -> None:
    layout = FileLayout(("id",))
    found = _churned(tmp_path, steps=45)  # checkpoints of versions 19 and 39
    kept = found
    clock.pass_by(WEEK + 60)
    for step in range(30):
        found = apply(found, layout, _keyed([step], 77), _keyed([step], 0))
    expected = content(found)
    old_half = found
    found, removed = found.remove_unneeded()
    assert removed.objects
    names = sorted(path.name for path in (tmp_path / FOLDER).glob("*.json"))
    assert names[0] == commit_name(39).removeprefix(FOLDER)
    assert not (tmp_path / checkpoint_name(19)).exists()
    assert content(begun(tmp_path).refreshed()) == expected
    for version in range(45, found.version + 1):  # committed within the retention
        assert DeltaSnapshot.read(found.store, version).version == version
    assert DeltaTable(tmp_path).version() == found.version
    with pytest.raises(MissingHistory):
        DeltaSnapshot.read(found.store, 30)
    assert content(kept.refreshed()) == expected  # who kept a snapshot whose commits are gone
    early = DeltaVersion(kept.store, DeltaSnapshot(5, kept.snapshot.found, "gone"))
    assert content(early.refreshed()) == expected
    assert content(old_half) == expected


def test_nothing_of_the_log_goes_if_its_checkpoint_is_damaged(tmp_path: Path, clock: Clock) -> None:
    found = _churned(tmp_path, steps=45)
    clock.pass_by(2 * WEEK)
    path = tmp_path / checkpoint_name(39)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    names = sorted((tmp_path / FOLDER).iterdir())
    with pytest.raises(CorruptFile):
        found.remove_unneeded()
    assert sorted((tmp_path / FOLDER).iterdir()) == names


def test_checkpoints_that_stand_close_go(tmp_path: Path, clock: Clock) -> None:
    layout = FileLayout(("id",))
    found = apply(begun(tmp_path), layout, _keyed([0], 0))
    for step in range(1, 130):
        found = apply(found, layout, _keyed([step], 0))
    assert len(list((tmp_path / FOLDER).glob("*.checkpoint.parquet"))) == 6
    clock.pass_by(7200)
    found.remove_unneeded()
    left = sorted(path.name[:20] for path in (tmp_path / FOLDER).glob("*.checkpoint.parquet"))
    assert [int(each) for each in left] == [19, 99, 119]
    for version in range(found.version + 1):
        assert len(DeltaSnapshot.read(found.store, version).files) == version + 1


def test_a_checkpoint_that_could_not_be_made_is_made(tmp_path: Path) -> None:
    layout = FileLayout(("id",))
    found = apply(begun(tmp_path), layout, _keyed([0], 0))
    for step in range(1, 50):
        found = apply(found, layout, _keyed([step], 0))
    for path in (tmp_path / FOLDER).glob("*checkpoint*"):
        path.unlink()
    found.remove_unneeded()
    assert (tmp_path / checkpoint_name(49)).exists()


def test_a_table_of_somebody_elses(tmp_path: Path, clock: Clock) -> None:
    """Its files are never ours to remove, and gathering them keeps its rows."""
    for step in range(12):
        write_deltalake(tmp_path, pa.table({"id": pa.array([step, step + 50], pa.int64())}), mode="append")
    DeltaTable(tmp_path).delete("id = 3")
    found = begun(tmp_path).refreshed()
    expected, files = content(found), set(tmp_path.glob("*.parquet"))
    after, gathered = gather(found, "t", FileLayout(("id",)))
    assert gathered.files == 12
    assert content(after) == expected
    clock.pass_by(3 * WEEK)
    after.remove_unneeded()
    assert files <= set(tmp_path.glob("*.parquet"))
    assert content(begun(tmp_path).refreshed()) == expected
