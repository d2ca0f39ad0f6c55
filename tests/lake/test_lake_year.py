"""A year of small commits, shortened: neither what a commit costs nor what lies in the store grows, and the table holds what was committed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks/lake_year.py"


@pytest.mark.parametrize("maintained", [True, pytest.param(False, marks=pytest.mark.marathon)])
def test_a_short_year(tmp_path: Path, maintained: bool) -> None:
    """In a process of its own, whose clock is moved. Without maintenance it is seen that it grows."""
    script = (
        f"import sys; sys.path.insert(0, {str(BENCHMARK.parent)!r}); import lake_year; from pathlib import Path\n"
        f"parts = lake_year.simulate(Path({str(tmp_path)!r}), {160 if maintained else 64}, parts=4, rows=300, retained=20, maintained={maintained})\n"
        "print(parts)\nsys.exit(0 if lake_year.is_bounded(parts) else 3)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=90)
    assert (ran.returncode, ran.stderr) == (0 if maintained else 3, ""), ran.stdout
