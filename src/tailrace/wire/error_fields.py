"""Errors and notices, as fields of an ErrorResponse (manual, "Error and Notice Message Fields"), in both directions."""

from __future__ import annotations

from collections.abc import Mapping

from tailrace.errors import PeerError, TailraceError

ERROR, FATAL, WARNING, NOTICE = "ERROR", "FATAL", "WARNING", "NOTICE"


def fields_of(error: TailraceError, severity: str = ERROR) -> dict[str, str]:
    """An error as the backend says it. Empty ones are left out."""
    texts = {
        "S": severity, "V": severity, "C": error.sqlstate, "M": error.message, "D": error.detail, "H": error.hint,
        "P": "" if error.position is None else str(error.position), "W": error.context,
    }  # fmt: skip
    return {code: text for code, text in texts.items() if text}


def notice_fields(severity: str, sqlstate: str, message: str, *, detail: str = "", hint: str = "") -> dict[str, str]:
    """A notice, of whatever severity."""
    texts = {"S": severity, "V": severity, "C": sqlstate, "M": message, "D": detail, "H": hint}
    return {code: text for code, text in texts.items() if text}


def error_of(fields: Mapping[str, str]) -> PeerError:
    """The error that the other side said."""
    error = PeerError(
        fields.get("M", ""), detail=fields.get("D", ""), hint=fields.get("H", ""), context=fields.get("W", ""),
        sqlstate=fields.get("C", ""),
    )  # fmt: skip
    position = fields.get("P", "")
    return error.in_text(int(position) if position.isdigit() else None)
