"""Delta tables as their log tells them: what delta-rs wrote, read as delta-rs reads it; commits of ours; logs that are damaged."""

from __future__ import annotations

import json
import random
import shutil
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, QueryBuilder, Transaction, write_deltalake

from support.delta_tables import SAID, begin_table, commit_until, data_file, table_rows
from support.folder_store import FolderStore
from support.forked import PROCESSES
from tailrace.delta_log.actions import Action, AddFile, AppTransaction, RemoveFile, write_actions
from tailrace.delta_log.checkpoint import read_tombstones, write_checkpoint
from tailrace.delta_log.deletion_vector import inline_vector, write_vectors
from tailrace.delta_log.log_files import FOLDER, LAST_CHECKPOINT, SIDECARS, checkpoint_name, commit_name
from tailrace.delta_log.table_state import with_metadata
from tailrace.errors import CorruptFile, MissingHistory, Overtaken, UnsupportedFile, UsageError
from tailrace.lake.delta.checkpoint import make_checkpoint
from tailrace.lake.delta.commit import MARK, commit, first_actions, new_metadata, now
from tailrace.lake.delta.snapshot import DeltaSnapshot, commit_info, commits_before


def delta_rows(folder: Path, columns: str = "*", version: int | None = None) -> list[dict[str, Any]]:
    """As delta-rs reads them. It is asked for all rows: with a predicate it misplaces deletion vectors (until 1.6.4)."""
    rows = QueryBuilder().register("t", DeltaTable(folder, version=version)).execute(f"SELECT {columns} FROM t").read_all()
    return sorted(pa.table(rows).to_pylist(), key=repr)


def our_rows(store: FolderStore, snapshot: DeltaSnapshot) -> list[dict[str, Any]]:
    return sorted(table_rows(store, snapshot).to_pylist(), key=repr)


def test_a_history_of_delta_rs(tmp_path: Path) -> None:
    """Appends, merges, deletes, columns that come, overwriting, checkpoints and a log that was cleaned up, each step drawn; every version that is
    there is as delta-rs has it."""
    for seed in range(2):
        random.seed(seed)
        folder = tmp_path / str(seed)
        store, next_id, followed = FolderStore(folder), 0, DeltaSnapshot()
        columns = ["id", "text"]
        for step in range(14):
            ids = [*range(next_id, next_id + random.randrange(1, 6))]
            values: dict[str, Any] = {"id": ids, "text": [f"é {step}"] * len(ids)} | {
                name: [1.5] * len(ids) for name in columns[2:]
            }
            done = CommitProperties(app_transactions=[Transaction(f"app {step % 2}", step)])
            kind = random.choice(["append", "append", "delete", "merge", "column", "overwrite", "checkpoint", "partitioned"])
            if step == 0 or kind == "append":
                partition = ["text"] if step == 0 and seed % 2 else None
                write_deltalake(folder, pa.table(values), mode="append", partition_by=partition, commit_properties=done)
            elif kind == "column":
                columns.append(f"c{step}")
                more = pa.table(values | {f"c{step}": [2.5] * len(ids)})
                write_deltalake(folder, more, mode="append", schema_mode="merge", commit_properties=done)
            elif kind == "overwrite":
                write_deltalake(folder, pa.table(values), mode="overwrite", commit_properties=done)
            elif kind == "delete":
                DeltaTable(folder).delete(f"id % 3 = {step % 3}", commit_properties=done)
            elif kind == "merge":
                source = pa.table({"id": [*ids, 1], "text": ["merged"] * (len(ids) + 1)})
                merge = DeltaTable(folder).merge(
                    source, "t.id = s.id", source_alias="s", target_alias="t", commit_properties=done
                )
                merge.when_matched_update({"text": "s.text"}).when_not_matched_insert({"id": "s.id", "text": "s.text"}).execute()
            elif kind == "checkpoint":
                DeltaTable(folder).create_checkpoint()
            next_id += len(ids)
            theirs = DeltaTable(folder)
            followed, read = followed.refreshed(store), DeltaSnapshot.read(store)
            assert followed.version == read.version == theirs.version(), (seed, step)
            assert followed.state == read.state, (seed, step)
            assert {f"{folder}/{file.path}" for file in read.files.values()} == set(theirs.file_uris()) or seed % 2
            assert read.schema.equals(pa.schema(theirs.schema().to_arrow())), (seed, step)
            assert read.transaction("app 0") == theirs.transaction_version("app 0"), (seed, step)
            assert read.metadata.id == str(theirs.metadata().id)
            assert our_rows(store, read) == delta_rows(folder), (seed, step)
        for version in range(read.version + 1):
            assert our_rows(store, DeltaSnapshot.read(store, version)) == delta_rows(folder, version=version), (seed, version)
        infos = dict(commits_before(store, read.version))
        assert [infos[each["version"]].timestamp for each in DeltaTable(folder).history()] == [
            each["timestamp"] for each in DeltaTable(folder).history()
        ]


def test_values_of_partitions(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "id": [1, 2, 3, 4], "p": ["a b/c", "é%", None, "x=y"], "n": pa.array([1, None, -3, 4], pa.int32()),
            "d": pa.array([0, 1, None, -800], pa.date32()), "at": pa.array([1, 2_000_000, None, -1], pa.timestamp("us", "UTC")),
            "b": [True, False, None, True],
        }
    )  # fmt: skip
    write_deltalake(tmp_path, rows, partition_by=["p", "n", "d", "at", "b"])
    store = FolderStore(tmp_path)
    assert our_rows(store, DeltaSnapshot.read(store)) == delta_rows(tmp_path) == sorted(rows.to_pylist(), key=repr)


def test_a_table_of_ours(tmp_path: Path) -> None:
    """Made, added to, rows deleted in a file of vectors and in the log, a vector grown, a file removed; delta-rs and a reader that begins anew have
    the same rows, also behind a checkpoint of delta-rs's and one of ours."""
    store, snapshot, rows = begin_table(tmp_path, files=4, rows_each=250)
    assert (snapshot.version, snapshot.protocol.reader, snapshot.transaction("tailrace")) == (1, 3, 7)
    first, second, third, fourth = snapshot.files.values()
    name, data, vectors = write_vectors([np.array([0, 5, 249]), np.arange(100, 240)], uuid.uuid4(), "_dv")
    store.put_new(name, data)
    pairs = [*zip((first, second), vectors, strict=True), (third, inline_vector(np.array([3])))]
    changes: list[Action] = [RemoveFile.of(fourth, now()), AppTransaction("tailrace", 8)]
    for file, vector in pairs:
        changes += [RemoveFile.of(file, now()), AddFile(file.without(vector))]
    snapshot = commit(store, snapshot, changes, SAID)
    grown = next(file for file in snapshot.files.values() if file.path == third.path)
    changes = [RemoveFile.of(grown, now()), AddFile(grown.without(inline_vector(np.array([3, 4]))))]
    snapshot = commit(store, snapshot, changes, SAID)
    left = {*range(1000)} - {0, 5, 249} - {*range(350, 490)} - {503, 504} - {*range(750, 1000)}
    expected = sorted((row for row in rows.to_pylist() if row["id"] in left), key=repr)
    assert our_rows(store, snapshot) == expected == delta_rows(tmp_path)
    assert DeltaTable(tmp_path).transaction_version("tailrace") == 8

    def check() -> None:
        read = DeltaSnapshot.read(store)
        assert (read.version, read.state) == (snapshot.version, snapshot.state)
        assert snapshot.refreshed(store) is snapshot
        assert our_rows(store, read) == expected == delta_rows(tmp_path)

    check()
    DeltaTable(tmp_path).create_checkpoint()
    check()
    assert make_checkpoint(store, snapshot) == checkpoint_name(snapshot.version)
    check()
    for version in range(snapshot.version + 1):
        (tmp_path / commit_name(version)).unlink()
    assert our_rows(store, DeltaSnapshot.read(store)) == expected == delta_rows(tmp_path)


def test_tables_that_ask_for_little(tmp_path: Path) -> None:
    store, snapshot, rows = begin_table(tmp_path, vectors=False, local_times=False)
    assert (snapshot.protocol.reader, snapshot.protocol.writer) == (1, 2)
    assert our_rows(store, snapshot) == delta_rows(tmp_path) == sorted(rows.to_pylist(), key=repr)
    file = next(iter(snapshot.files.values()))
    with pytest.raises(UsageError, match="its protocol no deletionVectors"):
        commit(store, snapshot, [RemoveFile.of(file, now()), AddFile(file.without(inline_vector(np.array([1]))))], SAID)


def test_checkpoints_in_parts_and_with_sidecars(tmp_path: Path) -> None:
    store, snapshot, _ = begin_table(tmp_path, files=6)
    wanted = our_rows(store, snapshot)
    whole = pq.read_table(pa.BufferReader(write_checkpoint(snapshot.state, [])[0]))
    halves = []
    for half in (whole[:5], whole[5:]):
        sink = pa.BufferOutputStream()
        pq.write_table(half, sink)
        halves.append(sink.getvalue().to_pybytes())
    without = DeltaSnapshot.read(store)
    for version in range(snapshot.version + 1):
        (tmp_path / commit_name(version)).unlink()
    part = "_delta_log/{:020}.checkpoint.000000000{}.0000000002.parquet"
    store.put(part.format(1, 1), halves[0])
    with pytest.raises(UsageError, match="no version 1"):
        DeltaSnapshot.read(store, 1)
    assert not DeltaSnapshot.read(store).is_there
    store.put(part.format(1, 2), halves[1])
    assert our_rows(store, DeltaSnapshot.read(store)) == wanted
    for number in (1, 2):
        (tmp_path / part.format(1, number)).unlink()
    lines = write_actions([snapshot.protocol, snapshot.metadata, *snapshot.state.transactions.values()])
    store.put(f"{SIDECARS}a b.parquet", halves[0])
    store.put(f"{SIDECARS}c.parquet", halves[1])
    for path in ("a%20b.parquet", "elsewhere/_delta_log/_sidecars/c.parquet"):
        lines += json.dumps({"sidecar": {"path": path, "sizeInBytes": 1, "modificationTime": 1}}).encode() + b"\n"
    store.put(f"_delta_log/{1:020}.checkpoint.{uuid.uuid4()}.json", b'{"checkpointMetadata":{"version":1}}\n' + lines)
    read = DeltaSnapshot.read(store)
    assert read.state == without.state
    assert our_rows(store, read) == wanted
    store.put(f"_delta_log/{2:020}.checkpoint.{uuid.uuid4()}.json", b'{"sidecar":{"path":"x/..","sizeInBytes":1}}')
    with pytest.raises(CorruptFile, match="is no sidecar"):
        DeltaSnapshot.read(store)
    (tmp_path / SIDECARS / "c.parquet").unlink()
    with pytest.raises(CorruptFile, match=r"_sidecars/c\.parquet"):
        DeltaSnapshot.read(store, 1)


@pytest.mark.parametrize("hint", [b"", b"{", b'{"version":1}', b'{"version":0}', b'{"version":99}', b'{"version":-1}', b"\xff"])
def test_a_last_checkpoint_that_is_wrong_is_no_harm(tmp_path: Path, hint: bytes) -> None:
    store, snapshot, _ = begin_table(tmp_path)
    for _ in range(3):
        snapshot = commit(store, snapshot, [], SAID)
    DeltaTable(tmp_path).create_checkpoint()
    snapshot = commit(store, snapshot, [], SAID)
    store.put(LAST_CHECKPOINT, hint)
    for version in (None, 0, 2, 4):
        read = DeltaSnapshot.read(store, version)
        assert read.version == (snapshot.version if version is None else version)
        assert read.files == (snapshot.files if version != 0 else {})


def test_versions_that_are_not_there(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    assert not DeltaSnapshot.read(store).is_there
    with pytest.raises(UsageError, match="no version 0"):
        DeltaSnapshot.read(store, 0)
    store, snapshot, _ = begin_table(tmp_path)
    for version in (-1, 2):
        with pytest.raises(UsageError, match=f"no version {version}"):
            DeltaSnapshot.read(store, version)
    for _ in range(3):
        snapshot = commit(store, snapshot, [], SAID)
    (tmp_path / commit_name(2)).rename(tmp_path / "aside")
    with pytest.raises(CorruptFile) as caught:
        DeltaSnapshot.read(store)
    assert caught.value.file == commit_name(2)
    assert DeltaSnapshot.read(store, 1).version == 1
    (tmp_path / "aside").rename(tmp_path / commit_name(2))
    DeltaTable(tmp_path).create_checkpoint()
    for version in range(3):
        (tmp_path / commit_name(version)).unlink()
    assert DeltaSnapshot.read(store).state == snapshot.state
    with pytest.raises(MissingHistory):
        DeltaSnapshot.read(store, 2)


def test_the_first_line_of_a_log_without_its_beginning(tmp_path: Path) -> None:
    store, _, _ = begin_table(tmp_path)
    (tmp_path / commit_name(0)).unlink()
    with pytest.raises(MissingHistory, match="not there any more"):
        DeltaSnapshot.read(store)
    (tmp_path / commit_name(1)).rename(tmp_path / commit_name(0))
    with pytest.raises(CorruptFile, match=commit_name(0)):
        DeltaSnapshot.read(store)


def test_damage_in_a_log_is_one_error_that_names_the_file(tmp_path: Path) -> None:
    store, snapshot, _ = begin_table(tmp_path)
    made, _ = write_checkpoint(snapshot.state, [])
    for name, data in ((commit_name(1), store.read(commit_name(1))), (checkpoint_name(1), made)):
        for end in (0, 5, len(data) // 2, len(data) - 3):
            store.put(name, data[:end])
            if name == commit_name(1) and end == 0:
                assert DeltaSnapshot.read(store).files == {}  # an empty commit
                continue
            with pytest.raises(CorruptFile, match=name):
                DeltaSnapshot.read(store)
        store.put(name, data)


def test_a_file_that_is_in_the_table_twice(tmp_path: Path) -> None:
    store, snapshot, _ = begin_table(tmp_path)
    file = next(iter(snapshot.files.values()))
    again = [AddFile(file.without(inline_vector(np.array([1]))))]
    with pytest.raises(UsageError, match="is added to Delta table"):
        commit(store, snapshot, again, SAID)
    store.put(commit_name(2), write_actions(again))
    with pytest.raises(CorruptFile, match=commit_name(2)):
        DeltaSnapshot.read(store)


def test_features_that_nobody_knows(tmp_path: Path) -> None:
    store, snapshot, _ = begin_table(tmp_path)
    names = ["deletionVectors", "timestampNtz", "teleportation"]
    line = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": names, "writerFeatures": names}}
    store.put(commit_name(2), json.dumps(line).encode())
    for read in (lambda: DeltaSnapshot.read(store), lambda: snapshot.refreshed(store)):
        with pytest.raises(UnsupportedFile) as caught:
            read()
        assert caught.value.detail == 'It needs feature "teleportation", which is not supported.'
    line["protocol"]["readerFeatures"] = names[:2]
    store.put(commit_name(2), json.dumps(line).encode())
    with pytest.raises(UnsupportedFile, match="cannot write to Delta table"):
        commit(store, DeltaSnapshot.read(store), [], SAID)


def test_what_is_committed_by_others_is_read_on(tmp_path: Path) -> None:
    store, snapshot, _ = begin_table(tmp_path)
    stale = snapshot
    for _ in range(2):
        snapshot = commit(store, snapshot, [AddFile(data_file(store, snapshot.schema, 5))], SAID)
    followed = stale.refreshed(store)
    assert followed == snapshot
    with pytest.raises(Overtaken, match="has a version 2 that this run did not write, which goes on from version 1") as caught:
        commit(store, stale, [], SAID)
    assert caught.value.detail is not None
    assert caught.value.detail.startswith("Another run (WRITE) committed it, at ")
    shutil.rmtree(tmp_path)
    tmp_path.mkdir()
    store, other, _ = begin_table(tmp_path)
    assert stale.refreshed(store).metadata.id == other.metadata.id  # a table that was made anew at the same version
    shutil.rmtree(tmp_path)
    assert not other.refreshed(store).is_there


def test_a_cleaned_log_is_followed(tmp_path: Path) -> None:
    store, snapshot, _ = begin_table(tmp_path)
    stale = snapshot
    for _ in range(4):
        snapshot = commit(store, snapshot, [AddFile(data_file(store, snapshot.schema, 5))], SAID)
    DeltaTable(tmp_path).create_checkpoint()
    for version in range(4):
        (tmp_path / commit_name(version)).unlink()
    assert stale.refreshed(store).state == snapshot.state
    for version in range(4, snapshot.version + 1):
        (tmp_path / commit_name(version)).unlink()
    read = DeltaSnapshot.read(store)
    assert (read.state, read.tag) == (snapshot.state, "")
    assert read.refreshed(store) is read
    after = commit(store, read, [], SAID)
    assert read.refreshed(store) == after
    (tmp_path / commit_name(after.version)).unlink()
    (tmp_path / checkpoint_name(read.version)).unlink()
    assert not after.refreshed(store).is_there
    assert not read.refreshed(store).is_there


def test_a_commit_whose_answer_was_lost_is_made_once(tmp_path: Path) -> None:
    store, snapshot, _ = begin_table(tmp_path)

    class Unlucky(FolderStore):
        def put_new(self, name: str, data: bytes) -> str:
            super().put_new(name, data)
            raise TimeoutError("no answer")

    file = AddFile(data_file(store, snapshot.schema, 5))
    made = commit(Unlucky(tmp_path), snapshot, [file], SAID, mark="mine")
    assert made == DeltaSnapshot.read(store)
    assert commit(store, snapshot, [file], SAID, mark="mine") == made
    with pytest.raises(Overtaken):
        commit(store, snapshot, [file], SAID, mark="other")
    info = commit_info(store, 2)
    assert info is not None
    assert (info.said[MARK], info.said["operation"]) == ("mine", "WRITE")

    class Broken(FolderStore):
        def put_new(self, name: str, data: bytes) -> str:
            raise TimeoutError("no answer")

    with pytest.raises(TimeoutError):
        commit(Broken(tmp_path), made, [file], SAID)


def test_of_those_who_commit_at_once_one_wins_each_version(tmp_path: Path) -> None:
    store, _, _ = begin_table(tmp_path)
    start, results = PROCESSES.Barrier(3), PROCESSES.Queue()
    writers = [PROCESSES.Process(target=commit_until, args=(tmp_path, 31, start, results, f"w{number}")) for number in range(3)]
    for writer in writers:
        writer.start()
    won = sorted(version for _ in writers for version in results.get(timeout=60))
    for writer in writers:
        writer.join(timeout=60)
    newest = DeltaSnapshot.read(store).version
    assert won == [*range(2, newest + 1)]
    assert newest >= 31


def test_what_breaks_the_protocol_is_not_committed(tmp_path: Path) -> None:
    store, snapshot, _ = begin_table(tmp_path, vectors=False, local_times=False)
    file = next(iter(snapshot.files.values()))
    new = data_file(store, snapshot.schema, 5)
    local = new_metadata(pa.schema({"at": pa.timestamp("us")}), "t", {})
    for actions, message in (
        ([RemoveFile("none", 1)], "is to be removed from Delta table"),
        ([AddFile(new), AddFile(new)], "is added to Delta table"),
        ([RemoveFile.of(file, 1), RemoveFile.of(file.without(inline_vector(np.array([1]))), 1)], "is to be removed"),
        ([local], "timestamps without time zone"),
    ):
        with pytest.raises(UsageError, match=message):
            commit(store, snapshot, actions, SAID)
    assert DeltaSnapshot.read(store) == snapshot
    assert first_actions(local, pa.schema({"at": pa.timestamp("us")}))[0] != snapshot.protocol
    assert sorted(path.name for path in (tmp_path / FOLDER).iterdir()) == [f"{version:020}.json" for version in range(2)]


def test_checkpoints_of_ours_keep_what_vacuum_must_know(tmp_path: Path) -> None:
    """What was removed stands in each checkpoint until its retention is over; what was added again does not, nor what the table has with another
    deletion vector."""
    store, snapshot, _ = begin_table(tmp_path, files=4)
    first, second, third, _ = snapshot.files.values()
    week = 7 * 86_400_000
    snapshot = commit(store, snapshot, [RemoveFile.of(first, now()), RemoveFile.of(second, now() - 2 * week)], SAID)
    make_checkpoint(store, snapshot)
    vector = inline_vector(np.array([1]))
    changes = [AddFile(third.without(vector)), RemoveFile.of(third, now())]
    snapshot = commit(store, snapshot, changes, SAID)

    def tombstones() -> set[tuple[str, str]]:
        name = make_checkpoint(store, snapshot)
        return {each.key for each in read_tombstones(store.read(name), name)}

    assert tombstones() == {first.key}
    assert {path.removeprefix(f"{tmp_path}/") for path in DeltaTable(tmp_path).vacuum(dry_run=True)} == set()
    snapshot = commit(store, snapshot, [AddFile(first)], SAID)
    assert tombstones() == set()
    unplain = with_metadata(
        snapshot.state, configuration={**snapshot.metadata.configuration, "delta.deletedFileRetentionDuration": "long"}
    )
    snapshot = commit(store, snapshot, [unplain, RemoveFile.of(first, 5)], SAID)
    assert tombstones() == {first.key}
    assert our_rows(store, DeltaSnapshot.read(store)) == our_rows(store, snapshot) == delta_rows(tmp_path)
    for version in range(snapshot.version):
        (tmp_path / commit_name(version)).unlink()
    for checkpoint in (tmp_path / FOLDER).glob("*.checkpoint.parquet"):
        checkpoint.unlink()
    with pytest.raises(MissingHistory, match="commits of Delta table"):
        make_checkpoint(store, snapshot)
