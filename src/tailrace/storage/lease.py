"""Who reads which copies in the spool: a file per reader, locked for as long as the reader's process lives.

The system lets go of the lock when the process ends, however that happens, so a dead reader holds nothing. A plan of Spark's is made in one process
and carried out in others; such a lease lasts, besides, until the time that its file carries.
"""

from __future__ import annotations

import fcntl
import os
import time
import uuid
import weakref
from contextlib import suppress
from dataclasses import field
from pathlib import Path

from tailrace.dataclass import dataclass

_SUFFIX = ".lease"


@dataclass(slots=True, weakref_slot=True)
class Lease:
    """Copies from `first` on (a place, as `place_of_name` gives it) are not removed while this object lives."""

    path: Path
    first: str
    end: weakref.finalize = field(init=False, repr=False)
    """Called, it gives up the lease at once."""

    @classmethod
    def take(cls, home: Path, first: str, lasting: float = 0) -> Lease:
        """A new lease in `home`, for `lasting` seconds at least. Whoever calls it holds the lock of `home`."""
        lease = cls(home / f"{first}.{uuid.uuid4().hex}{_SUFFIX}", first)
        file = os.open(lease.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(file, fcntl.LOCK_EX)
        until = time.time() + lasting
        os.utime(file, (until, until))
        lease.end = weakref.finalize(lease, _end, file, lease.path, os.getpid(), bool(lasting))
        return lease


def _end(file: int, path: Path, owner: int, lasts: bool) -> None:
    if os.getpid() == owner and not lasts:
        with suppress(OSError):
            path.unlink()
    os.close(file)


def is_lease(path: Path) -> bool:
    return path.suffix == _SUFFIX


def first_leased(home: Path) -> str | None:
    """The first place that anybody holds, None if nobody holds one; leases of the dead are removed. Whoever calls it holds the lock of
    `home`."""
    held = []
    for path in home.glob(f"*{_SUFFIX}"):
        with suppress(FileNotFoundError):
            if path.stat().st_mtime > time.time() or _is_locked(path):
                held.append(path.name[:16])
            else:
                path.unlink()
    return min(held, default=None)


def _is_locked(path: Path) -> bool:
    with path.open("r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
