"""Bytes of ASCII by name, for the kernels that read and write texts. All server encodings agree with ASCII below 128."""

from __future__ import annotations

TAB, RETURN, SPACE = b"\t\r "
ZERO, NINE = b"09"
PLUS, MINUS, POINT, COMMA, COLON, EQUALS, DOLLAR = b"+-.,:=$"
QUOTE, BACKSLASH = b'"\\'
LEFT_BRACE, RIGHT_BRACE, LEFT_BRACKET, RIGHT_BRACKET = b"{}[]"
LOWER = 0x20
"""The bit that tells a small letter from its capital."""
