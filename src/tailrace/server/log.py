"""Lines of the server's log, as `log_line_prefix = '%m [%p] '` makes them. Nothing that a client may not know is kept from whoever runs it."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TextIO

from tailrace.errors import TailraceError


class ServerLog:
    """Writes to `file`, standard error if it is None."""

    def __init__(self, file: TextIO | None = None) -> None:
        self._file = file

    def say(self, pid: int, severity: str, message: str, **more: str) -> None:
        """`more` are the lines that follow: DETAIL, HINT, CONTEXT, STATEMENT."""
        now = datetime.now(UTC)
        prefix = f"{now:%Y-%m-%d %H:%M:%S}.{now.microsecond // 1000:03d} UTC [{pid}] "
        lines = [f"{severity}:  {message}", *(f"{name.upper()}:  {text}" for name, text in more.items() if text)]
        out = self._file or sys.stderr
        out.write("".join(prefix + line.replace("\n", "\n\t") + "\n" for line in lines))
        out.flush()

    def error(self, pid: int, severity: str, error: TailraceError, statement: str = "") -> None:
        self.say(
            pid, severity, error.message, detail=error.detail, hint=error.hint, context=error.context, statement=statement
        )  # fmt: skip
