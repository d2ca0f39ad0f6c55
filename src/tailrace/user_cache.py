"""A folder of the user's own for what can be made again: compiled kernels, copies of segments, indexes."""

from __future__ import annotations

import os
import tempfile
from functools import cache
from pathlib import Path


@cache
def user_cache() -> Path:
    """Below XDG_CACHE_HOME or ~/.cache; where that cannot be written, below the system's temporary folder."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    if os.access(home if home.exists() else home.parent, os.W_OK):
        return home / "tailrace"
    shared = Path(tempfile.gettempdir()) / f"tailrace-{os.getuid()}"
    shared.mkdir(mode=0o700, exist_ok=True)
    owner = shared.stat()
    # Compiled code is loaded from here, so nobody else may have put it there.
    return shared if owner.st_uid == os.getuid() and not owner.st_mode & 0o022 else Path(tempfile.mkdtemp(prefix="tailrace-"))
