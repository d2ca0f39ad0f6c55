"""Make two decodings of the same story comparable, though the servers gave it other LSNs and other transaction ids.

In: rows as `psql -At -F'\\t'` prints them (`lsn`, `xid`, `data`; the data may hold newlines). Out: the same rows without LSNs,
and with each transaction id replaced by its ordinal in order of first appearance, which is the order of commit. Xid 0, of a
message outside every transaction, stays 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_ROW_START = re.compile(r"^[0-9A-F]+/[0-9A-F]+\t\d+\t", re.MULTILINE)
_XID_IN_DATA = re.compile(r"^(BEGIN |COMMIT |PREPARE TRANSACTION .*, txid |(?:COMMIT|ROLLBACK) PREPARED .*, txid )(\d+)\b")


def rows(text: str) -> list[tuple[str, int, str]]:
    """Printed rows to (lsn, xid, data)."""
    starts = [found.start() for found in _ROW_START.finditer(text)]
    if text and (not starts or starts[0] != 0):
        raise ValueError(f"not rows of a slot: {text[:60]!r}")
    found = []
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        lsn, xid, data = text[start:end].removesuffix("\n").split("\t", 2)
        found.append((lsn, int(xid), data))
    return found


def print_rows(found: Iterable[tuple[object, object, object]]) -> str:
    """As `psql -At -F'\\t'` prints them."""
    return "".join(f"{lsn}\t{xid}\t{data}\n" for lsn, xid, data in found)


def normalise(text: str) -> str:
    """Printed rows to lines `ordinal <tab> data` that do not depend on the server they came from."""
    ordinals: dict[int, int] = {0: 0}
    lines = []
    for _, xid, data in rows(text):
        ordinal = ordinals.setdefault(xid, len(ordinals))
        renumbered = _XID_IN_DATA.sub(rf"\g<1>{ordinal}", data)
        lines.append(f"{ordinal}\t{renumbered}\n")
    return "".join(lines)
