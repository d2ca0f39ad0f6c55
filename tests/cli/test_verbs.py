"""The verbs as a person types them: rows on standard output, one message on standard error, 0 or 1."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.cases import Case, open_case
from support.command import Run

ROOT = Path(__file__).parents[2]


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return open_case("xact", 16, "with_slot", tmp_path)


def test_decode_prints_what_postgresql_prints(case: Case, tailrace: Run) -> None:
    status, out, err = tailrace(
        "decode", case.data_dir, "--database", "app", "--on", "local", "--start-lsn", case.meta["start_lsn"]
    )
    assert (status, err) == (0, "")
    assert out == case.expected


def test_the_readme_shows_what_is_printed(case: Case) -> None:
    shown = [line for line in (ROOT / "README.md").read_text().splitlines() if re.match(r"[0-9A-F]+/[0-9A-F]+\t", line)]
    assert shown
    assert shown == case.expected.splitlines()[: len(shown)]


def test_decode_from_an_archive_with_a_captured_state(case: Case, tailrace: Run, tmp_path: Path) -> None:
    state = tmp_path / "app.state"
    status, out, err = tailrace("catalog", "capture", case.before_dir, "--database", "app", "-o", state)
    assert (status, out) == (0, "")
    assert err.startswith("catalogs of app as of ")
    assert os.listdir(tmp_path).count("app.state") == 1
    status, out, err = tailrace(
        "decode", case.wal_dir, "--database", "app", "--on", "local", "--catalog", state, "--start-lsn", case.meta["start_lsn"]
    )
    assert (status, err) == (0, "")
    assert out == case.expected


def test_options_of_the_plugin(case: Case, tailrace: Run) -> None:
    words = ("decode", case.data_dir, "--database", "app", "--on", "local", "-o", "include-xids=0", "-o", "skip-empty-xacts=1")
    status, out, _ = tailrace(*words)
    assert status == 0
    assert {line.split("\t")[2] for line in out.splitlines() if "\tBEGIN" in line} == {"BEGIN"}


def test_parameters_that_text_depends_on(tailrace: Run, tmp_path: Path) -> None:
    types = open_case("types", 18, "with_slot", tmp_path)
    words = ("decode", types.data_dir, "--database", "app", "--on", "local", "--start-lsn", types.meta["start_lsn"])
    status, plain, _ = tailrace(*words)
    assert (status, plain) == (0, types.expected)
    status, german, _ = tailrace(*words, "--set", "DateStyle=German", "--set", "bytea_output=escape")
    assert status == 0
    dates = re.compile(r"\[date\]:'\d\d\.\d\d\.\d{4}( BC)?'")
    assert dates.search(german)
    assert not dates.search(plain)
    assert len(german.splitlines()) == len(plain.splitlines())


REFUSED = {
    "parameter": (("--database", "app", "--set", "work_mem=1"), 'unrecognized configuration parameter "work_mem"'),
    "value of a parameter": (
        ("--database", "app", "--set", "extra_float_digits=x"),
        'invalid value for parameter "extra_float_digits": "x"',
    ),
    "policy": (("--database", "app", "--unknown-types", "guess"), 'invalid value for parameter "unknown_types": "guess"'),
    "database": (("--database", "nope"), 'database "nope" does not exist'),
    "LSN": (("--database", "app", "--start-lsn", "zz"), 'invalid input syntax for type pg_lsn: "zz"'),
    "option": (("--database", "app", "-o", "bad=1"), 'option "bad" = "1" is unknown'),
    "plugin": (("--database", "app", "--plugin", "wal3json"), 'could not access file "wal3json": No such file or directory'),
    "catalog": (("--database", "app", "--catalog", "/no/state"), 'could not use "/no/state": No such file or directory'),
}


@pytest.mark.parametrize(("words", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_one_message_and_status_1(case: Case, tailrace: Run, words: tuple[str, ...], message: str) -> None:
    status, out, err = tailrace("decode", case.data_dir, "--on", "local", *words)
    assert (status, out) == (1, "")
    assert err.splitlines()[0] == f"tailrace: error: {message}"
    assert all(line.startswith(("HINT:  ", "CONTEXT:  ")) for line in err.splitlines()[1:])
    assert ('CONTEXT:  output plugin "test_decoding", in the startup callback' in err.splitlines()) == ("-o" in words)


def test_a_source_that_is_not_there(tailrace: Run) -> None:
    status, out, err = tailrace("decode", "/nowhere", "--database", "app", "--on", "local")
    assert (status, out, err) == (1, "", 'tailrace: error: source directory "/nowhere" does not exist\n')


def test_a_state_that_cannot_be_written(case: Case, tailrace: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for target in (tmp_path / "nowhere" / "state", tmp_path / "file" / "state"):
        before = sorted(tmp_path.iterdir())
        status, out, err = tailrace("catalog", "capture", case.data_dir, "--database", "app", "-o", target)
        assert (status, out) == (1, "")
        assert err.startswith(f'tailrace: error: could not use "{target}": ')
        assert err.count("\n") == 1
        assert sorted(tmp_path.iterdir()) == before


def _make_device(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root makes devices")


@pytest.mark.parametrize(
    ("make", "kind"),
    [(os.mkfifo, "a pipe"), (os.mkdir, "a directory"), (_make_device, "a device")],
    ids=["pipe", "directory", "device"],
)
def test_a_state_replaces_files_only(case: Case, tailrace: Run, tmp_path: Path, make: Callable[[Path], None], kind: str) -> None:
    """As root, `-o /dev/null` made the device a file."""
    target = tmp_path / "there"
    make(target)
    before = target.stat()
    status, out, err = tailrace("catalog", "capture", case.data_dir, "--database", "app", "-o", target)
    assert (status, out) == (1, "")
    assert err.startswith(f'tailrace: error: "{target}" is {kind}, it cannot be replaced by a file\nHINT:  ')
    assert (target.stat().st_ino, target.stat().st_mode) == (before.st_ino, before.st_mode)


def _piped(case: Case, into: str) -> subprocess.CompletedProcess[str]:
    command = f'"{sys.executable}" -m tailrace decode "{case.data_dir}" --database app --on local {into}'
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, timeout=300)


def test_a_full_disk_is_an_error(case: Case) -> None:
    done = _piped(case, "> /dev/full")
    assert (done.returncode, done.stderr) == (1, "tailrace: error: could not write output: No space left on device\n")


def test_a_reader_that_has_seen_enough_is_none(case: Case) -> None:
    assert _piped(case, "| true").stderr == ""


def test_wal_ls(case: Case, tailrace: Run) -> None:
    status, out, err = tailrace("wal", "ls", case.data_dir)
    assert (status, err) == (0, "")
    assert "PostgreSQL 16, segments of 1 MB" in out
    assert "00000001000000000000000F" in out


def test_wal_ls_shows_gaps_timelines_and_segments_made_ahead(tailrace: Run, tmp_path: Path) -> None:
    wal = open_case("catalog_rewrite", 16, "with_slot", tmp_path).wal_dir
    names = sorted(path.name for path in wal.iterdir() if len(path.name) == 24)
    (wal / names[1]).unlink()
    (wal / "0000000100000000000000FF").write_bytes((wal / names[0]).read_bytes())
    status, out, _ = tailrace("wal", "ls", wal)
    assert status == 0
    lines = out.splitlines()
    gap = next(i for i, line in enumerate(lines) if "1 missing" in line)
    assert names[0] in lines[gap - 1]
    assert names[2] in lines[gap + 1]
    assert any("0000000100000000000000FF" in line and "not written yet" in line for line in lines)


def test_wal_stat_counts_every_record(case: Case, tailrace: Run) -> None:
    _, verified, _ = tailrace("wal", "verify", case.data_dir)
    status, out, _ = tailrace("wal", "stat", case.data_dir, "--top", 3)
    assert status == 0
    assert verified.split()[0] == out.splitlines()[-1].split()[0]
    assert "the largest 3 of" in out
    assert "Heap2" in out


def test_wal_verify_names_file_and_record(case: Case, tailrace: Run) -> None:
    assert tailrace("wal", "verify", case.data_dir)[0] == 0
    segment = next(path for path in case.wal_dir.iterdir() if len(path.name) == 24)
    damaged = bytearray(segment.read_bytes())
    damaged[20_000] ^= 4
    segment.write_bytes(damaged)
    status, out, err = tailrace("wal", "verify", case.data_dir)
    assert (status, out) == (1, "")
    assert err.startswith("tailrace: error: incorrect resource manager data checksum in record at 0/F0")
    assert str(segment) in err
