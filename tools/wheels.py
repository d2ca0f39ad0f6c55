"""Build the source distribution and a wheel for each CPython that this machine has, and try each: `python tools/wheels.py [FOLDER]` (`dist`).

A wheel with compiled kernels fits one minor version of CPython on x86-64. The one that fits all, `py3-none-any`, compiles them at first use: pip
takes it on aarch64 and elsewhere. What could not be made is said, and is no failure; what was made and does not decode is one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
MINORS = (11, 12, 13, 14)
TRIAL = """
import sys, tailrace
from tailrace.plugins.printing import print_rows
from tailrace.plugins.registry import plugin_named
plugin = plugin_named("test_decoding")
plugin.startup({}, 16)
pipeline = tailrace.open(sys.argv[1], "app", start_lsn=sys.argv[2], demand=plugin.demand)
for lines in pipeline.lines(plugin):
    sys.stdout.buffer.write(print_rows(lines.lsn, lines.xid, lines.texts.offsets, lines.texts.data))
"""


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tailrace-wheels-") as place:
        run(sys.executable, "-m", "venv", f"{place}/builder")
        builder = f"{place}/builder/bin/python"
        run(builder, "-m", "pip", "install", "--quiet", "build>=1.2")
        run(builder, "-m", "build", "--sdist", "--outdir", f"{place}/sdist", ROOT)
        (source,) = Path(place, "sdist").glob("*.tar.gz")
        kept = shutil.copy(source, folder)
        told(source.name, Path(kept))
        run(builder, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, source, HATCH_BUILD_NO_HOOKS="true")
        told("any Python, kernels compiled at first use", next(folder.glob("*-py3-none-any.whl")))
        for minor in MINORS:
            python = interpreter(minor)
            if python is None:
                print(f"CPython 3.{minor}: not on this machine")
                continue
            home = Path(place, f"3.{minor}")
            run(python, "-m", "venv", home)
            pip = (str(home / "bin/python"), "-m", "pip", "--disable-pip-version-check")
            run(*pip, "wheel", "--quiet", "--no-deps", "-w", folder, source)
            found = list(folder.glob(f"*-cp3{minor}-*.whl"))
            if not found:
                print(f"CPython 3.{minor}: this machine is no x86-64, so its wheel is the one for any Python")
                continue
            run(*pip, "install", "--quiet", found[0])
            decodes(home, Path(place, f"case{minor}"))
            told(f"CPython 3.{minor}", found[0])


def interpreter(minor: int) -> str | None:
    """A Python of that version that starts: on the PATH, or one of pyenv's."""
    others = sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python3"))
    for each in (shutil.which(f"python3.{minor}"), *map(str, reversed(others))):
        if each and not subprocess.run([each, "-c", "import venv, ssl"], capture_output=True, check=False).returncode:
            return each
    return None


def decodes(home: Path, place: Path) -> None:
    """A recorded case, as the server's own decoder has it. The case is unpacked by this Python: the other has the wheel alone."""
    sys.path.insert(0, str(ROOT / "tests"))
    from support.cases import open_case  # noqa: PLC0415

    case = open_case("xact", 16, "with_slot", place)
    done = subprocess.run(
        [home / "bin/python", "-c", TRIAL, case.data_dir, case.meta["start_lsn"]], cwd=place, env=environment(),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.stdout != case.expected:
        sys.exit(f"{home.name}: what the wheel prints is not what the server printed\n{done.stderr}")


def environment(**more: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))} | more


def run(*words: object, **more: str) -> None:
    subprocess.run(list(map(str, words)), env=environment(**more), check=True, stdout=subprocess.DEVNULL)


def told(what: str, file: Path) -> None:
    print(f"{what}: {file.name}, {file.stat().st_size / 1e6:.1f} MB", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "dist"))
