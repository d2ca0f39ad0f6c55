"""Build the source distribution and a wheel for each CPython that this machine has, and try each: `python tools/wheels.py [FOLDER]` (`dist`).

A wheel with compiled kernels fits one minor version of CPython on x86-64. The one that fits all, `py3-none-any`, compiles them at first use: pip
takes it on aarch64 and elsewhere. A minor whose wheel could not be made is named, with what pip or venv said, and is no failure; a wheel that was
made and does not decode is one.
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
        try:
            source, universal = for_all(folder, Path(place))
        except NotMade as error:
            sys.exit(f"no source distribution: {error}")
        for minor in MINORS:
            print(for_minor(minor, source, universal, folder, Path(place)), flush=True)


def for_all(folder: Path, place: Path) -> tuple[Path, Path]:
    """The source distribution, and the wheel for any Python."""
    run(sys.executable, "-m", "venv", place / "builder")
    builder = place / "builder/bin/python"
    run(builder, "-m", "pip", "install", "--quiet", "build>=1.2")
    run(builder, "-m", "build", "--sdist", "--outdir", place / "sdist", ROOT)
    (source,) = place.glob("sdist/*.tar.gz")
    kept = Path(shutil.copy(source, folder))
    print(f"source distribution: {size_of(kept)}", flush=True)
    run(builder, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, source, HATCH_BUILD_NO_HOOKS="true")
    universal = next(folder.glob("*-py3-none-any.whl"))
    print(f"any Python, kernels compiled at first use: {size_of(universal)}", flush=True)
    return source, universal


def for_minor(minor: int, source: Path, universal: Path, folder: Path, place: Path) -> str:
    """Its wheel, or the one for any Python, is installed alone and tried; which it was, or why there is none."""
    python = interpreter(minor)
    if python is None:
        return f"CPython 3.{minor}: not on this machine"
    home = place / f"3.{minor}"
    try:
        run(python, "-m", "venv", home)
        pip = (home / "bin/python", "-m", "pip")
        run(*pip, "wheel", "--quiet", "--no-deps", "-w", folder, source)
        own = next(folder.glob(f"*-cp3{minor}-*.whl"), None)
        run(*pip, "install", "--quiet", own or universal)
    except NotMade as error:
        return f"CPython 3.{minor}: no wheel: {error}"
    decodes(home, place / f"case{minor}")
    if own is None:
        return f"CPython 3.{minor}: this machine is no x86-64, so its wheel is the one for any Python"
    return f"CPython 3.{minor}: {size_of(own)}"


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
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return kept | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"} | more


class NotMade(Exception):
    """A program that was called failed: which, and the last that it said."""


def run(*words: object, **more: str) -> None:
    done = subprocess.run(
        list(map(str, words)), env=environment(**more), capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode:
        output = (done.stderr.strip() or done.stdout.strip()).partition(_END_OF_OUTPUT)[0]
        said = [line.strip() for line in output.splitlines()[-_LINES:]]
        raise NotMade("\n    ".join([f"{Path(str(words[0])).name} {' '.join(map(str, words[1:4]))} failed", *filter(None, said)]))


_LINES = 8
_END_OF_OUTPUT = "[end of output]"
"""What pip writes behind it is its opinion about whose fault it is."""


def size_of(file: Path) -> str:
    return f"{file.name}, {file.stat().st_size / 1e6:.1f} MB"


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "dist"))
