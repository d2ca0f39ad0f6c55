"""How a server is named: a connection string of libpq's, or its URI (manual, "Connection Strings")."""

from __future__ import annotations

import re
from pathlib import Path

_URI = re.compile(r"postgres(ql)?://")
_WORD = re.compile(r"\s*[a-z_]+\s*=")


def is_dsn(text: str) -> bool:
    """Whether it names a server, and no file: a path with a `=` in it is one if it is there, or is written with a slash."""
    if _URI.match(text):
        return True
    return bool(_WORD.match(text)) and not Path(text).exists()
