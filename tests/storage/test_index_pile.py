"""Indexes between the passes: what is beyond memory lies in a folder that goes with its pile, or, if its process was killed, with the next one's."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from support.cases import open_case
from tailrace.pipeline import LocalRunner, Scanning, Source, scan_log
from tailrace.storage.index_pile import IndexPile
from tailrace.storage.scratch_folder import scratch_folder

KILLED = """
import os, signal, tempfile
from pathlib import Path
from tailrace.storage.scratch_folder import ScratchFolder
folder = ScratchFolder(Path(tempfile.gettempdir()), "tailrace-indexes-")
(folder.path / "0.index").write_text("left")
print(folder.path, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_folder_of_a_killed_process_goes_with_the_next_that_needs_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    killed = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, check=False)
    left = Path(killed.stdout.strip())
    assert (left / "0.index").exists()

    case = open_case("xact", 16, "with_slot", tmp_path / "case")
    indexes = scan_log(Source.open(case.data_dir).segments, LocalRunner(), None, Scanning(1 << 16))
    sealed = [part for part in indexes if part.sealed]
    assert sealed
    pile = IndexPile(in_memory=0)
    for part in sealed:
        pile.put(part)
    folders = list(tmp_path.glob("tailrace-indexes-*"))
    assert not left.exists()
    assert len(folders) == 1
    assert [pile.read(number).stretch for number in range(len(pile))] == [part.stretch for part in sealed]
    other = IndexPile(in_memory=0)
    other.put(sealed[0])
    assert folders[0].exists(), "a living pile's folder is not taken for an abandoned one"
    del pile, other
    assert not list(tmp_path.glob("tailrace-indexes-*"))


def test_what_is_no_folder_is_left_alone(tmp_path: Path) -> None:
    """Where all share a temporary folder, a link or a file may have such a name: to lock it would follow the link, or make a file."""
    link, file = tmp_path / "scratch-link", tmp_path / "scratch-file"
    link.symlink_to(tmp_path / "elsewhere")
    file.write_text("somebody's")
    with scratch_folder(tmp_path, "scratch-") as folder:
        assert folder.is_dir()
    assert (link.is_symlink(), file.read_text(), (tmp_path / "elsewhere").exists()) == (True, "somebody's", False)
