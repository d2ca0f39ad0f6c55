"""Programs that others wrote, fetched into the cache and built there with a few lines of ours around them.

In: a folder of the tests with those lines, and how they are built. Out: that folder in the cache, made once for its sources.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from tailrace.storage.file_lock import FileLock

SECONDS = 600


class MissingProgram(RuntimeError):
    """A program cannot be had; the message names what is missing."""


def needed(program: str, what: str) -> str:
    """Where it is. Raises MissingProgram, which says `what` cannot be built or run without it."""
    found = shutil.which(program)
    if found is None:
        raise MissingProgram(f"{program} is missing: {what} cannot be built or run")
    return found


def made(sources: Path, make: Callable[[Path], None], also: str = "") -> Path:
    """The folder in the cache, made for these sources, and what `also` matters: beside its place, and put there in one step, since two may
    race."""
    seed = hashlib.sha256(also.encode())
    for path in sorted(each for each in sources.iterdir() if each.is_file()):
        seed.update(path.name.encode() + path.read_bytes())
    home = _cache() / f"{sources.name}-{seed.hexdigest()[:16]}"
    if home.exists():
        return home
    home.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock.wait(home.parent / f"{home.name}.lock")  # it may take minutes, and tests run in several processes
    try:
        if home.exists():
            return home
        with tempfile.TemporaryDirectory(dir=home.parent, prefix=f"{sources.name}-") as scratch:
            here = Path(scratch, "made")
            shutil.copytree(sources, here)
            make(here)
            try:
                here.rename(home)
            except OSError:
                if not home.exists():
                    raise
    finally:
        lock.release()
    return home


def run(directory: Path, *words: str) -> None:
    """Raises MissingProgram with the end of what it said."""
    ran = subprocess.run(words, cwd=directory, capture_output=True, text=True, timeout=SECONDS, check=False)
    if ran.returncode:
        raise MissingProgram(f"`{' '.join(words)}` failed: {(ran.stderr or ran.stdout).strip()[-2000:]}")


def _cache() -> Path:
    chosen = os.environ.get("TAILRACE_PARSER_CACHE")
    return Path(chosen) if chosen else Path(__file__).parents[2] / ".cache" / "parsers"
