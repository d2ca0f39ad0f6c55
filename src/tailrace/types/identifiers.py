"""Lists of identifiers in one string, as parameters and names of tables have them (`SplitIdentifierString` in `utils/adt/varlena.c`).

In: `orders, "My Table"`. Out: the identifiers, as the catalogs have them.
"""

from __future__ import annotations

import re

_SPACE = r"[ \t\n\r\f\v]*"
_FOLDED = str.maketrans({chr(letter): chr(letter).lower() for letter in range(ord("A"), ord("Z") + 1)})
"""Where characters have several bytes, PostgreSQL folds ASCII alone (`downcase_identifier`)."""


def split_identifiers(text: str, separator: str = ",") -> list[str] | None:
    """What stands in double quotes is taken as it is, a doubled quote for one; the rest is folded to lower case. None for what
    is no list; a blank text has no names. Nothing is cut to 63 bytes."""
    if not text.strip(" \t\n\r\f\v"):
        return []
    part = _PARTS[separator]
    names = []
    at = 0
    while (match := part.match(text, at)) is not None:
        quoted, bare, behind = match.groups()
        names.append(bare.translate(_FOLDED) if quoted is None else quoted.replace('""', '"'))
        if not behind:
            return names
        at = match.end()
    return None


def _part(separator: str) -> re.Pattern[str]:
    """One identifier, and the separator behind it."""
    ends = rf"{re.escape(separator)} \t\n\r\f\v"
    return re.compile(rf'{_SPACE}(?:"((?:[^"]|"")*)"|([^"{ends}][^{ends}]*)){_SPACE}({re.escape(separator)}|\Z)')


_PARTS = {separator: _part(separator) for separator in ",."}
