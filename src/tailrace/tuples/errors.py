"""A tuple that cannot be taken apart: whoever gave the rows knows which record it came with."""

from __future__ import annotations

from tailrace.errors import CorruptWal


class CorruptTuple(CorruptWal):
    """The row with this number, of those given, is damaged or another relation's."""

    def __init__(self, message: str, *, row: int = -1, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.row = row
