"""All that is recorded, and damage of every kind, with kernels that check their bounds (NUMBA_BOUNDSCHECK=1), in processes of their own.

`make bounds` runs some of it; here is the rest. Of catalogs with twenty thousand tables: `tests/catalog/test_churn.py`.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.marathon

TESTS = Path(__file__).parent
CHECKED = (
    "test_golden.py", "test_hostile.py", "wal", "catalog", "decode", "tuples", "types", "logicalproto", "plugins", "expressions", "transactions",
    "plan", "slots", "storage",
)  # fmt: skip
QUICK = "not spark and not matrix and not soak and not marathon"
TRIALS = 2000


def _run(*words: object) -> str:
    """What it prints, if it ends well."""
    paths = os.pathsep.join([str(TESTS), *sys.path])
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "PYTHONPATH": paths}
    done = subprocess.run([sys.executable, *map(str, words)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-2000:]
    return done.stdout


def test_kernels_are_compiled_with_checks() -> None:
    """A canary: what is asked for here would be noticed."""
    said = _run(
        "-c",
        "import numpy as np\nfrom tailrace.plugins.commit_order import expanded\nzeros = np.zeros(1, np.int64)\n"
        "try: expanded(zeros, zeros + 2, 1)\nexcept IndexError: print('checked')",
    )
    assert said == "checked\n"


@pytest.mark.parametrize("part", CHECKED)
def test_all_there_is(part: str) -> None:
    print(_run("-m", "pytest", "-q", "-n", "2", "-m", QUICK, "-p", "no:cacheprovider", TESTS / part))


def test_damage() -> None:
    """Of logs, catalogs, indexes, states; of records whose checksum fits."""
    seed = random.randrange(10**6)
    print(_run(TESTS / "hostile.py", "--trials", TRIALS, "--seed", seed))
