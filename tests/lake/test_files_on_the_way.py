"""How many files an update passes on its way into a mirror: what somebody must know who follows it (docs/architecture.md)."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import tailrace
from support.cases import Case, open_case
from tailrace.lake.lake import Lake
from tailrace.lake.mirror import mirror
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, open_feed, open_pipeline
from tailrace.pipeline.log_feed import LogFeed
from tailrace.storage.local_store import LocalStore

PACKAGE = f"{Path(tailrace.__file__).parent}/"
FEED = ("pipeline/", "decode/", "transactions/", "plan/", "feed.py")
"""What a feed is made of, and all that is called from there: the way begins where that has given something."""
TABLES = ("lake/", "apply/", "changes.py")
BEHIND_THE_DOOR = ("types/", "delta_log/", "lake/delta/", "lake/files/", "storage/", "dataclass.py", "kernels.py", "threads.py")
XID = 743
"""The update of docs/architecture.md, "Follow one update"."""


def test_an_update_passes_fifteen_files_on_its_way_into_a_mirror(tmp_path: Path) -> None:
    """Codecs of types are left out: which of them read the values, the columns of the table say. So is what the table's format and its store are made
    of, behind the door, and what all dataclasses, kernels and threads have in common."""
    case, commit = _case(tmp_path)
    mirror(_feed(case, None, commit), tmp_path / "lake")
    with _files_entered() as files:
        (done,) = mirror(_feed(case, commit, Lsn(commit + 1)), tmp_path / "lake")
    assert (done.table, done.changes, done.upserts, done.trouble) == ("public.a", 1, 1, None)
    _check(files, "lake/mirror.py", 15)


def test_and_twenty_on_its_way_into_a_lake(tmp_path: Path) -> None:
    """As `tailrace mirror` brings it there: with the catalog of the lake, and what cannot be applied."""
    case, commit = _case(tmp_path)
    lake = Lake.open(LocalStore(tmp_path / "lake"))
    lake.apply(_feed(case, None, commit))
    with _files_entered() as files:
        (done,) = lake.apply(_feed(case, commit, Lsn(commit + 1)))
    assert (done.table, done.changes, done.upserts) == ("public.a", 1, 1)
    _check(files, "lake/lake.py", 20)


def _check(files: set[str], runner: str, most: int) -> None:
    passed = sorted(file for file in files if not file.startswith(BEHIND_THE_DOOR))
    assert runner in passed
    assert len(passed) <= most, "\n".join(passed)
    assert not [file for file in passed if file.startswith("catalog/") and "names" not in file], "the lake asks the feed"


def _case(tmp_path: Path) -> tuple[Case, Lsn]:
    """The recorded case, and where the update commits in it."""
    case = open_case("xact", 16, "with_slot", tmp_path / "case")
    facts = open_pipeline(case.data_dir, case.meta["dbname"]).plan.transactions
    return case, Lsn(int(facts.commit_lsn[facts.xid.tolist().index(XID)]))


def _feed(case: Case, start: Lsn | None, upto: Lsn) -> LogFeed:
    return open_feed(case.data_dir, case.meta["dbname"], start_lsn=start, upto_lsn=upto, runner=LocalRunner(1))


@contextmanager
def _files_entered() -> Iterator[set[str]]:
    """The files of the package whose functions are called, in any thread, outside of the feed."""
    entered: set[str] = set()
    local = threading.local()

    def called(frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_code.co_filename
        if event not in ("call", "return") or not name.startswith(PACKAGE):
            return
        stack = local.__dict__.setdefault("stack", [])
        if event == "return":
            del stack[-1:]
            return
        stack.append(name.removeprefix(PACKAGE))
        innermost = next((each for each in reversed(stack) if each.startswith((*FEED, *TABLES))), "")
        if innermost.startswith(TABLES):
            entered.add(stack[-1])

    threading.setprofile(called)
    sys.setprofile(called)
    try:
        yield entered
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
