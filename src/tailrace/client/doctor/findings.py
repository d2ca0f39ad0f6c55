"""What was found of a source: how bad it is, and what to do."""

from __future__ import annotations

from tailrace.dataclass import dataclass

OK, NOTE, WARNING, STOPS = "ok", "note", "warning", "stops"
"""It is as it should be; it is good to know; something will fail or be missing when it comes to that; nothing works before it is changed."""


@dataclass(frozen=True, slots=True)
class Finding:
    """`check` is what was looked at, `told` what was found, `remedy` a statement, command or line to copy, if there is one. `database` is the one
    that it is about, empty for the whole cluster."""

    check: str
    severity: str
    told: str
    remedy: str = ""
    database: str = ""
