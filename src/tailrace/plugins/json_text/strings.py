"""JSON strings as escape_json() writes them (`utils/adt/json.c`): what stands in quotes is the text itself, but for quotes,
backslashes and control characters."""

from __future__ import annotations

import numpy as np

from tailrace.kernels import inner_kernel, kernel
from tailrace.types.codec.ascii import BACKSLASH, QUOTE, SPACE, ZERO

_SHORT = {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}
_ESCAPES = str.maketrans({**{chr(code): f"\\u{code:04x}" for code in range(SPACE)}, **_SHORT})
_LETTERS = np.zeros(SPACE, np.uint8)
"""By control character, the letter behind the backslash; 0: it has none, and is written as \\u00XX."""
for _character, _escape in _SHORT.items():
    if ord(_character) < SPACE:
        _LETTERS[ord(_character)] = ord(_escape[1])

LONGEST_ESCAPE = 6
_HEX_LETTER = 87  # "a", less ten


def json_string(text: str) -> str:
    """In quotes. For names, and for texts so rare that a loop is fine."""
    return f'"{text.translate(_ESCAPES)}"'


@kernel
def escapes(data):  # type: ignore[no-untyped-def]
    """How many bytes longer these become within a JSON string."""
    more = 0
    for byte in data:
        if byte < SPACE:
            more += 1 if _LETTERS[byte] else LONGEST_ESCAPE - 1
        elif byte == QUOTE or byte == BACKSLASH:
            more += 1
    return more


@inner_kernel
def put_escaped(out, to, data, start, stop):  # type: ignore[no-untyped-def]
    """Append data[start:stop] as the content of a JSON string; where it ends in `out`."""
    for i in range(start, stop):
        byte = np.int64(data[i])
        if byte >= SPACE and byte != QUOTE and byte != BACKSLASH:
            out[to] = byte
            to += 1
            continue
        out[to] = BACKSLASH
        to += 1
        if byte >= SPACE:
            out[to] = byte
            to += 1
        elif _LETTERS[byte]:
            out[to] = _LETTERS[byte]
            to += 1
        else:
            nibble = byte & 15
            out[to] = ord("u")
            out[to + 1] = ZERO
            out[to + 2] = ZERO
            out[to + 3] = ZERO + (byte >> 4)
            out[to + 4] = ZERO + nibble if nibble < 10 else _HEX_LETTER + nibble
            to += 5
    return to
