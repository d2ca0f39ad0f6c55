"""Names of objects are the same for all stores, so that what one store holds can be put into any other.

No store lists names that cannot be put. A name is compared by its bytes in UTF-8, as S3 does.
"""

from __future__ import annotations

from tailrace.errors import UsageError
from tailrace.storage.whole_file import UNFINISHED

LONGEST = 1024
"""Bytes, as in S3."""


def is_name(name: str) -> bool:
    """Whether an object can have this name."""
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        return False
    return length <= LONGEST and "\\" not in name and not any(map(_is_control, name)) and all(map(_is_part, name.split("/")))


def check_name(name: str) -> str:
    """The name. Raises UsageError where no object can have it."""
    if not is_name(name):
        raise UsageError(
            f"{name!r} cannot be the name of an object",
            hint="Names are relative and have / between their parts; no part is empty, . or .., or begins with . and ends in "
            f"{UNFINISHED}; there is no backslash and no control character, and {LONGEST} bytes at most.",
        )
    return name


def name_key(name: str) -> bytes:
    """By which names are in order."""
    return name.encode(errors="surrogateescape")


def _is_part(part: str) -> bool:
    return part not in ("", ".", "..") and not (part.startswith(".") and part.endswith(UNFINISHED))


def _is_control(character: str) -> bool:
    return character < " " or character == "\x7f"
