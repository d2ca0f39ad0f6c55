"""Temporary files in memory, where a machine has enough of it: most of what tests do to a disk is to copy clusters and take them away again, and some
file systems take a second for each."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil  # type: ignore[import-untyped]

_SHARED_MEMORY = Path("/dev/shm")
_LEAST_FREE, _LEAST_AVAILABLE = 6 << 30, 12 << 30
"""Bytes that must be free there, and in memory: what tests keep at once is a few hundred megabytes, what Spark and they themselves take is more."""


def memory_folder() -> Path | None:
    """A new folder, which the caller removes, for temporary files of this process and of those that it starts; None where there is no room, or TMPDIR
    says where they are to be."""
    if "TMPDIR" in os.environ or not _has_room():
        return None
    folder = Path(tempfile.mkdtemp(prefix="tailrace-tests-", dir=_SHARED_MEMORY))
    folder.chmod(0o711)  # servers are of another user
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    return folder


@contextmanager
def in_memory() -> Iterator[None]:
    """Temporary files of a program lie there while it runs, if they can."""
    folder = memory_folder()
    try:
        yield
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _has_room() -> bool:
    try:
        there = os.statvfs(_SHARED_MEMORY)
    except OSError:
        return False
    mounted = {each.mountpoint: each.fstype for each in psutil.disk_partitions(all=True)}
    return (
        mounted.get(str(_SHARED_MEMORY)) == "tmpfs"
        and there.f_bavail * there.f_frsize >= _LEAST_FREE
        and psutil.virtual_memory().available >= _LEAST_AVAILABLE
    )
