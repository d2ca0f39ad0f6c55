"""Transaction ids that begin again: recorded logs with other xids decode to what they did, but for the xids that are printed.

In one the counter passes 2^32 in the middle, in another the xids of the first half come again in the second, an epoch later. Both are decoded in one
range, and from states captured on either side of the place.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from support.cases import Case, open_case
from support.decoding import check, decode, decode_in_windows, text_of
from support.renumber import IN_PRODUCTION, Renumbering, renumber, renumbered_text, rewrite_control
from support.sampling import some_of
from tailrace.catalog.state.state_file import read_state, write_state
from tailrace.model import PAGE_SIZE, Lsn
from tailrace.pipeline import LocalRunner, Scanning, Source, capture, open_pipeline, scan_log
from tailrace.plan import carried as carrying
from tailrace.transactions.indexes_of_unfinished import indexes_of_unfinished
from tailrace.wal.kept_records import server_states
from tailrace.wal.standby import RunningXacts
from tailrace.wal.xlog import Checkpoint

EPOCH = 1 << 32
STRETCHES = 64
CELL = PAGE_SIZE
"""Of what is carried: an xid is not there twice."""
STORIES = ("hot", "catalog_rewrite", "prepared", "crash_free_long", "subxact_many", "subxact", "toast", "xact")
QUIET = ("hot", "catalog_rewrite", "empty")
"""Stories with a checkpoint in the middle at which nothing is open."""
OTHER_MAJORS = (15, 18)


def _wrapping(case: Case) -> Renumbering:
    """The xid in the middle of the log's is 2^32 + 3; the server skips the numbers that stand for no transaction."""
    indexes = scan_log(Source.open(case.data_dir).segments, LocalRunner(1))
    used = sorted({xid for found in indexes for xid in found.xids.xid.tolist()})
    middle = used[len(used) // 2]
    return Renumbering(EPOCH - middle, middle, EPOCH - middle + 3)


def _repeating(case: Case) -> Renumbering:
    """Behind a quiet checkpoint the xids of before begin again. They do so on another page: a stretch never holds an xid twice."""
    indexes = scan_log(Source.open(case.data_dir).segments, LocalRunner(1))
    all_moments = list(server_states(indexes))
    first = min(xid for found in indexes for xid in found.xids.xid.tolist())
    for running, checkpoint in zip(all_moments[3:], all_moments[4:], strict=False):
        if (
            isinstance(running.record, RunningXacts)
            and not len(running.record.xids)
            and isinstance(checkpoint.record, Checkpoint)
        ):
            next_xid = checkpoint.record.next_xid
            return Renumbering(0, next_xid, EPOCH + first - next_xid, int(checkpoint.lsn))
    raise AssertionError(f"{case.story} has no quiet checkpoint")


def _in_between(case: Case, lsn: int, directory: Path) -> Path:
    """The data directory as a crash would have left it when its log had come so far, with none of its pages written."""
    shutil.copytree(case.before_dir, directory, symlinks=True)
    (directory / "pg_wal").unlink()
    (directory / "pg_wal").mkdir()
    size = 1 << 20
    for file in case.wal_dir.iterdir():
        begins = int(file.name[8:16], 16) * (1 << 32) + int(file.name[16:], 16) * size
        if begins < lsn:
            data = file.read_bytes()
            assert len(data) == size
            (directory / "pg_wal" / file.name).write_bytes(data[: max(0, lsn - begins)].ljust(size, b"\0"))
    rewrite_control(directory, state=IN_PRODUCTION)
    return directory


def _small_stretch(case: Case) -> int:
    """Whole pages, some dozens of stretches."""
    segments = Source.open(case.data_dir).segments
    return max(1, (segments.stop_lsn - segments.first_lsn) // STRETCHES // PAGE_SIZE) * PAGE_SIZE


def _ends(case: Case) -> list[int]:
    """Where transactions end that PostgreSQL told."""
    plan = open_pipeline(
        case.data_dir, case.meta["dbname"], runner=LocalRunner(1), start_lsn=Lsn.parse(case.meta["start_lsn"])
    ).plan
    return [int(plan.transactions.end_lsn[ordinal]) for ordinal in plan.shown.tolist()]


def _from_states(case: Case, cuts: list[int], directory: Path) -> list[str]:
    """What comes out from states captured at these ends of transactions on."""
    texts = []
    for cut in cuts:
        path = _in_between(case, cut, directory / f"{case.data_dir.parent.name}-{cut}")
        captured = capture(Source.open(path), LocalRunner(1), case.meta["dbname"])
        state = read_state(write_state(captured), "captured in between")
        assert state.lsn == cut
        pipeline = open_pipeline(
            case.data_dir, case.meta["dbname"], runner=LocalRunner(1), catalog=state, start_lsn=state.lsn,
            scanning=Scanning(_small_stretch(case)),
        )  # fmt: skip
        texts.append(text_of(pipeline, case.meta.get("options", {})))
    return texts


@pytest.fixture(autouse=True)
def _small_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carrying, "indexes_of_unfinished", partial(indexes_of_unfinished, cell=CELL))


def _same_with_other_xids(story: str, major: int, path: Path, choose: Callable[[Case], Renumbering]) -> None:
    original = open_case(story, major, "with_slot", path / "original")
    xids = choose(original)
    ends = _ends(original)
    cuts = [ends[len(ends) // 4], ends[3 * len(ends) // 4]]
    case = renumber(open_case(story, major, "with_slot", path / "renumbered"), xids)
    assert case.expected != original.expected
    for captured in (False, True):
        check(case, decode(case, LocalRunner(1), captured=captured, stretch_bytes=_small_stretch(case)))
        check(case, decode_in_windows(case, random.Random(f"{story} {major} {captured}"), captured=captured, cell=CELL))
    for before, after in zip(_from_states(original, cuts, path), _from_states(case, cuts, path), strict=True):
        check(replace(case, expected=renumbered_text(before, xids)), after)


@pytest.mark.parametrize(
    ("story", "major"),
    some_of(
        [pytest.param(*each) for each in (*((story, 16) for story in STORIES), *(("prepared", major) for major in OTHER_MAJORS))],
        8,
    ),
)
def test_the_counter_passes_its_end(story: str, major: int, tmp_path: Path) -> None:
    _same_with_other_xids(story, major, tmp_path, _wrapping)


@pytest.mark.parametrize(
    ("story", "major"),
    some_of(
        [pytest.param(*each) for each in (*((story, 16) for story in QUIET), *(("hot", major) for major in OTHER_MAJORS))], 4
    ),
)
def test_the_same_xids_an_epoch_later(story: str, major: int, tmp_path: Path) -> None:
    _same_with_other_xids(story, major, tmp_path, _repeating)
