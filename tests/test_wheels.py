"""`make wheels` goes on where a wheel cannot be made, and says which and why."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("wheels", ROOT / "tools/wheels.py")
assert SPEC is not None
assert SPEC.loader is not None
wheels = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(wheels)
NO_VENV = "#!/bin/sh\necho 'Error: ensurepip is not available: apt install python3.12-venv' >&2\nexit 1\n"

BROKEN = {
    "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "broken"\nbackend-path = ["."]\n',
    "broken.py": "def build_wheel(*arguments):\n    raise SystemExit('no numba for this Python')\n",
}


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (None, "CPython 3.12: not on this machine"),
        (NO_VENV, "CPython 3.12: no wheel: python -m venv {home} failed\n    Error: ensurepip is not available: apt install python3.12-venv"),
    ],
)  # fmt: skip
def test_a_wheel_that_cannot_be_made_is_named(
    script: str | None, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    if script:
        python.write_text(script)
        python.chmod(0o755)
    monkeypatch.setattr(wheels, "interpreter", lambda minor: str(python) if script else None)
    said = wheels.for_minor(12, tmp_path / "none.tar.gz", tmp_path / "none.whl", tmp_path, tmp_path)
    assert said == expected.format(home=tmp_path / "3.12")


@pytest.mark.soak
def test_a_source_that_pip_cannot_build_is_told_of_in_its_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheels, "interpreter", lambda minor: sys.executable)
    source = tmp_path / "tailrace-0.tar.gz"
    with tarfile.open(source, "w:gz") as archive:
        for name, text in BROKEN.items():
            (tmp_path / name).write_text(text)
            archive.add(tmp_path / name, f"tailrace-0/{name}")
    said = wheels.for_minor(sys.version_info.minor, source, tmp_path / "none.whl", tmp_path, tmp_path).splitlines()
    assert said[0] == f"CPython 3.{sys.version_info.minor}: no wheel: python -m pip wheel failed"
    assert any("no numba for this Python" in line for line in said[1:]), said


def test_what_compiles_the_kernels_knows_its_own_checkout(tmp_path: Path) -> None:
    """Where a wheel is built nothing of ours is installed: neither the package nor the recorded cases."""
    program = f"import runpy; runpy.run_path({str(ROOT / 'tools/compile_kernels.py')!r}, run_name='compile_kernels')"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
