"""What a person is told beside the rows: how much of the way is behind where the end is known, and that a state location is new."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from support.cases import DBNAME, open_case
from support.command import Run
from tailrace import kernels
from tailrace.cli import decode
from tailrace.cli.progress import Progress, counted
from tailrace.model import Lsn


class Shown:
    """Instead of rich's status line: what it would have shown."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.console = Console(quiet=True)

    def update(self, line: str) -> None:
        self.lines.append(line)


def test_a_percentage_where_the_end_is_known() -> None:
    shown: Any = Shown()
    progress = Progress("rows", shown=True, status=shown, begin=Lsn(1000))
    progress.add(1000, Lsn(1500))
    progress.end = Lsn(2000)
    for reached in (900, 1500, 1999, 2000, 2100):
        progress.add(1, Lsn(reached))
    progress.add(1)
    assert shown.lines == [
        "1,000 rows", "1,001 rows, 0 %", "1,002 rows, 50 %", "1,003 rows, 99 %", "1,004 rows, 100 %", "1,005 rows, 100 %", "1,006 rows",
    ]  # fmt: skip


@pytest.mark.parametrize("story", ["big", "xact"])
def test_decode_goes_to_the_end(story: str, tailrace: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it goes window by window, or the log is short and ends amid its only segment."""
    case, shown = open_case(story, 18, "with_slot", tmp_path), Shown()

    @contextmanager
    def counted(noun: str) -> Iterator[Progress]:
        yield Progress(noun, shown=True, status=shown)  # type: ignore[arg-type]

    monkeypatch.setattr(decode, "counted", counted)
    words = ("--database", DBNAME, "--start-lsn", case.meta["start_lsn"], "--window", "1MB", "--on", "local")
    assert tailrace("decode", case.data_dir, *words)[:2] == (0, case.expected)
    percentages = [int(re.fullmatch(r"[\d,]+ rows, (\d+) %", line)[1]) for line in shown.lines]  # type: ignore[index]
    assert percentages == sorted(percentages)
    assert len(set(percentages)) > 1 or story == "xact"
    assert percentages[-1] > 95, percentages


def test_whoever_makes_a_state_location_is_told(tailrace: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By `publication create` as by `slot create`; a publication of a location that is not there is not altered or dropped."""
    case = open_case("xact", 16, "with_slot", tmp_path)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    location = tmp_path / "state"
    source = (case.data_dir, "--database", DBNAME, "--state", location)
    for verb in ("alter", "drop"):
        status, _, err = tailrace("publication", verb, "p SET (publish = 'insert')" if verb == "alter" else "p", *source)
        assert (status, location.exists()) == (1, False), err
    told = f'"{location}" is a new state location'
    for number in (1, 2):
        status, out, err = tailrace("publication", "create", f"p{number} FOR ALL TABLES", *source)
        assert (status, out, told in err.replace("\n", "")) == (0, "CREATE PUBLICATION\n", number == 1), err


def test_that_kernels_are_compiled_is_said_in_a_log_too(capsys: pytest.CaptureFixture[str]) -> None:
    """Where standard error is no terminal, somebody waits all the same."""
    with counted("rows"):
        kernels.before_compiling.pop()()
    assert capsys.readouterr().err == "tailrace: compiling kernels for this machine, once: up to a minute\n"
