"""The table of majors, and what a major meets that nobody has taught yet: each place that must say something of it complains, by its name."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from support.cases import Case, open_case
from support.decoding import check, decode
from tailrace import majors
from tailrace.catalog.data_directory import control_file
from tailrace.catalog.data_directory.control_file import CONTROL_FILE
from tailrace.errors import UnsupportedWal
from tailrace.majors import IN_ALL, MAJORS, NEWEST, Capability, Compared, said_by, supports
from tailrace.model import PAGE_SIZE
from tailrace.pipeline import LocalRunner
from tailrace.wal import versions
from tailrace.wal.crc import crc32c
from tailrace.wal.opcodes import RECORD_TYPES
from tailrace.wal.xact import End

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/new_major.md"
NEXT = NEWEST + 1
MAGIC, CATALOG_VERSION = 0xD11A, 202609011
"""Of the pretended major."""
FORM = replace(versions.FORMATS[NEWEST], major=NEXT, page_magic=MAGIC)
MET = (
    "catalog.data_directory.control_file", "catalog.rows.layouts", "types.quoting", "wal.heap_records", "wal.opcodes",
    "wal.record_header", "wal.versions",
    "wal.xact", "wal.xlog",
)  # fmt: skip
"""Places that every decoding comes to."""
ROWS = {
    "tailrace.wal.versions": "invalid magic number",
    "tailrace.catalog.data_directory.control_file": "database files have catalog version",
}
"""Two places that must have a row of every major: without one, users are told that their files are of a major that nobody knows."""


def _places() -> list[Compared]:
    """Those of the page: the file of each line says what it was compared with."""
    files = re.findall(r"^\| `src/([\w/]+)\.py` \|", PAGE.read_text(), re.MULTILINE)
    return [import_module(file.replace("/", ".").removesuffix(".__init__")).COMPARED for file in files]


def test_the_page_has_every_place() -> None:
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'tools')!r}); import new_major; sys.stdout.write(new_major.render())"
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120).stdout
    assert made == PAGE.read_text(), "run tools/new_major.py"


def test_every_place_knows_every_major() -> None:
    assert [complaint for place in _places() for major in MAJORS if (complaint := _complaint(place, major))] == []


def _complaint(place: Compared, major: int) -> str:
    try:
        place.check(major)
    except UnsupportedWal as error:
        return str(error)
    return ""


def test_a_major_that_nobody_has_taught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log of the newest major is made one of a pretended major, and decoded. Each place that this meets complains once, and is taught that nothing
    has changed there; what comes out in the end is what the server printed. The places that decoding does not meet complain when they are asked."""
    monkeypatch.setattr(majors, "MAJORS", (*MAJORS, NEXT))
    case = open_case("types", NEWEST, "with_slot", tmp_path)
    _pretend(case)
    places = {place.module: place for place in _places()}
    met: list[str] = []
    while True:
        try:
            text = decode(case, LocalRunner(1), captured=False)
        except UnsupportedWal as error:
            met.append(next(name for name in places if error.message.startswith(ROWS.get(name, f"{name} says nothing of"))))
            assert met.count(met[-1]) == 1
            _teach(places[met[-1]], monkeypatch)
        else:
            break
    check(case, text)
    assert set(met) >= {f"tailrace.{name}" for name in MET}
    for name in places.keys() - set(met):
        assert (
            _complaint(places[name], NEXT)
            == f"{name} says nothing of PostgreSQL {NEXT}\nHINT:  Compare it with {places[name].subject}."
        )


def test_a_record_of_a_major_that_nobody_has_taught() -> None:
    """Whichever it is, nobody reads it as if it were of an earlier one. A kernel reads ends of transactions, and is given the major's form."""
    known = [each.data for types in RECORD_TYPES.values() for each in types if each.data not in (None, End)]
    assert len(known) > 20
    for data in known:
        with pytest.raises(UnsupportedWal, match="says nothing of"):
            data.read(bytes(1000), NEXT)


def _teach(place: Compared, monkeypatch: pytest.MonkeyPatch) -> None:
    """What somebody does who has compared a place with the new major, and found it as it was."""
    monkeypatch.setattr(place, "upto", NEXT)
    if place is versions.COMPARED:
        monkeypatch.setitem(versions.FORMATS, NEXT, FORM)
        monkeypatch.setitem(versions._BY_MAGIC, MAGIC, FORM)
    if place is control_file.COMPARED:
        monkeypatch.setitem(control_file._MAJOR_OF_CATALOG, CATALOG_VERSION, NEXT)


def _pretend(case: Case) -> None:
    """Make the cluster one of the pretended major: nothing but its numbers is another."""
    for file in case.wal_dir.glob("[0-9A-F]" * 24):
        pages = np.frombuffer(file.read_bytes(), "<u2").reshape(-1, PAGE_SIZE // 2).copy()
        pages[pages[:, 0] == versions.FORMATS[NEWEST].page_magic, 0] = MAGIC
        file.write_bytes(pages.tobytes())
    file = case.data_dir / "global/pg_control"
    data, layout = file.read_bytes(), CONTROL_FILE[NEWEST]
    says = layout.read(data) | {"catalog_version": CATALOG_VERSION}
    says["crc"] = int(crc32c(layout.write(says)[: layout.at("crc")]))
    file.write_bytes(layout.write(says) + data[layout.size :])


def test_capabilities_are_of_majors() -> None:
    assert [major for major in MAJORS if supports(major, Capability(16))] == [16, 17, 18]
    assert [[major for major in MAJORS if supports(major, Capability.of(text))] for text in ("16-", "-15", "16", "15-17")] == [
        [16, 17, 18], [14, 15], [16], [15, 16, 17],
    ]  # fmt: skip
    assert all(supports(major, Capability.of(text)) for text in ("", "-") for major in MAJORS)
    assert supports(14, IN_ALL)
    assert [said_by(major, {14: "old", 17: "new"}) for major in (14, 16, 17, 18)] == ["old", "old", "new", "new"]
