"""The plugin of the guide, in a package of its own: found by its entry point, on the command line and on Spark's executors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.cases import Case, open_case

ROOT = Path(__file__).parents[2]
_ON_EXECUTORS = """
import sys
from tailrace.spark.session import session
spark = session(master="local[2]")
frame = spark.read.format("tailrace").options(source=sys.argv[1], database="app", startLsn=sys.argv[2], plugin="audit", window="16kB")
rows = frame.load()
print("\\n".join(row.data for row in rows.collect()))
"""


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """An environment in which the package can be imported, and nothing of it where the tests are."""
    wheels, site = tmp_path / "wheels", tmp_path / "site"
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", wheels],
        cwd=ROOT / "examples/audit", check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    (wheel,) = wheels.glob("*.whl")
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", site, wheel], check=True)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])}


def test_a_plugin_from_another_package(installed: dict[str, str], tmp_path: Path) -> None:
    case = open_case("xact", 18, "with_slot", tmp_path)
    expected = [row.split("\t") for row in case.expected.splitlines() if "table public.a: " in row]
    told = [json.loads(row.split("\t")[2]) for row in _run(_command(case), installed).splitlines()]
    assert [(each["what"].upper(), str(each["xid"])) for each in told] == [
        (text.split(": ")[1], xid) for _, xid, text in expected
    ]
    refused = subprocess.run([*_command(case), "-o", "nonsense=1"], env=installed, check=False, capture_output=True, text=True)
    assert refused.returncode == 1
    assert 'option "nonsense" is unknown' in refused.stderr
    assert 'output plugin "audit", in the startup callback' in refused.stderr


@pytest.mark.marathon
@pytest.mark.spark
def test_on_executors(installed: dict[str, str], tmp_path: Path) -> None:
    case = open_case("xact", 18, "with_slot", tmp_path)
    told = [json.loads(row.split("\t")[2]) for row in _run(_command(case), installed).splitlines()]
    script = [sys.executable, "-c", _ON_EXECUTORS, str(case.data_dir), case.meta["start_lsn"]]
    rows = [json.loads(row) for row in _run(script, installed).splitlines()]
    assert [row for row in rows if row["table"] == "public.a"] == told
    assert len(rows) > len(told)


def _command(case: Case) -> list[str]:
    return [
        sys.executable, "-m", "tailrace", "decode", str(case.data_dir), "--database", "app", "--plugin", "audit", "--start-lsn",
        case.meta["start_lsn"], "-o", "tables=public.a",
    ]  # fmt: skip


def _run(words: list[str], environment: dict[str, str]) -> str:
    return subprocess.run(words, env=environment, check=True, capture_output=True, text=True).stdout
