"""Where compiled kernels are kept.

Numba's cache knows the file of a kernel, but not the files of the kernels that it calls: after an upgrade it would run old
code. So the cache lies in a
folder named after all of our sources, unless the user has chosen one (NUMBA_CACHE_DIR). Spark's workers import the same package and
find the same folder.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from pathlib import Path

_WITHOUT_KERNELS = frozenset({"apply", "cli", "demo", "lake", "spark", "storage"})


def choose_cache() -> None:
    """Point Numba at the folder for this very code. Called before any kernel is defined."""
    if os.environ.get("NUMBA_CACHE_DIR"):
        return
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    if not os.access(home if home.exists() else home.parent, os.W_OK):
        home = Path(tempfile.gettempdir())
    os.environ["NUMBA_CACHE_DIR"] = str(home / "tailrace" / f"kernels-{_fingerprint()}")
    if "numba" in sys.modules:
        sys.modules["numba"].config.CACHE_DIR = os.environ["NUMBA_CACHE_DIR"]


def _fingerprint() -> str:
    digest = hashlib.blake2b(digest_size=8)
    package = Path(__file__).parent
    for path in sorted(package.rglob("*.py")):
        if path.relative_to(package).parts[0] in _WITHOUT_KERNELS:
            continue
        stat = path.stat()
        digest.update(f"{path.relative_to(package)} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()
