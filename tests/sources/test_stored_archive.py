"""An archive of WAL in a bucket is a SOURCE: what comes out of it is what comes out of a directory with the same files."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from support.cases import Case, all_cases, open_case
from support.command import Run, run_in
from support.decoding import state_before
from support.s3_servers import SeaweedFS
from tailrace.catalog.state.state_file import write_state
from tailrace.storage.open_store import open_store

STORY, MAJOR = "xact", 16


def _gz(data: bytes) -> bytes:
    return gzip.compress(data, 1)


def _packed(codec: str) -> Callable[[bytes], bytes]:
    return lambda data: pa.compress(data, codec, asbytes=True)


PACKERS: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": _gz, ".zst": _packed("zstd"), ".lz4": _packed("lz4")}


@pytest.fixture
def tailrace(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    return run_in(monkeypatch, capfd)


@pytest.fixture
def bucket(seaweedfs: SeaweedFS, monkeypatch: pytest.MonkeyPatch) -> SeaweedFS:
    """The server, which the environment knows."""
    for name, value in seaweedfs.options.items():
        monkeypatch.setenv(name.upper(), str(value).lower() if value is True else str(value))
    return seaweedfs


@pytest.fixture
def case(tmp_path: Path) -> Case:
    case = open_case(STORY, MAJOR, "with_slot", tmp_path)
    (tmp_path / "state").write_bytes(write_state(state_before(case)))
    return case


def uploaded(case: Case, url: str, server: SeaweedFS, ending: str = "", *, partial_last: bool = False) -> None:
    """The segments of a case, and its history files."""
    store = open_store(url, server.options)
    names = sorted(each.name for each in case.wal_dir.iterdir() if each.is_file())
    segments = [name for name in names if len(name) == 24]
    for name in names:
        data = (case.wal_dir / name).read_bytes()
        is_last = bool(segments) and name == segments[-1]
        told = ".partial" if partial_last and is_last else ""
        if name in segments:
            store.put(f"{name}{ending}{told}", PACKERS[ending](data))
        else:
            store.put(name, data)


@pytest.mark.parametrize("ending", PACKERS)
def test_a_bucket_is_decoded_as_a_directory_is(case: Case, ending: str, bucket: SeaweedFS, tailrace: Run, tmp_path: Path) -> None:
    url = bucket.url
    uploaded(case, url, bucket, ending, partial_last=ending == ".gz")
    words = ("--database", case.meta["dbname"], "--catalog", tmp_path / "state")
    there = tailrace("decode", case.wal_dir, *words)
    assert there[0] == 0, there
    assert there[1].count("\n") > 10
    here = tailrace("decode", url, *words)
    assert here[:2] == there[:2], here[2]
