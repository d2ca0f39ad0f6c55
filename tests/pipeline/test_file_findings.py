"""`tailrace doctor` on files: what pg_control and the log tell, with the thing wrong and with it right."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from support.command import Run
from support.servers import Server
from tailrace.client.doctor.findings import NOTE, OK, STOPS, WARNING, Finding
from tailrace.pipeline import LocalRunner
from tailrace.pipeline.file_findings import file_findings

pytestmark = pytest.mark.postgres
ALL = [18, *(pytest.param(major, marks=pytest.mark.matrix) for major in (14, 15, 16, 17))]

NOBODY = 65534


def findings(path: Path) -> dict[str, list[Finding]]:
    found: dict[str, list[Finding]] = {}
    for each in file_findings(path, lambda _: LocalRunner(1)):
        found.setdefault(each.check, []).append(each)
    return found


def severities(found: dict[str, list[Finding]], check: str) -> list[str]:
    return [each.severity for each in found[check]]


@pytest.mark.parametrize("major", ALL)
def test_directories_and_archives(major: int, tmp_path: Path) -> None:
    """Of a running server, a stopped one, and of WAL alone; with a file missing, and with a damaged one."""
    with Server(major, dbname="app") as server:
        server.say("CREATE TABLE t (id int)", "INSERT INTO t SELECT generate_series(1, 60000)")
        found = findings(server.data_dir)
        assert "a server runs on it" in found["data directory"][0].told
        server.stop()
        archive = tmp_path / "archive"
        shutil.copytree(server.wal_dir, archive, ignore=shutil.ignore_patterns("archive_status", "summaries"))
        found = findings(server.data_dir)
    assert "stopped, or a backup" in found["data directory"][0].told
    assert found["version"][0].told == f"PostgreSQL {major}"
    for check in ("wal_level", "gaps", "log"):
        assert severities(found, check) == [OK]
    assert severities(found, "wal_level in the log") in ([OK], [NOTE])  # what initdb wrote is below logical, and may be there
    assert severities(found, "server") == [NOTE]
    found = findings(archive)
    assert severities(found, "data directory") == [NOTE]
    written = sorted(archive.glob("0*"))[:3]
    written[1].rename(tmp_path / "aside")
    found = findings(archive)
    assert severities(found, "gaps") == [STOPS]
    assert found["gaps"][0].told.startswith(f"1 segment is missing, from {written[1].name} on")
    (tmp_path / "aside").rename(written[1])
    with written[1].open("r+b") as segment:
        segment.seek(300_000)
        segment.write(b"damaged" * 8)
    found = findings(archive)
    assert severities(found, "log") == [STOPS]
    assert written[1].name in found["log"][0].told


@pytest.mark.parametrize("major", ALL)
def test_wal_levels(major: int, tmp_path: Path, tailrace: Run) -> None:
    with Server(major, {"wal_level": "replica", "full_page_writes": "off"}, dbname="app") as server:
        server.say("CREATE TABLE t (id int)", "INSERT INTO t VALUES (1)", "CHECKPOINT")
        found = findings(server.data_dir)
        assert severities(found, "wal_level") == [STOPS]
        assert severities(found, "full_page_writes") == [WARNING]
        assert "it is replica" in found["wal_level"][0].told
        server.stop()
        archive = tmp_path / "archive"
        shutil.copytree(server.wal_dir, archive, ignore=shutil.ignore_patterns("archive_status", "summaries"))
        found = findings(archive)
        assert severities(found, "wal_level in the log") == [STOPS]
        assert "all of it was written below logical" in found["wal_level in the log"][0].told
        for level in ("logical", "replica"):
            server.settings["wal_level"] = level
            server.start()
            server.stop()
        found = findings(server.data_dir)
        raised, lowered = found["wal_level in the log"]
        assert (raised.severity, "it became logical at" in raised.told) == (NOTE, True)
        assert (lowered.severity, "it became replica at" in lowered.told) == (WARNING, True)
        assert raised.remedy.startswith("--start-lsn ")
        code, out, _ = tailrace("doctor", server.data_dir)
    assert code == 1
    assert "stops    wal_level: it is replica" in out


def test_what_is_no_source(tailrace: Run, tmp_path: Path) -> None:
    for path, said in ((tmp_path / "absent", "does not exist"), (tmp_path, "no WAL segments in")):
        code, out, _ = tailrace("doctor", path)
        assert (code, said in out) == (1, True)


def test_files_of_another_user(tmp_path: Path) -> None:
    closed = tmp_path / "data"
    (closed / "global").mkdir(parents=True)
    closed.chmod(0)
    before = os.geteuid()
    if before == 0:
        os.seteuid(NOBODY)
    try:
        (line, _) = [each for kind in findings(closed).values() for each in kind]
    finally:
        os.seteuid(before)
        closed.chmod(0o700)
    assert (line.severity, "Permission denied" in line.told) == (STOPS, True)
    assert line.remedy.startswith("sudo -u postgres tailrace doctor")
