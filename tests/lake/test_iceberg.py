"""Tables of Iceberg: what pyiceberg reads of them is what the source has; a version is made by one; and what nobody asks for any more goes."""

from __future__ import annotations

import json
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lake.test_mirror import TYPES
from support.iceberg_tables import iceberg_rows, iceberg_table
from support.s3_servers import SeaweedFS
from support.servers import Server
from tailrace.errors import CorruptFile, Overtaken, TailraceError, UnsupportedFile
from tailrace.lake.files.file_changes import FileChanges
from tailrace.lake.files.table_edit import TableEdit
from tailrace.lake.iceberg import commit as committing
from tailrace.lake.iceberg.columns import arrow_schema, iceberg_schema
from tailrace.lake.iceberg.snapshot import metadata_name, newest_version
from tailrace.lake.iceberg.table import IcebergVersion
from tailrace.lake.lake import Lake
from tailrace.lake.maintenance import maintain
from tailrace.lake.reading import read_table, rows_of
from tailrace.lake.table import CommitNote, FileLayout
from tailrace.pipeline import open_pipeline
from tailrace.storage.local_store import LocalStore
from tailrace.storage.open_store import open_store

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string()), ("at", pa.timestamp("us", "UTC")), ("n", pa.decimal128(10, 2))])
LAYOUT = FileLayout(("id",))


def _rows(first: int, count: int, text: str = "x") -> pa.Table:
    ids = list(range(first, first + count))
    times = pa.array([each * 1_000_001 for each in ids], pa.int64()).cast(SCHEMA.field("at").type)
    numbers = pa.array([Decimal(each) / 4 for each in ids], SCHEMA.field("n").type)
    return pa.table([pa.array(ids, pa.int64()), pa.array([f"{text}{each}" for each in ids]), times, numbers], schema=SCHEMA)


def _edited(
    found: IcebergVersion, rows: pa.Table, gone: list[int] | None = None, note: CommitNote | None = None
) -> IcebergVersion:
    """The table with these rows, and without those that have these ids."""
    data = found.data_files(SCHEMA, uuid.uuid4().hex)
    edit = TableEdit(data, found.open().files if found.is_there else [], ("id",), keeps_vectors=False)
    if gone:
        edit.delete(pa.table({"id": pa.array(gone, pa.int64())}))
    edit.insert(rows)
    if not found.is_there:
        return found.make("t", "public.t", SCHEMA, note or CommitNote(), edit.changes()[0])
    return found.commit("t", edit.changes()[0], note or CommitNote())


def _made(folder: Path, *, kept_for: float | None = None) -> IcebergVersion:
    return _edited(IcebergVersion(LocalStore(folder)), _rows(0, 100), note=CommitNote(kept_for=kept_for))


def _ids(rows: pa.Table) -> list[int]:
    return sorted(rows["id"].to_pylist())


def test_what_pyiceberg_reads(tmp_path: Path) -> None:
    """Rows come and go, files are written anew, and manifests with them; at each version it is what we read, also at those of before."""
    found, counts = _made(tmp_path), [100]
    for step in range(1, 40):
        gone = [step * 3, step * 100 - 1] if step % 3 else []
        found = _edited(found, _rows(step * 100, 10, f"step {step} "), gone)
        rows = iceberg_rows(found.store)
        assert rows.sort_by("id").cast(SCHEMA) == pa.Table.from_batches(rows_of(found), SCHEMA).sort_by("id").cast(SCHEMA)
        counts.append(len(rows))
    table = iceberg_table(found.store)
    snapshots = sorted(table.metadata.snapshots, key=lambda each: each.sequence_number or 0)
    assert [len(table.scan(snapshot_id=each.snapshot_id).to_arrow()) for each in snapshots] == counts
    assert table.metadata.current_snapshot().summary["total-records"] == str(counts[-1])  # type: ignore[union-attr]
    assert len(found.snapshot.manifests) <= 25
    anew = IcebergVersion(found.store).refreshed()
    assert sorted(each.path for each in anew.open().files) == sorted(each.path for each in found.open().files)
    assert {each.path: each.statistics for each in anew.open().files} == {
        each.path: each.statistics for each in found.open().files
    }


def test_the_guide_reads_a_bucket(seaweedfs: SeaweedFS) -> None:
    """Its example, with the names of what a server of one's own wants."""
    url, options = seaweedfs.url, seaweedfs.options
    _edited(IcebergVersion(open_store(f"{url}/app/public.orders", options)), _rows(0, 7))
    guide = (Path(__file__).parents[2] / "docs/guides/iceberg.md").read_text()
    (code,) = re.findall(r"^```\n(from pyiceberg\.io .*?)^```$", guide, re.MULTILINE | re.DOTALL)
    wanted = re.findall(r'"(s3\.[a-z-]+)"', code)
    values = ["us-east-1", options["aws_endpoint_url"], options["aws_access_key_id"], options["aws_secret_access_key"]]
    here = code.replace("s3://lake/app", f"{url}/app")
    here = re.sub(r"^store = .*$", f"store = {dict(zip(wanted, values, strict=True))!r}", here, flags=re.MULTILINE)
    names: dict[str, Any] = {}
    exec(compile(here, "iceberg.md", "exec"), names)
    assert len(names["orders"].scan().to_arrow()) == 7


def test_filters_find_their_rows(tmp_path: Path) -> None:
    """By the bounds that manifests have: long texts, times and numbers among them."""
    found = _made(tmp_path)
    found = _edited(found, _rows(500, 50, "y" * 100))
    table = iceberg_table(found.store)
    for row_filter, expected in (
        ("id = 520", [520]), ("n = 130.25", [521]), (f"text = '{'y' * 100}530'", [530]), ("at = '1970-01-01T00:08:20.000500+00:00'", [500]),
        ("id < 2", [0, 1]),
    ):  # fmt: skip
        scan = table.scan(row_filter=row_filter)
        assert _ids(scan.to_arrow()) == expected, row_filter
        assert len(list(scan.plan_files())) == 1


@pytest.mark.postgres
def test_values_of_every_type(tmp_path: Path) -> None:
    """As the other format has them; a smallint is an integer here."""
    with Server(18, test_decoding=False) as server:
        server.say(*(each for each in TYPES.split(";\n") if each.strip()))
        server.say(
            "CREATE TABLE far (id int PRIMARY KEY, d date, at timestamptz, s smallint)",
            "INSERT INTO far VALUES (1, '20000-01-01', '-infinity', -5), (2, '4000-01-01 BC', '200000-01-01', 7)",
            "INSERT INTO far VALUES (3, 'infinity', NULL, NULL)",
        )
        for format in ("delta", "iceberg"):
            Lake.open(LocalStore(tmp_path / format), format=format).apply(open_pipeline(server.data_dir, "postgres"))
        for name in ("public.kinds", "public.far"):
            expected = read_table(tmp_path / "delta" / name)
            read = iceberg_rows(LocalStore(tmp_path / "iceberg" / name))
            assert _without_nan(read.cast(expected.schema)) == _without_nan(expected)
        server.say("UPDATE far SET s = 8 WHERE id = 2", "DELETE FROM far WHERE s = -5")
        lake = Lake.open(LocalStore(tmp_path / "iceberg"))
        assert lake.format.name == "iceberg"
        assert lake.catalog is not None
        lake.apply(open_pipeline(server.data_dir, "postgres", start_lsn=lake.catalog.complete))
        assert iceberg_rows(LocalStore(tmp_path / "iceberg/public.far")).select(["id", "s"]).sort_by("id").to_pylist() == [
            {"id": 2, "s": 8}, {"id": 3, "s": None},
        ]  # fmt: skip
        with pytest.raises(TailraceError, match="has tables of format iceberg, not delta"):
            Lake.open(LocalStore(tmp_path / "iceberg"), format="delta")


def _without_nan(rows: pa.Table) -> list[dict[str, object]]:
    rows = rows.cast(pa.schema([pa.field(each.name, _plain(each.type)) for each in rows.schema]))
    return sorted(({name: str(value) for name, value in row.items()} for row in rows.to_pylist()), key=str)


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.int64()
    return pa.int32() if pa.types.is_date32(kind) else kind


# -- columns ----------------------------------------------------------------------------------------------------------------------------


def test_columns_keep_their_ids() -> None:
    nested = pa.list_(pa.struct([("x", pa.int32()), ("y", pa.map_(pa.string(), pa.int64()))]))
    first, last = iceberg_schema(pa.schema([("a", pa.int32()), ("b", nested), ("c", pa.float32())]))
    assert [field.field_id for field in first.fields] == [1, 2, 3]
    assert last == len(first.column_names) == 8
    assert iceberg_schema(arrow_schema(first), first, last) == (first, last)
    wide = pa.schema([("c", pa.float64()), ("new", pa.date32()), ("a", pa.int64()), ("b", nested)])
    second, later = iceberg_schema(wide, first, last)
    assert {field.name: field.field_id for field in second.fields} == {"c": 3, "new": 9, "a": 1, "b": 2}
    assert (later, second.schema_id) == (9, 1)
    third, _ = iceberg_schema(pa.schema([("a", pa.string())]), second, later)
    assert third.find_field("a").field_id == 10  # what Iceberg does not widen is another column


def test_a_column_that_comes_is_null_in_older_rows(tmp_path: Path) -> None:
    found = _made(tmp_path)
    more = SCHEMA.append(pa.field("more", pa.list_(pa.int32())))
    rows = _rows(100, 1).append_column(more.field("more"), pa.array([[1, 2]], more.field("more").type))
    data = found.data_files(more, "0" * 32)
    found = found.open().commit("t", FileChanges(added=(data.write(rows),)), CommitNote(), more)
    read = iceberg_rows(found.store).sort_by("id")
    assert read["more"].to_pylist() == [None] * 100 + [[1, 2]]
    assert read.cast(more) == pa.Table.from_batches(rows_of(found), more).sort_by("id")


# -- commits ----------------------------------------------------------------------------------------------------------------------------


def test_of_two_one_makes_the_version(tmp_path: Path) -> None:
    found = _made(tmp_path)
    one = _edited(found, _rows(1000, 1))
    with pytest.raises(Overtaken, match="has a version 2 that this run did not write, which goes on from version 1") as caught:
        _edited(found, _rows(2000, 1))
    assert "Another run committed it" in str(caught.value)
    assert one.version == newest_version(found.store) == 2
    assert _ids(iceberg_rows(found.store)) == [*range(100), 1000]
    with pytest.raises(Overtaken, match="goes on from nothing"):
        _edited(IcebergVersion(found.store), _rows(2000, 1))


def test_who_was_very_slow(tmp_path: Path) -> None:
    """The version that he makes was there, and has been removed since."""
    slow = _made(tmp_path)
    found = slow
    for step in range(5):
        found = _edited(found, _rows(1000 + step, 1))
    before = sorted(each.name for each in found.store.list() if each.name != metadata_name(2))
    found.store.delete([metadata_name(2)])
    with pytest.raises(Overtaken):
        _edited(slow, _rows(2000, 1))
    left = {each.name for each in found.store.list() if each.name.startswith("metadata/")}
    assert left <= set(before)
    assert _ids(iceberg_rows(found.store)) == [*range(100), *range(1000, 1005)]


def test_a_commit_that_was_made_though_the_store_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, put_new = _made(tmp_path), LocalStore.put_new

    def failing(store: LocalStore, name: str, data: bytes) -> str:
        put_new(store, name, data)
        raise OSError("the answer did not come")

    monkeypatch.setattr(LocalStore, "put_new", failing)
    after = _edited(found, _rows(1000, 1))
    assert _ids(iceberg_rows(found.store)) == [*range(100), 1000]
    monkeypatch.setattr(LocalStore, "put_new", lambda *_: (_ for _ in ()).throw(OSError("no")))
    files = {each.name for each in after.store.list("metadata/")}
    with pytest.raises(OSError, match="no"):
        _edited(after, _rows(2000, 1))
    assert {each.name for each in after.store.list("metadata/")} == files


def test_somebody_else_commits(tmp_path: Path) -> None:
    """Another program, which keeps our properties: it is named where it overtakes, and gone on from."""
    found = _made(tmp_path)
    name = metadata_name(2)
    said = json.loads((tmp_path / metadata_name(1)).read_bytes())
    del said["properties"][committing.MARK]
    (tmp_path / name).write_text(json.dumps(said))
    with pytest.raises(Overtaken, match="Another program committed it"):
        _edited(found, _rows(1000, 1))
    assert _edited(found.refreshed(), _rows(1000, 1)).version == 3


# -- maintenance ------------------------------------------------------------------------------------------------------------------------


def test_what_nobody_asks_for_goes(tmp_path: Path) -> None:
    """Snapshots that are over, and what only they had; what is young, or in a snapshot that is kept, stays."""
    found = _made(tmp_path, kept_for=5)
    for step in range(12):
        found = _edited(found, _rows(1000 + step, 1), [step])
    orphan, foreign = tmp_path / "data" / f"part-{'a' * 32}-{'b' * 32}.parquet", tmp_path / "data/theirs.parquet"
    orphan.write_bytes(b"x")
    foreign.write_bytes(b"x")
    expected = _ids(iceberg_rows(found.store))
    done = maintain(found, "t", LAYOUT)
    assert done.gathered.files >= 10
    assert len(done.version.snapshot.metadata.snapshots) >= 13
    assert done.removed.objects == 0
    time.sleep(5.1)
    after, removed = done.version.remove_unneeded()
    assert len(after.snapshot.metadata.snapshots) == 1
    assert removed.objects > 30
    assert _ids(iceberg_rows(found.store)) == expected == _ids(pa.Table.from_batches(rows_of(after)))
    data = {path.name for path in (tmp_path / "data").iterdir()}
    assert data == {Path(each.path).name for each in after.open().files} | {orphan.name, foreign.name}
    assert len(list((tmp_path / "metadata").glob("*.avro"))) == 2
    after, removed = after.remove_unneeded(orphans_older_than=-1)
    assert not orphan.exists()
    assert foreign.exists()
    assert _ids(iceberg_rows(after.store)) == expected
    assert maintain(after, "t", LAYOUT).gathered.files == 0


def test_versions_far_behind_go(tmp_path: Path) -> None:
    note = CommitNote(settings={"write.metadata.previous-versions-max": "3"})
    found = _edited(IcebergVersion(LocalStore(tmp_path)), _rows(0, 1), note=note)
    for step in range(10):
        found = _edited(found, _rows(1000 + step, 1))
    found, _ = found.remove_unneeded()
    assert {path.name for path in (tmp_path / "metadata").glob("v*.json")} == {
        f"v{version}.metadata.json" for version in range(8, 12)
    }
    assert {Path(each.metadata_file).name for each in found.snapshot.metadata.metadata_log} <= {
        path.name for path in (tmp_path / "metadata").iterdir()
    }


def test_files_that_are_removed_under_a_reader(tmp_path: Path) -> None:
    """Who goes on from a version whose files are gone is told that there is a newer one."""
    found = _made(tmp_path, kept_for=0)
    newer = _edited(found, _rows(1000, 1), list(range(50)))
    time.sleep(0.01)
    newer.remove_unneeded()
    with pytest.raises(Overtaken, match="has a version"), found.going_on("t"):
        list(rows_of(found))
    shutil.rmtree(tmp_path / "data")
    now = IcebergVersion(found.store).refreshed()
    with pytest.raises(CorruptFile), now.going_on("t"):
        list(rows_of(now))


# -- what is not as it should be --------------------------------------------------------------------------------------------------------


def _said(folder: Path, change: Callable[[dict[str, object]], None]) -> None:
    path = folder / metadata_name(1)
    said = json.loads(path.read_bytes())
    change(said)
    path.write_text(json.dumps(said))


def _partitioned(said: dict[str, object]) -> None:
    spec = {"spec-id": 0, "fields": [{"source-id": 1, "field-id": 1000, "name": "id", "transform": "identity"}]}
    said["partition-specs"] = [spec]


def _third(said: dict[str, object]) -> None:
    said |= {"format-version": 3, "next-row-id": 0}


@pytest.mark.parametrize(("change", "detail"), [(_partitioned, "partitioned"), (_third, "version 3 of the format")])
def test_what_is_not_gone_on_from(tmp_path: Path, change: Callable[[dict[str, object]], None], detail: str) -> None:
    found = _made(tmp_path)
    _said(tmp_path, change)
    with pytest.raises(UnsupportedFile, match=detail):
        IcebergVersion(found.store).refreshed()


def test_a_table_that_was_moved(tmp_path: Path) -> None:
    _made(tmp_path / "here")
    (tmp_path / "here").rename(tmp_path / "there")
    with pytest.raises(TailraceError, match="does not lie in its folder"):
        IcebergVersion(LocalStore(tmp_path / "there")).refreshed()


def _files(folder: Path) -> Iterator[Path]:
    yield from folder.glob("metadata/*.avro")
    yield folder / metadata_name(1)


@pytest.mark.parametrize("damage", ["cut", "byte", "gone", "empty"])
def test_damage_is_one_error(tmp_path: Path, damage: str) -> None:
    """Each of its files: nothing else than an error of ours comes, or what was there is read."""
    made = _made(tmp_path / "whole")
    expected = _ids(pa.Table.from_batches(rows_of(made)))
    errors = []
    for path in sorted(_files(tmp_path / "whole")):
        data = path.read_bytes()
        for at in range(0, len(data), max(1, len(data) // 60)):
            changed = {
                "cut": data[:at], "byte": data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :], "gone": None, "empty": b"",
            }[damage]  # fmt: skip
            if changed is None:
                path.unlink()
            else:
                path.write_bytes(changed)
            try:
                found = IcebergVersion(made.store).refreshed()
                rows = pa.Table.from_batches(rows_of(found), found.open().schema) if found.is_there else None
                assert rows is None or damage == "byte" or _ids(rows) == expected
            except TailraceError as error:
                errors.append(error.message)
            path.write_bytes(data)
            if damage in ("gone", "empty"):
                break
    assert errors
    assert all(errors)


def test_a_list_that_is_cut_between_two_blocks(tmp_path: Path) -> None:
    """It reads as one that names nothing."""
    found = _made(tmp_path)
    for path in sorted(tmp_path.glob("metadata/*.avro")):
        data = path.read_bytes()
        mark = data[-16:]  # which ends the header, and each block
        path.write_bytes(data[: data.index(mark) + 16])
        with pytest.raises(CorruptFile, match="cannot be read") as caught:
            IcebergVersion(found.store).refreshed()
        assert caught.value.detail == "It names 0 of 1 files."
        path.write_bytes(data)
    assert IcebergVersion(found.store).refreshed().is_there
