"""Locales of glibc for tests, compiled where this machine has their sources: the folder that LOCPATH names, for this process and for servers."""

from __future__ import annotations

import atexit
import ctypes
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

from tailrace.demo import server
from tailrace.expressions.evaluate.collations import icu, libc

LOCALES = {"en_US.UTF-8": "UTF-8", "tr_TR.UTF-8": "UTF-8", "sv_SE.UTF-8": "UTF-8", "de_DE.ISO-8859-1": "ISO-8859-1"}
_SOURCES = Path("/usr/share/i18n/locales")


@cache
def made_locales() -> Path:
    """The folder with LOCALES. What needs them is skipped where there are no sources."""
    if not (shutil.which("localedef") and _SOURCES.is_dir()):
        pytest.skip("localedef and the sources of locales are not there (Debian: apt install locales)")
    folder = Path(tempfile.mkdtemp(prefix="tailrace-locales-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    folder.chmod(0o755)
    for name, charset in LOCALES.items():
        subprocess.run(["localedef", "-i", name.partition(".")[0], "-f", charset, str(folder / name)], check=True)
    return folder


def use_locales(monkeypatch: pytest.MonkeyPatch) -> None:
    """For the length of a test, or of what `monkeypatch` is for."""
    folder = str(made_locales())
    monkeypatch.setitem(server._ENVIRONMENT, "LOCPATH", folder)
    monkeypatch.setitem(os.environ, "LOCPATH", folder)  # type: ignore[arg-type]
    libc.opened.cache_clear()


def use_icu(build: Path) -> None:
    """Load the libicu that a build of PostgreSQL brings, so that the loader has it by its name."""
    found = sorted(build.glob("lib/libicu*.so.??"))
    if not found:
        pytest.skip("this build of PostgreSQL has no ICU")
    for part in ("data", "uc", "i18n"):
        for each in found:
            if each.name.startswith(f"libicu{part}.so"):
                ctypes.CDLL(str(each), mode=ctypes.RTLD_GLOBAL)
    icu.libraries.cache_clear()
