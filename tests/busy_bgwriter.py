"""Tests run on servers whose background writer logs the running transactions after each write, and not every 15 s.

    python tests/busy_bgwriter.py make test

A server writes such a record by itself (`BackgroundWriterMain`), so one comes between any two steps of a test now and then: a test that counts on
a log where nothing happens fails once in a hundred times. Here it fails each time. In the programs of the builds the interval is another constant
while the command runs, and the files are put back at its end.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from support.builds import Build, MissingBuild, find_build

LOG_SNAPSHOT_INTERVAL = (15_000_000).to_bytes(4, "little")
"""Microseconds, as the compiler has it of LOG_SNAPSHOT_INTERVAL_MS (`postmaster/bgwriter.c`)."""
HERE = (20_000).to_bytes(4, "little")


def main(words: list[str]) -> int:
    if not words:
        print(__doc__, file=sys.stderr)
        return 2
    with ExitStack() as stack:
        for program in {build.home / "bin" / "postgres" for build in _builds()}:
            stack.enter_context(_writing(program))
        return subprocess.run(words, check=False).returncode


def _builds() -> Iterator[Build]:
    for major in (14, 15, 16, 17, 18):
        for test_decoding in (True, False):
            try:
                yield find_build(major, test_decoding=test_decoding)
            except MissingBuild as error:
                print(f"not of {major}: {error}", file=sys.stderr)


@contextmanager
def _writing(program: Path) -> Iterator[None]:
    """Put in its place in one step: somebody may run it."""
    kept = program.with_name("postgres.kept")
    if kept.exists():  # by one that was killed
        os.replace(kept, program)
    code = program.read_bytes()
    if code.count(LOG_SNAPSHOT_INTERVAL) != 1:
        raise SystemExit(f"the interval is not once in {program}")
    shutil.copy2(program, kept)
    changed = program.with_name("postgres.changed")
    changed.write_bytes(code.replace(LOG_SNAPSHOT_INTERVAL, HERE))
    shutil.copystat(program, changed)
    os.replace(changed, program)
    try:
        yield
    finally:
        os.replace(kept, program)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
