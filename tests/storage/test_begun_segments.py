"""A segment that is being received: of its file only what was written is read, and it is on disk before somebody relies on it."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path

import pytest

from support.cases import open_case
from support.damage import segments_of
from tailrace.errors import FailedWrite
from tailrace.storage.segment_files import arrange

SIZE = 1 << 20


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """An archive whose last segment has some bytes, and a hole behind them."""
    whole, last = segments_of(open_case("catalog_rewrite", 16, "with_slot", tmp_path / "case"))[:2]
    archive = tmp_path / "archive"
    archive.mkdir()
    (archive / whole.name).write_bytes(whole.read_bytes())
    with (archive / f"{last.name}.partial").open("wb") as file:
        file.write(last.read_bytes()[:300_000])
        file.truncate(SIZE)
    return archive


def test_any_range_is_what_the_file_has(begun: Path) -> None:
    [path] = begun.glob("*.partial")
    segments = arrange(begun)
    content = b"".join(each.read_bytes() for each in sorted(begun.iterdir()))
    dice = random.Random(5)
    cuts = [0, 8192, SIZE - 8192, SIZE, SIZE + 294_912, SIZE + 303_104, 2 * SIZE - 8192, 2 * SIZE]
    for _ in range(100):
        start, stop = sorted((*dice.sample(cuts, 1), dice.randrange(2 * SIZE) // 8192 * 8192))
        read = segments.read(segments.first_lsn + start, segments.first_lsn + stop)
        assert bytes(read.buf[: read.raw]) == content[start:stop]
    with path.open("r+b") as file:  # a hole in the middle, which no receiver makes
        file.seek(700_000)
        file.write(b"x")
    read = segments.read(segments.first_lsn + SIZE, segments.first_lsn + 2 * SIZE)
    assert read.buf[700_000] == ord("x")


def test_it_is_synced_before_it_is_relied_on(begun: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If it is begun; a whole one was synced before it had its name."""
    synced: list[str] = []
    monkeypatch.setattr(os, "fdatasync", lambda file: synced.append(Path(f"/proc/self/fd/{file}").readlink().name))
    segments = arrange(begun)
    segments.sync(segments.first_lsn)
    segments.sync(segments.first_lsn + SIZE)
    assert synced == []
    segments.sync(segments.first_lsn + SIZE + 1)
    [path] = begun.glob("*.partial")
    assert synced == [path.name]

    def fails(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fdatasync", fails)
    with pytest.raises(FailedWrite, match="could not fsync file"):
        segments.sync(segments.first_lsn + SIZE + 1)
    path.rename(path.with_suffix(""))
    segments.sync(segments.first_lsn + SIZE + 1)
