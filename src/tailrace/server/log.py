"""Lines of the server's log, as `log_line_prefix = '%m [%p] '` makes them. Nothing that a client may not know is kept from whoever runs it."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from datetime import UTC, datetime
from typing import TextIO

from tailrace.errors import TailraceError

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""What a terminal would obey; names and statements of clients may have them."""


class ServerLog:
    """Writes to `file`, standard error if it is None."""

    def __init__(self, file: TextIO | None = None) -> None:
        self._file = file

    def say(self, pid: int, severity: str, message: str, **more: str) -> None:
        """`more` are the lines that follow: DETAIL, HINT, CONTEXT, STATEMENT."""
        now = datetime.now(UTC)
        prefix = f"{now:%Y-%m-%d %H:%M:%S}.{now.microsecond // 1000:03d} UTC [{pid}] "
        lines = [f"{severity}:  {message}", *(f"{name.upper()}:  {text}" for name, text in more.items() if text)]
        text = "".join(prefix + _CONTROL.sub(_shown, line).replace("\n", "\n\t") + "\n" for line in lines)
        with suppress(OSError):  # nobody's command fails because a disk is full
            out = self._file or sys.stderr
            out.write(text)
            out.flush()

    def error(self, pid: int, severity: str, error: TailraceError, statement: str = "") -> None:
        self.say(
            pid, severity, error.message, detail=error.detail, hint=error.hint, context=error.context, statement=statement
        )  # fmt: skip


def _shown(control: re.Match[str]) -> str:
    return f"\\x{ord(control[0]):02x}"
