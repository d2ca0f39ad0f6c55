"""Wheel and source distribution are built as anybody would build them. Then each extra alone: the wheel is installed where nothing is but what it and
that extra ask for; there it must work.

    python tests/extras.py [EXTRA...]

The environments are made of links to what this one has (which the lock has pinned), so that they cost no network and hardly any time; which packages
an extra brings is read from the wheel's own metadata. `pip check` agrees, or it is a failure.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

sys.path.insert(0, str(Path(__file__).parent))

from support.cases import Case, open_case
from support.linked_packages import link
from support.memory_folder import in_memory

ROOT = Path(__file__).parents[1]
SOURCE_BYTES, WHEEL_BYTES = 3_000_000, 12_000_000
"""What they may have at most; of the wheel two thirds are compiled kernels."""


def main(wanted: list[str]) -> None:
    began = time.monotonic()
    with in_memory(), tempfile.TemporaryDirectory(prefix="tailrace-extras-") as folder:
        place = Path(folder)
        wheel, universal = _wheels(place)
        _told("the wheel is built", began)
        case = open_case("xact", 16, "with_slot", place / "case")
        for name, (extras, trials) in EXTRAS.items():
            if not wanted or name in wanted:
                home = Home.made(place / name, universal if name == UNIVERSAL else wheel, extras)
                for trial in trials:
                    trial(home, case)
                _told(f"{name}: {len(trials)} trials", began)


def _told(what: str, began: float) -> None:
    print(f"{time.monotonic() - began:4.0f} s  {what}", flush=True)


def _wheels(place: Path) -> tuple[Path, Path]:
    """As `python -m build` makes it in a new environment that has nothing else: from the source distribution, which knows no checkout. What it is
    built with is what the lock has pinned, so that kernels fit the environments below. And the one for any Python, without kernels."""
    home, built = place / "builder", place / "dist"
    venv.create(home, symlinks=True, with_pip=True)
    pinned = place / "constraints.txt"
    pinned.write_text("\n".join(re.findall(r"^[\w.-]+==[\w.+-]+", (ROOT / "requirements.lock").read_text(), re.MULTILINE)))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    kept |= {"PIP_CONSTRAINT": str(pinned), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    subprocess.run([home / "bin/python", "-m", "pip", "install", "--quiet", "build>=1.2"], env=kept, check=True)
    subprocess.run([home / "bin/python", "-m", "build", "--outdir", built, ROOT], env=kept, check=True, stdout=subprocess.DEVNULL)
    (source,), (wheel,) = built.glob("*.tar.gz"), built.glob("*.whl")
    _check_size(source, SOURCE_BYTES)
    _check_size(wheel, WHEEL_BYTES)
    subprocess.run(
        [home / "bin/python", "-m", "build", "--wheel", "--outdir", place / "bare", ROOT],
        env=kept | {"HATCH_BUILD_NO_HOOKS": "true"}, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    (bare,) = (place / "bare").glob("*.whl")
    assert _modules(bare) == _modules(wheel), "the source distribution and the checkout give different wheels"
    assert bare.name.endswith("-py3-none-any.whl"), bare.name
    return wheel, bare


def _check_size(file: Path, most: int) -> None:
    size = file.stat().st_size
    print(f"{file.name}: {size / 1e6:.1f} MB", flush=True)
    assert size <= most, f"{file.name} has grown beyond {most / 1e6:.0f} MB"


def _modules(wheel: Path) -> dict[str, int]:
    """The files in it but for compiled kernels and the wheel's own tag: their checksums."""
    with zipfile.ZipFile(wheel) as archive:
        return {
            each.filename: each.CRC
            for each in archive.infolist()
            if "/_compiled/" not in each.filename and not each.filename.endswith(("/WHEEL", "/RECORD"))
        }


@dataclass(frozen=True)
class Home:
    """An environment with the wheel and some of its extras."""

    path: Path

    @classmethod
    def made(cls, path: Path, wheel: Path, extras: tuple[str, ...]) -> Home:
        venv.create(path, symlinks=True, with_pip=False)
        (site,) = path.glob("lib/python*/site-packages")
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", str(path)]
        subprocess.run([*pip, "install", "--no-deps", "--no-index", str(wheel)], check=True)
        (found,) = site.glob("tailrace-*.dist-info")
        for each in _closure(PathDistribution(found), extras, set()):
            link(each, site)
        subprocess.run([*pip, "check"], check=True, stdout=subprocess.DEVNULL)
        return cls(path)

    def run(self, *words: object, **environment: str) -> subprocess.CompletedProcess[str]:
        """A program of this environment, which hears nothing of the one that this script runs in."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
        program = self.path / "bin" / str(words[0])
        return subprocess.run(
            [program, *map(str, words[1:])], env=kept | environment, cwd=self.path, capture_output=True, text=True, check=False, timeout=300
        )  # fmt: skip

    def printed(self, *words: object, **environment: str) -> str:
        done = self.run(*words, **environment)
        assert (done.returncode, "Traceback" in done.stderr) == (0, False), f"{words}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def refused(self, message: str, *words: object) -> None:
        """One error on standard error, and nothing else."""
        done = self.run(*words)
        assert (done.returncode, done.stdout, done.stderr) == (1, "", f"tailrace: error: {message}\n"), f"{words}\n{done}"


def _closure(found: Distribution, extras: tuple[str, ...], seen: set[str]) -> Iterator[Distribution]:
    """What it requires, and what that requires."""
    for text in found.requires or ():
        needed = Requirement(text)
        named = canonicalize_name(needed.name)
        if needed.marker and not any(needed.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            continue
        if named == "tailrace":
            yield from _closure(found, tuple(needed.extras), seen)
        elif named not in seen:
            seen.add(named)
            here = distribution(named)
            yield here
            yield from _closure(here, tuple(needed.extras), seen)


# -- what each must do -----------------------------------------------------------------------------------------------------------------------

STATUS = """
from urllib.request import urlopen
from tailrace.cli.status_page import LakeStanding, status_page
with status_page("0", LakeStanding("lake", "app")) as url:
    print(urlopen(url).read().decode())
    print([line for line in urlopen(url + "metrics").read().decode().splitlines() if "lag_bytes 0" in line][0])
"""
BUCKET = """
from tailrace.storage.open_store import open_store
print(open_store("s3://bucket/prefix", {"aws_region": "eu-central-1"}).below("table").url)
"""
TEXT = """
import sys, tailrace
from tailrace.plugins.printing import print_rows
from tailrace.plugins.registry import plugin_named
plugin = plugin_named("test_decoding")
plugin.startup({}, 16)
pipeline = tailrace.open(sys.argv[1], "app", start_lsn=tailrace.Lsn.parse(sys.argv[2]), demand=plugin.demand)
for lines in pipeline.lines(plugin):
    sys.stdout.buffer.write(print_rows(lines.lsn, lines.xid, lines.texts.offsets, lines.texts.data))
"""
SCAN = """
import sys
from tailrace.pipeline.runner import LocalRunner
from tailrace.pipeline.scanning import scan_log
from tailrace.sources.source import Source
print(sum(part.records for part in scan_log(Source.open(sys.argv[1]).segments, LocalRunner(1))))
"""
FRAME = """
import sys
from tailrace.spark.session import session
spark = session("local[1]", quiet=True)
options = {"database": "app", "table": "public.a", "startLsn": sys.argv[2]}
print(spark.read.format("tailrace").options(**options).load(sys.argv[1]).count())
"""
STATEMENT = """
from tailrace import spark as tailrace_spark
query = "SELECT count(*) AS n FROM pg_replication_slots"
print(tailrace_spark.sql(spark, query, source=sys.argv[1], database="app", state=sys.argv[3]).first().n)
"""
"""Behind what makes the frame."""
MIRROR = """
import sys, tailrace
from deltalake import DeltaTable
from tailrace.lake.mirror import mirror
pipeline = tailrace.open(sys.argv[1], "app", start_lsn=tailrace.Lsn.parse(sys.argv[2]))
print(len([table for table in mirror(pipeline, "lake") if DeltaTable(str(table.path)).version() >= 0]))
"""


def decodes(home: Home, case: Case) -> None:
    """With the kernels that came along: none is compiled anew."""
    kept = home.path / "kernels"
    printed = home.printed("python", "-c", TEXT, case.data_dir, case.meta["start_lsn"], TAILRACE_KERNELS=str(kept))
    assert printed == case.expected
    compiled = sorted(path.name for path in kept.glob("*")) if platform.machine() == "x86_64" else []
    assert not compiled, f"the wheel lacks {compiled}"


def compiles(home: Home, case: Case) -> None:
    """Where the kernels that came along do not run, or none came: they are compiled at first use, and found again. Those that scan, since to compile
    what decodes takes minutes."""
    words = ("python", "-c", SCAN, case.data_dir)
    settings = {"TAILRACE_KERNELS": str(home.path / "own"), "NUMBA_CPU_NAME": "generic"}
    records = int(home.printed(*words, **settings))
    assert records > 100
    compiled = {path: path.stat().st_mtime_ns for path in (home.path / "own").iterdir()}
    assert compiled
    assert int(home.printed(*words, **settings)) == records
    assert {path: path.stat().st_mtime_ns for path in (home.path / "own").iterdir()} == compiled


def misses_the_command_line(home: Home, case: Case) -> None:
    home.refused("typer is not installed\nHINT:  pip install 'tailrace[cli]'", "tailrace", "wal", "ls", case.data_dir)


def prints(home: Home, case: Case) -> None:
    words = ("tailrace", "decode", case.data_dir, "--database", "app", "--start-lsn", case.meta["start_lsn"])
    assert home.printed(*words) == case.expected
    assert "sound" in home.printed("tailrace", "wal", "verify", case.data_dir)


def misses_spark(home: Home, case: Case) -> None:
    words = ("tailrace", "decode", case.data_dir, "--database", "app", "--on", "spark")
    home.refused("Spark is not installed\nHINT:  pip install 'tailrace[spark]', or --on local.", *words)


def misses_duckdb(home: Home, case: Case) -> None:
    words = ("tailrace", "sql", case.data_dir, "--database", "app", "--state", home.path / "state", "-c", "SELECT 1")
    home.refused("duckdb is not installed\nHINT:  pip install 'tailrace[sql]'", *words)


def computes(home: Home, case: Case) -> None:
    words = ("tailrace", "sql", case.data_dir, "--database", "app", "--state", home.path / "state", "-At")
    assert home.printed(*words, "-c", "SELECT count(*) FROM pg_replication_slots") == "0\n"


def misses_the_server(home: Home, case: Case) -> None:
    words = ("tailrace", "serve", case.data_dir, "--state", home.path / "state", "--check")
    home.refused("scramp is not installed\nHINT:  pip install 'tailrace[serve]'", *words)


def serves(home: Home, case: Case) -> None:
    assert "slots: none yet" in home.printed("tailrace", "serve", case.data_dir, "--state", home.path / "state", "--check")


def misses_the_demo(home: Home, case: Case) -> None:
    done = home.run("tailrace", "demo")
    assert (done.returncode, done.stdout) == (1, ""), done
    assert done.stderr.startswith("tailrace: error: "), done
    assert "is not installed\nHINT:  pip install 'tailrace[" in done.stderr, done


def mirrors(home: Home, case: Case) -> None:
    assert int(home.printed("python", "-c", MIRROR, case.data_dir, case.meta["start_lsn"])) > 0


def opens_a_bucket(home: Home, case: Case) -> None:
    assert home.printed("python", "-c", BUCKET) == "s3://bucket/prefix/table\n"


def serves_its_status(home: Home, case: Case) -> None:
    lines = home.printed("python", "-c", STATUS).splitlines()
    assert lines[-1] == "tailrace_lake_lag_bytes 0.0", lines


def misses_obstore(home: Home, case: Case) -> None:
    done = home.run("python", "-c", BUCKET)
    assert done.stderr.endswith("ModuleNotFoundError: No module named 'obstore'\n"), done


def reads_a_frame(home: Home, case: Case) -> None:
    changes = sum("\ttable public.a: " in line for line in case.expected.splitlines())
    assert int(home.printed("python", "-c", FRAME, case.data_dir, case.meta["start_lsn"])) == changes


def brings_java(home: Home, case: Case) -> None:
    """Where there is none: nothing on the PATH but what Spark's own scripts call, and its warehouse. A statement of SQL runs in the same session."""
    tools = home.path / "tools"
    tools.mkdir()
    for name in ("bash", "sh", "env", "dirname", "ps", "rm", "chmod"):
        found = next((folder / name for folder in map(Path, ("/usr/bin", "/bin")) if (folder / name).exists()), None)
        if found:
            (tools / name).symlink_to(found)
    changes = sum("\ttable public.a: " in line for line in case.expected.splitlines())
    words = ("python", "-c", FRAME + STATEMENT, case.data_dir, case.meta["start_lsn"], home.path / "state")
    assert home.printed(*words, PATH=str(tools), JAVA_HOME="") == f"{changes}\n0\n"


Trial = Callable[[Home, Case], None]
UNIVERSAL = "any"
EXTRAS: dict[str, tuple[tuple[str, ...], list[Trial]]] = {
    UNIVERSAL: ((), [compiles]),
    "core": ((), [decodes, misses_the_command_line, misses_obstore]),
    "cli": (("cli",), [prints, misses_spark, misses_duckdb, misses_the_demo]),
    "sql": (("sql",), [prints, computes, misses_the_server]),
    "serve": (("serve",), [serves]),
    "delta": (("delta",), [decodes, mirrors]),
    "stores": (("stores",), [opens_a_bucket]),
    "status": (("cli", "delta", "status"), [serves_its_status]),
    "spark": (("spark",), [reads_a_frame]),
    "java": (("spark", "sql", "java"), [brings_java]),
}
"""A name, the extras that are installed, and what is tried; `any` has the wheel for any Python, the others that of this one."""

if __name__ == "__main__":
    main(sys.argv[1:])
