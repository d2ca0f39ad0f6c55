"""Tests that need a Spark session run on a newer Spark than the lock's, in an environment that has everything else as this one has it.

    python tests/newest_spark.py [ARGUMENT of pytest...]

The lock has the newest Spark for which there is Delta's own library; this one is the newest that there is. It is fetched once, into the cache.
Without arguments, the tests that `make test` has of Spark run; all that are not of Spark would only run once more.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from importlib.metadata import distributions
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from support.fetched_programs import made, run
from support.linked_packages import link
from support.memory_folder import in_memory

ROOT = Path(__file__).parents[1]
SOURCES = Path(__file__).parent / "newest_spark"
NOT_LINKED = frozenset({"tailrace", "pyspark", "pip", "setuptools"})
SHARE = ("-m", "spark and not matrix and not soak and not marathon", "-n", "2", "--dist", "worksteal", "--timeout", "600")


def main(words: list[str]) -> int:
    with in_memory(), tempfile.TemporaryDirectory(prefix="tailrace-newest-spark-") as folder:
        Path(folder).chmod(0o711)  # servers are of another user
        home = _environment(Path(folder, "venv"))
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "VIRTUAL_ENV", "SPARK_", "PYSPARK_"))
        }
        print(
            subprocess.run(
                [home, "-c", "import pyspark; print('Spark', pyspark.__version__)"],
                env=kept,
                check=True,
                capture_output=True,
                text=True,
            ).stdout,
            flush=True,
        )
        return subprocess.run(
            [home, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(words or SHARE)], env=kept, cwd=ROOT, check=False
        ).returncode


def _environment(path: Path) -> Path:
    """Its Python."""
    fetched = made(SOURCES, _fetch)
    venv.create(path, symlinks=True, with_pip=False)
    (site,) = path.glob("lib/python*/site-packages")
    for each in distributions(path=[str(fetched / "lib")]):
        link(each, site)
    for each in distributions():
        if each.name.lower() not in NOT_LINKED:
            link(each, site)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", str(path)]
    subprocess.run([*pip, "install", "--no-deps", "--no-build-isolation", "-e", str(ROOT)], check=True)
    subprocess.run([*pip, "check"], check=True, stdout=subprocess.DEVNULL)
    return path / "bin/python"


def _fetch(home: Path) -> None:
    words = ("--no-deps", "--require-hashes", "--target", "lib", "-r", "requirements.txt")
    run(home, sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
