"""What `wal` and `spool` print: drawn for a person, columns for a program, JSON if asked."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.cases import Case, open_case
from tailrace.cli import main
from tailrace.cli.tables import Listing, write_listing

Run = Callable[..., str]
BOX = "─│┃━┏└"


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return open_case("catalog_rewrite", 16, "with_slot", tmp_path)


@pytest.fixture
def out(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Standard output of a command line that ends well."""

    def run(*words: object) -> str:
        monkeypatch.setattr(sys, "argv", ["tailrace", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        return capfd.readouterr().out

    return run


def test_columns_for_programs(case: Case, out: Run) -> None:
    listed, counted = out("wal", "ls", case.wal_dir), out("wal", "stat", case.wal_dir)
    assert not set(BOX) & set(listed + counted)
    rows = [line.split("\t") for line in listed.splitlines()[1:]]
    assert rows[0] == ["segment", "timeline", "from", "file size", "notes"]
    assert [row[:4] for row in rows[1:]] == [
        [path.name, "1", f"0/{int(path.name[16:], 16):X}00000", str(path.stat().st_size)]
        for path in sorted(case.wal_dir.iterdir())
    ]
    heap = next(line.split("\t") for line in counted.splitlines() if line.startswith("Heap\t"))
    assert all(float(cell) > 0 for cell in heap[1:])


def test_cells_are_no_markup(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    listing = Listing(("a", "b"), [("[/b]", "[red]x\x1b[1m"), ("two\nlines", 5)])
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    write_listing(listing)
    drawn = capsys.readouterr().out
    assert all(each in drawn for each in ("[/b]", r"[red]x\x1b[1m", r"two\nlines"))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False, raising=False)
    write_listing(listing)
    assert capsys.readouterr().out == "a\tb\n[/b]\t[red]x\\x1b[1m\ntwo\\nlines\t5\n"


def test_boxes_for_a_person(case: Case) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "tailrace", "wal", "ls", str(case.wal_dir)]
    with subprocess.Popen(command, stdout=theirs, env={**os.environ, "COLUMNS": "150", "TERM": "xterm"}) as process:
        os.close(theirs)
        shown = b""
        while part := _read(ours):
            shown += part
    os.close(ours)
    assert process.returncode == 0
    assert set(BOX) & set(shown.decode())
    assert "1,048,576" in shown.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # nobody writes to it any more
        return b""


def test_json(case: Case, out: Run) -> None:
    files = json.loads(out("wal", "ls", case.wal_dir, "--json"))
    assert (files["major"], files["segment_size"]) == (16, 1 << 20)
    assert [file["name"] for file in files["files"]] == sorted(path.name for path in case.wal_dir.iterdir())
    sound = json.loads(out("wal", "verify", case.data_dir, "--json"))
    counts = json.loads(out("wal", "stat", case.data_dir, "--json", "--top", 3))
    records = [json.loads(line) for line in out("wal", "dump", case.wal_dir, "--json").splitlines()]
    assert sound["records"] == counts["records"] == len(records) == sum(part["records"] for part in counts["resource manager"])
    assert sound["from"] == records[0]["lsn"]
    assert (sound["to"], sound["end"]["reason"]) == (counts["to"], counts["reason"])
    assert len(counts["transaction"]) == 3
    assert [record["prev"] for record in records[1:]] == [record["lsn"] for record in records[:-1]]


def test_ls_looks_at_anything(case: Case, out: Run) -> None:
    first, second, third, fourth, last = sorted(case.wal_dir.iterdir())
    noise = first.with_name("00000001000000000000000E")
    noise.write_bytes(bytes([2]) * (1 << 20))
    second.write_bytes(second.read_bytes()[:1000])
    third.unlink()
    os.mkfifo(third)
    fourth.write_bytes(bytes([1]) * (1 << 20))
    last.write_bytes(last.read_bytes().replace(b"\x13\xd1", b"\x10\xd1"))
    notes = {line.split("\t")[0]: line.split("\t")[-1] for line in out("wal", "ls", case.wal_dir).splitlines()}
    assert notes[noise.name] == "invalid magic number 0202 in WAL page"
    assert notes[first.name] == ""
    assert notes[second.name] == "not 1048576 bytes long"
    assert notes[third.name] == "not a regular file"
    assert notes[fourth.name] == "invalid magic number 0101 in WAL page"
    assert notes[last.name] == "of PostgreSQL 15"


def test_verify_names_what_it_did_not_check(case: Case, out: Run) -> None:
    first = min(case.wal_dir.iterdir())
    copy = first.with_name(f"{first.name}.partial")
    copy.write_bytes(first.read_bytes())
    assert f"not checked, since of other history or second copies: {copy.name}" in out("wal", "verify", case.data_dir)
    found: dict[str, Any] = json.loads(out("wal", "verify", case.data_dir, "--json"))
    assert found["not_checked"] == [copy.name]


def test_nothing_short_is_cut(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """At 80 columns `slot ls` cut its LSNs: what does not fit has a line a value; a long text alone goes over several."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    names = ("slot_name", "plugin", "database", "temporary", "active_pid", "restart_lsn", "confirmed_flush_lsn", "wal_status")
    row = ("shipping", "test_decoding", "app", "false", "", "16/B374D848", "16/B374D880", "reserved")
    write_listing(Listing(names, [row, row]))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("-[ RECORD 1 ]-------+--")
    assert lines[1:9] == [f"{name:19} | {cell}" for name, cell in zip(names, row, strict=True)]
    assert lines[9].startswith("-[ RECORD 2 ]")
    write_listing(Listing(names, []))
    assert set(BOX) & set(capsys.readouterr().out)
    write_listing(Listing(("commit", "values"), [("16/B374D848", "word " * 40)]))
    drawn = capsys.readouterr().out
    assert set(BOX) & set(drawn)
    assert drawn.count("16/B374D848") == 1
    assert drawn.count("word") == 40
    monkeypatch.setenv("COLUMNS", "200")
    write_listing(Listing(names, [row]))
    drawn = capsys.readouterr().out
    assert set(BOX) & set(drawn)
    assert all(cell in drawn for cell in row)
