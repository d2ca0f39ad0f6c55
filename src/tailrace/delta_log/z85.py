"""Z85, in which the log of a Delta table writes bytes as text (ZeroMQ RFC 32): four bytes are five digits of base 85, most significant first.

Python's `base64` has the same with git's digits, so only the digits are exchanged here.
"""

from __future__ import annotations

import base64

_DIGITS = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_GIT_DIGITS = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_Z85, _TO_GIT = bytes.maketrans(_GIT_DIGITS, _DIGITS), bytes.maketrans(_DIGITS, _GIT_DIGITS)
_NEITHER = bytes(set(_GIT_DIGITS) - set(_DIGITS))
"""What git has for digits and Z85 has not."""


def format_z85(data: bytes) -> str:
    """The text of `data`, which zeros fill up to whole groups of four bytes."""
    return base64.b85encode(data, pad=True).translate(_TO_Z85).decode()


def parse_z85(text: str) -> bytes:
    """The bytes of `text`, with those that filled it up. Raises ValueError."""
    digits = text.encode("ascii")
    if len(digits) % 5 or any(digit in _NEITHER for digit in digits):
        raise ValueError("no Z85")
    return base64.b85decode(digits.translate(_TO_GIT))
