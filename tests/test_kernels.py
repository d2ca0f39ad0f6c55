"""Compiled kernels are kept by what they are made of: found again wherever the sources lie, and never run after what they call has changed."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tailrace.kernels import _PORTABLE_FEATURES, PORTABLE, inner_kernel, kernel

PACKAGE = {
    "tailrace_sample/__init__.py": "",
    "tailrace_sample/limits.py": "LIMIT = 7\nUNUSED = 1\n",
    "tailrace_sample/inner.py": "from tailrace.kernels import kernel\nSTEP = 1\n@kernel\ndef step(x):\n    return x + STEP\n",
    "tailrace_sample/outer.py": (
        "from tailrace.kernels import kernel\nfrom tailrace_sample.inner import step\nFACTOR = 10\n"
        '@kernel\ndef outer(x):\n    """Words."""\n    return step(x) * FACTOR\n'
    ),
}
RUN = (
    "from tailrace import kernels\n"
    "told = []\nkernels.before_compiling.append(lambda: told.append(1))\n"
    "from tailrace_sample.outer import outer\n"
    "print(outer(4), sum(outer._cache_misses.values()), len(told))\n"
)


@pytest.fixture
def run(tmp_path: Path):
    """Run `outer(4)` from a package below a folder, with one cache for all: (result, kernels compiled, times told)."""

    def run(where: str, **changed: str) -> tuple[int, ...]:
        root = tmp_path / where
        for name, text in PACKAGE.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(changed.get(path.stem, text))
        # A source that changes within a second, and keeps its length, would be read from the bytecode of before.
        environment = dict(os.environ, TAILRACE_KERNELS=str(tmp_path / "kernels"), PYTHONDONTWRITEBYTECODE="1")
        environment["PYTHONPATH"] = os.pathsep.join([str(root), *filter(None, [os.environ.get("PYTHONPATH")])])
        done = subprocess.run([sys.executable, "-c", RUN], env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return tuple(map(int, done.stdout.split()))

    return run


def test_a_kernel_is_found_again_from_another_folder(run) -> None:
    assert run("here") == (50, 1, 1)
    assert run("here") == (50, 0, 0)
    assert run("there") == (50, 0, 0)


def test_words_about_a_kernel_do_not_compile_it_again(run) -> None:
    run("here")
    assert run("here", outer="# a comment\n\n" + PACKAGE["tailrace_sample/outer.py"].replace("Words.", "Other words.")) == (
        50,
        0,
        0,
    )


@pytest.mark.marathon
def test_a_kernel_is_compiled_again_when_what_it_calls_has_changed(run) -> None:
    run("here")
    assert run("here", inner=PACKAGE["tailrace_sample/inner.py"].replace("x + STEP", "x - STEP")) == (30, 1, 1)
    assert run("here", inner=PACKAGE["tailrace_sample/inner.py"].replace("STEP = 1", "STEP = 2")) == (60, 1, 1)
    assert run("here", outer=PACKAGE["tailrace_sample/outer.py"].replace("= 10", "= 100")) == (500, 1, 1)


def test_a_damaged_file_is_compiled_again(run, tmp_path: Path) -> None:
    run("here")
    for path in (tmp_path / "kernels").iterdir():
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    assert run("here") == (50, 1, 1)
    for path in (tmp_path / "kernels").iterdir():
        path.write_bytes(b"")
    assert run("here") == (50, 1, 1)
    assert run("here") == (50, 0, 0)


def test_what_cannot_be_told_apart_is_refused(run) -> None:
    with pytest.raises(RuntimeError, match="whose changes would go unnoticed"):
        run("here", outer=PACKAGE["tailrace_sample/outer.py"].replace("FACTOR = 10", "FACTOR = object()"))


def test_kernels_that_check_bounds_are_kept_apart(run, monkeypatch: pytest.MonkeyPatch) -> None:
    """NUMBA_BOUNDSCHECK=1 checks what indexes, reads and copies; code without the checks is not run in its place, nor the other way round."""
    reads = (
        "import numpy as np\nfrom tailrace.kernels import kernel\nfrom tailrace.memcpy import memcpy\nfrom tailrace.wal.unaligned import u32\n"
        "@kernel\ndef read(x, at):\n    return u32(x, at)\n"
        "@kernel\ndef copy(x, at):\n    memcpy(x, 0, x, at, 4)\n"
        "def caught(way, at):\n    try:\n        way(np.zeros(8, np.uint8), at)\n    except IndexError:\n        return 1\n    return 0\n"
        "def outer(x):\n    return sum(caught(way, at) for way in (read, copy) for at in (-1, 4, 5))\n"
        "outer._cache_misses = read._cache_misses\n"
    )
    monkeypatch.setenv("NUMBA_BOUNDSCHECK", "1")
    assert run("here", outer=reads) == (4, 1, 1)
    assert run("here", outer=reads) == (4, 0, 0)
    assert run("here")[1] == 1
    monkeypatch.delenv("NUMBA_BOUNDSCHECK")
    assert run("here") == (50, 1, 1)
    monkeypatch.setenv("NUMBA_BOUNDSCHECK", "1")
    assert run("here") == (50, 0, 0)


ELSEWHERE = (
    "from pathlib import Path\nfrom tailrace import kernels\nkernels.COMPILED = Path({folder!r})\n"
    "host = kernels.binding.get_host_cpu_features()\nhost.update({features})\n"
    "kernels.binding.get_host_cpu_features = lambda: host\n"
)


@pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64"), reason="kernels come along for x86-64 alone")
def test_kernels_of_the_wheel_run_where_the_processor_has_what_they_ask_for(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """On one without AVX2, or where Numba was told of another processor, each is compiled for what is there."""
    for name, value in zip(("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"), PORTABLE, strict=True):
        monkeypatch.setenv(name, value)
    assert run("here") == (50, 1, 1)
    (tmp_path / "kernels").rename(tmp_path / "wheel")
    for name in ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"):
        monkeypatch.delenv(name)
    settings = {"folder": str(tmp_path / "wheel")}
    outer = PACKAGE["tailrace_sample/outer.py"]
    new = ELSEWHERE.format(**settings, features=dict.fromkeys(_PORTABLE_FEATURES, True))
    assert run("here", outer=new + outer) == (50, 0, 0)
    old = ELSEWHERE.format(**settings, features={"avx2": False})
    assert run("here", outer=old + outer) == (50, 1, 1)
    assert run("here", outer=old + outer) == (50, 0, 0)
    (tmp_path / "kernels").rename(tmp_path / "of an old one")
    (tmp_path / "wheel").rename(tmp_path / "kernels")  # as `make` puts them into the user's cache
    new = ELSEWHERE.format(folder="nowhere", features=dict.fromkeys(_PORTABLE_FEATURES, True))
    assert run("here", outer=new + outer) == (50, 0, 0)
    monkeypatch.setenv("NUMBA_CPU_NAME", "generic")
    assert run("here", outer=new + outer) == (50, 1, 1)


def test_what_another_folder_has_is_not_compiled_again(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The build of the wheel takes what `make` has compiled, and it is whole without that."""
    assert run("here") == (50, 1, 1)
    (tmp_path / "kernels").rename(tmp_path / "others")
    monkeypatch.setenv("TAILRACE_KERNELS_FROM", str(tmp_path / "others"))
    assert run("here") == (50, 0, 0)
    monkeypatch.delenv("TAILRACE_KERNELS_FROM")
    assert run("here") == (50, 0, 0)


@pytest.mark.parametrize("processor", ["generic", "x86-64-v2", "x86-64-v3"])
def test_checksums_are_computed_on_every_processor(processor: str, tmp_path: Path) -> None:
    """One without the instruction for them, as Numba may be told, takes a table."""
    environment = dict(os.environ, TAILRACE_KERNELS=str(tmp_path), NUMBA_CPU_NAME=processor, NUMBA_CPU_FEATURES="")
    program = "from tailrace.wal.crc import crc32c; print(hex(crc32c(b'123456789')))"
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("0xe3069283\n", "")


ALLOCATES = """
import sys
import numpy as np
from tailrace.kernels import kernel
@kernel
def counted(n):
    found = []
    for i in range(n):
        found.append(i)
    return np.full(len(found), 2)
def outer(x):
    kept = counted(x)
    assert after is None or "numba.np.arrayobj" not in sys.modules
    return int(kept.sum()) if after is None else int(after(x))
after = None
outer._cache_misses = counted._cache_misses
"""


def test_what_is_loaded_and_what_is_compiled_then_go_together(run) -> None:
    """What is loaded leaves alone what compiles. A kernel that is compiled after it, calls it, and calls of Numba what it calls, does as always."""
    assert run("here", outer=ALLOCATES) == (8, 1, 1)
    assert run("here", outer=ALLOCATES) == (8, 0, 0)
    then = (
        "@kernel\ndef after(n):\n    found = [1]\n    found.append(n)\n    return counted(n).sum() + np.full(len(found), n)[1]\n"
    )
    assert run("here", outer=ALLOCATES.replace("after = None\n", then)) == (12, 0, 1)
    assert run("here", outer=ALLOCATES.replace("after = None\n", then)) == (12, 0, 0)


ROOMS = """
from typing import NamedTuple
import numpy as np
from tailrace.kernels import inner_kernel, kernel
class Room(NamedTuple):
    first: np.ndarray
    second: np.ndarray
@inner_kernel
def note(room, at):
    room.second[at] = room.first[at] + 1
    return room.second[at]
@kernel
def fill(room):
    return note(room, 0)
def outer(x):
    return int(fill(Room(np.full(2, x), np.full(2, 100))))
outer._cache_misses = fill._cache_misses
"""


@pytest.mark.marathon
def test_a_named_room_is_told_apart_by_its_fields(run) -> None:
    """Fields of one type that change places: Numba's name of the type is the same, the code is not."""
    assert run("here", outer=ROOMS) == (5, 1, 1)
    assert run("here", outer=ROOMS) == (5, 0, 0)
    swapped = ROOMS.replace("first: ", "third: ").replace("second: ", "first: ").replace("third: ", "second: ")
    assert run("here", outer=swapped) == (101, 1, 1)
    assert run("here", outer=ROOMS.replace("@inner_kernel", "@kernel")) == (5, 1, 1)


@pytest.mark.marathon
def test_a_named_room_may_move_to_another_module(run) -> None:
    """The kernel is the same, but what was kept names the room where it was."""
    assert run("here", outer=ROOMS) == (5, 1, 1)
    start, stop = ROOMS.index("class Room"), ROOMS.index("@inner_kernel")
    head = ROOMS[:start]
    moved = f"{head}from tailrace_sample import limits\n{ROOMS[stop:].replace('Room(', 'limits.Room(')}"
    assert run("here", outer=moved, limits=head + ROOMS[start:stop]) == (5, 1, 1)
    assert run("here", outer=moved, limits=head + ROOMS[start:stop]) == (5, 0, 0)


def test_a_kernel_is_compiled_alike_whoever_calls_it_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba takes options that are not set from the kernel that is being compiled; the key of the cache would not tell."""
    monkeypatch.setenv("TAILRACE_KERNELS", str(tmp_path))

    @kernel
    def first(array):
        return array[0]

    @inner_kernel
    def through(array):
        return first(array)

    @kernel
    def outer(array):
        return through(array)

    alone = kernel(first.py_func)
    assert (outer(np.ones(1)), alone(np.ones(1))) == (1.0, 1.0)
    options = [{tuple(each.fndesc.abi_tags) for each in compiled.overloads.values()} for compiled in (first, alone, through)]
    assert options[0] == options[1] != options[2]
