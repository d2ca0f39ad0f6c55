"""Where compiled kernels are kept.

Numba's cache knows the file of a kernel, but not the files of the kernels that it calls: after an upgrade it would run old code. So the cache lies in
a folder named after all of our sources, unless the user has chosen one (NUMBA_CACHE_DIR). Spark's workers import the same package and find the same
folder.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

_MONTH = 30 * 86400
_WITHOUT_KERNELS = frozenset({"apply", "cli", "demo", "lake", "river", "spark", "storage"})


def choose_cache() -> None:
    """Point Numba at the folder for this very code. Called before any kernel is defined."""
    if os.environ.get("NUMBA_CACHE_DIR"):
        return
    folder = user_cache() / f"kernels-{_fingerprint()}"
    if not folder.exists():
        _forget_old_code(folder.parent)
    os.environ["NUMBA_CACHE_DIR"] = str(folder)
    if "numba" in sys.modules:
        sys.modules["numba"].config.CACHE_DIR = os.environ["NUMBA_CACHE_DIR"]


def user_cache() -> Path:
    """A folder of the user's own for what can be made again: below XDG_CACHE_HOME or ~/.cache, else below the system's temporary folder."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    if os.access(home if home.exists() else home.parent, os.W_OK):
        return home / "tailrace"
    shared = Path(tempfile.gettempdir()) / f"tailrace-{os.getuid()}"
    shared.mkdir(mode=0o700, exist_ok=True)
    found = shared.stat()
    # Compiled code is loaded from here, so nobody else may have put it there.
    return shared if found.st_uid == os.getuid() and not found.st_mode & 0o022 else Path(tempfile.mkdtemp(prefix="tailrace-"))


def _forget_old_code(cache: Path) -> None:
    """Folders of code that was not compiled for a month are those of versions that nobody runs any more."""
    for folder in cache.glob("kernels-*"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > _MONTH:
                shutil.rmtree(folder)


def _fingerprint() -> str:
    digest = hashlib.blake2b(digest_size=8)
    package = Path(__file__).parent
    for path in sorted(package.rglob("*.py")):
        if path.relative_to(package).parts[0] in _WITHOUT_KERNELS:
            continue
        stat = path.stat()
        digest.update(f"{path.relative_to(package)} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()
