"""What every store does: a directory, and buckets on real servers of S3's protocol."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import random
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support import store_writers
from tailrace.errors import UsageError
from tailrace.storage.open_store import delta_rs_options, delta_rs_url, open_store
from tailrace.storage.store import ObjectChanged, Store

STORES = ["local", "seaweedfs", pytest.param("versitygw", marks=pytest.mark.matrix)]
WRITERS = 3
ODD_NAMES = [
    "a b", "a%20b", "%2F", "a+b=c&d", "a?b#c", "a*b", "x:y", "'", '"', "~", "^", "`", "{x}", "[z]", "<>|", " lead", "trail ", "ünï/日本", "🙂",
    "Ａ", "e\u0301", "é", "_delta_log/00000000000000000000.json", ".hidden", "a" * 200, "k=1/v=%2C/p",
]  # fmt: skip
NO_NAMES = [
    "",
    "/a",
    "a/",
    "a//b",
    "a/./b",
    "../a",
    "a/..",
    "..",
    "a\0b",
    "a\nb",
    "a\\b",
    ".x.new",
    "a/.x.new",
    "\ud800",
    "a" * 1025,
]


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """An empty one."""
    if request.param == "local":
        return open_store(tmp_path / "store")
    server = request.getfixturevalue(request.param)
    return open_store(server.url, server.options)


@pytest.fixture(scope="module")
def writers() -> Iterator[ProcessPoolExecutor]:
    """Processes that begin together: of as many tasks, each takes one."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(WRITERS, spawn, store_writers.begin, (spawn.Barrier(WRITERS),)) as pool:
        yield pool


def names(store: Store, prefix: str = "", after: str = "") -> list[str]:
    return [each.name for each in store.list(prefix, after)]


def rounds_of(store: Store) -> int:
    """In SeaweedFS, of three who come at once one waits for a second."""
    return 4 if "[seaweedfs]" in os.environ["PYTEST_CURRENT_TEST"] else 25


def in_order(some: list[str]) -> list[str]:
    return sorted(some, key=str.encode)


def test_what_was_put_is_read(store: Store) -> None:
    tag = store.put("a/b", b"first")
    assert store.read("a/b") == b"first"
    assert store.read_tagged("a/b") == (b"first", tag)
    after = store.put("a/b", b"second, and longer")
    assert after != tag
    assert store.read_tagged("a/b") == (b"second, and longer", after)
    (found,) = store.list()
    assert (found.name, found.size, found.tag) == ("a/b", 18, after)
    assert abs(found.modified - time.time()) < 60
    store.put("empty", b"")
    assert store.read("empty") == b""
    assert store.open("empty").size() == 0
    assert store.open("empty").read() == store.read_range("empty", 0, 5) == b""


def test_what_is_not_there_is_not_found(store: Store) -> None:
    store.put("folder/a", b"x")
    reads = [
        store.read,
        store.read_tagged,
        store.open,
        lambda name: store.read_range(name, 0, 1),
        lambda name: store.read_range(name, 0, 0),
    ]
    for read in reads:
        for name in ("none", "folder", "folder/a/b", "none/none"):
            with pytest.raises(FileNotFoundError) as caught:
                read(name)
            assert name in str(caught.value.filename)
    assert names(store, "none") == names(store, "none/none/") == names(store, "..") == names(store, "folder/a/") == []
    assert list(store.folders("none")) == []


def test_ranges(store: Store) -> None:
    data = random.Random(1).randbytes(10_000)
    store.put("a", data)
    for start, length in [
        (0, 1),
        (0, 10_000),
        (0, 20_000),
        (9_999, 1),
        (9_999, 5),
        (10_000, 5),
        (20_000, 5),
        (5, 0),
        (123, 4_567),
    ]:
        assert store.read_range("a", start, length) == data[start : start + length]


def test_one_new_object_wins(store: Store) -> None:
    tag = store.put_new("a/b", b"first")
    with pytest.raises(FileExistsError):
        store.put_new("a/b", b"second")
    assert store.read_tagged("a/b") == (b"first", tag)
    store.delete(["a/b"])
    assert store.put_new("a/b", b"second")
    assert store.read("a/b") == b"second"


def test_an_object_is_replaced_as_it_was_read(store: Store) -> None:
    first = store.put_new("mark", b"1")
    second = store.put_over("mark", b"2", first)
    for stale in (first, "nonsense", '"00000000000000000000000000000000"'):
        with pytest.raises(ObjectChanged):
            store.put_over("mark", b"3", stale)
    assert store.read_tagged("mark") == (b"2", second)
    store.delete(["mark"])
    with pytest.raises(ObjectChanged):
        store.put_over("mark", b"3", second)
    with pytest.raises(ObjectChanged):
        store.put_over("none/none", b"3", second)
    assert names(store) == []


def test_of_many_who_put_a_new_object_one_wins(store: Store, writers: ProcessPoolExecutor) -> None:
    rounds = rounds_of(store)
    won = [each.result(60) for each in [writers.submit(store_writers.put_new, store, rounds) for _ in range(WRITERS)]]
    assert [sum(each) for each in zip(*won, strict=True)] == [1] * rounds
    assert len(names(store)) == rounds


def test_of_many_who_replace_an_object_one_wins(store: Store, writers: ProcessPoolExecutor) -> None:
    rounds = rounds_of(store)
    store.put_new("mark", b"0")
    done = [each.result(60) for each in [writers.submit(store_writers.put_over, store, rounds) for _ in range(WRITERS)]]
    assert [sum(won for won, _ in each) for each in zip(*done, strict=True)] == [1] * rounds
    (last,) = (tag for won, tag in (each[-1] for each in done) if won)
    assert store.read_tagged("mark")[1] == last


def test_no_replacement_is_lost(store: Store, writers: ProcessPoolExecutor) -> None:
    store.put_new("count", b"0")
    for each in [writers.submit(store_writers.count_up, store, 10) for _ in range(WRITERS)]:
        each.result(60)
    assert store.read("count") == str(10 * WRITERS).encode()


def test_names_are_listed_by_their_bytes(store: Store) -> None:
    """Some servers list folder by folder: `a/b` before `a b`."""
    put = [
        "a b",
        "a-b",
        "a-c/d",
        "a.x",
        "a/b-1",
        "a/b2",
        "a/z",
        "a/z-/1",
        "a/z0/1",
        "a0",
        "b.c/d",
        "b/c-1",
        "b/d/e",
        "ü",
        "Ａ",
        "🙂",
    ]
    for name in put:
        store.put(name, b"")
    assert names(store) == in_order(put)
    for after in [*put, "a", "a/", "a/z", "a/z0", "a/b", "a/zz", "b", "zzz", "\U0010ffff", "-", "0", "a/z-/"]:
        assert names(store, "", after) == [each for each in in_order(put) if each.encode() > after.encode()], after
    for prefix in ["a", "a/", "a/b", "a/z", "a-", "b", "b/", "c", "a/z0/", "ü"]:
        found = [each for each in in_order(put) if each.startswith(prefix)]
        assert names(store, prefix) == found, prefix
        for after in ("a/b2", "a.x", "a/z0/1", "b"):
            assert names(store, prefix, after) == [each for each in found if each > after], (prefix, after)
    assert list(store.folders()) == ["a", "a-c", "b", "b.c"]
    assert list(store.folders("a/")) == list(store.folders("a")) == ["z-", "z0"]
    below = store.below("a")
    assert names(below) == ["b-1", "b2", "z", "z-/1", "z0/1"]
    assert list(below.folders()) == ["z-", "z0"]
    assert names(below, "z", "z") == ["z-/1", "z0/1"]
    assert below.url == f"{store.url}/a"


def test_more_objects_than_a_page_has(store: Store) -> None:
    put = [f"{number // 500}/{number:04d}" for number in range(1_050)]
    for name in put:
        store.put_new(name, b"")
    assert names(store) == put
    assert names(store, "1/") == put[500:1_000]
    assert names(store, "", put[1_000]) == put[1_001:]
    first = iter(store.list())
    assert [next(first).name for _ in range(3)] == put[:3]
    store.delete(put[:1_010])
    assert names(store) == put[1_010:]
    store.delete([*put, "none", "none/none"])
    store.delete([])
    assert names(store) == []
    assert set(store.folders()) <= {"0", "1", "2"}


def test_odd_names(store: Store) -> None:
    for name in ODD_NAMES:
        store.put_new(name, name.encode())
    assert names(store) == in_order(ODD_NAMES)
    for name in ODD_NAMES:
        assert store.read(name) == name.encode()
        assert names(store, name) == [each for each in in_order(ODD_NAMES) if each.startswith(name)]
    below = store.below("k=1").below("v=%2C/")
    assert below.read("p") == b"k=1/v=%2C/p"
    store.delete(ODD_NAMES)
    assert names(store) == []


@pytest.mark.parametrize("name", NO_NAMES)
def test_no_name_leads_elsewhere(store: Store, name: str) -> None:
    uses = [store.read, store.open, lambda name: store.put(name, b""), lambda name: store.delete([name])]
    uses += [] if name in ("", "a/") else [store.below]
    for use in uses:
        with pytest.raises(UsageError, match="cannot be the name of an object"):
            use(name)
    assert names(store) == []


def test_a_large_file(store: Store, tmp_path: Path) -> None:
    """In parts, where it is sent; and read by ranges of all sizes."""
    data = random.Random(2).randbytes(20 << 20)
    (tmp_path / "file").write_bytes(data)
    store.put_file("a/large", tmp_path / "file")
    assert store.read("a/large") == data
    (found,) = store.list()
    assert found.size == len(data)
    file = store.open("a/large")
    assert file.size() == len(data)
    places = random.Random(3)
    for length in (1, 1_000, 300_000, 1 << 20, 5 << 20, 9 << 20, 30 << 20):
        start = places.randrange(len(data))
        assert file.read_at(length, start) == data[start : start + length]
    file.seek(len(data) - 5)
    assert (file.read(), file.read(), file.tell()) == (data[-5:], b"", len(data))
    (tmp_path / "file").write_bytes(b"small")
    store.put_file("a/large", tmp_path / "file")
    assert store.read("a/large") == b"small"
    parts = [data[at : at + 1_234_567] for at in range(0, len(data), 1_234_567)]
    assert store.put_written("a/large", lambda file: file.writelines(parts)) == len(data)
    assert store.read("a/large") == data
    assert store.put_written("a/empty", lambda file: None) == 0
    assert store.read("a/empty") == b""


def test_what_is_not_written_to_its_end_is_not_put(store: Store) -> None:
    def fail(file: BinaryIO) -> None:
        file.write(b"second")
        raise MemoryError

    store.put("a", b"first")
    for name in ("a", "b"):
        with pytest.raises(MemoryError):
            store.put_written(name, fail)
    assert names(store) == ["a"]
    assert store.read("a") == b"first"


def test_arrow_reads_parquet(store: Store, tmp_path: Path) -> None:
    table = pa.table({"id": range(200_000), "text": [f"row {number}" for number in range(200_000)]})
    pq.write_table(table, tmp_path / "file", row_group_size=50_000)
    store.put_file("table.parquet", tmp_path / "file")
    assert pq.read_table(store.open("table.parquet")) == table
    file = pq.ParquetFile(store.open("table.parquet"))
    assert file.read_row_group(2, ["id"]).column("id").to_pylist() == list(range(100_000, 150_000))


def test_a_store_travels(store: Store) -> None:
    store.put("a/b", b"x")
    for each in (store, store.below("a")):
        again = pickle.loads(pickle.dumps(each))
        assert again == each
        assert again.url == each.url
        assert names(again) == names(each)


def test_delta_rs_opens_the_same_place(store: Store) -> None:
    deltalake = pytest.importorskip("deltalake")
    below = store.below("tables/a b%c")
    url, options = delta_rs_url(below), delta_rs_options(below)
    deltalake.write_deltalake(url, pa.table({"a": [1, 2]}), storage_options=options)
    deltalake.write_deltalake(url, pa.table({"a": [3]}), storage_options=options, mode="append")
    assert names(below, "_delta_log/") == [f"_delta_log/{version:020d}.json" for version in (0, 1)]
    assert deltalake.DeltaTable(url, storage_options=options).version() == 1
