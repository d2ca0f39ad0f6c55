"""What was found of a source: how bad it is, and what to do."""

from __future__ import annotations

import re
from dataclasses import replace

from tailrace.dataclass import dataclass

_WRITTEN = re.compile(r"(?:GRANT|REVOKE|CREATE|DROP|ALTER (?!SYSTEM)|VACUUM|REINDEX)\b")
"""Statements that a standby does not carry out."""
_WHERE, _COMMENT = "on the primary", "  -- "

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


def done_on_primary(found: Finding) -> Finding:
    """What was found of a standby, where its remedy has to be carried out on its primary."""
    remedy = found.remedy
    if not _WRITTEN.match(remedy) or _WHERE in remedy:
        return found
    statement, comment, more = remedy.partition(_COMMENT)
    return replace(found, remedy=f"{statement}{_COMMENT}{_WHERE}{', ' if comment else ''}{more}")
