"""What a client says, as text: UTF-8 without a zero byte, or it is refused by its bytes (`pg_verify_mbstr` in `mb/mbutils.c`)."""

from __future__ import annotations

import re

from tailrace.errors import UsageError

_NOT_PRINTED = re.compile(r"[^ -~]")


def text_of(value: bytes) -> str:
    """Raises UsageError (22021) with the first bytes that are no character."""
    bad = value.find(b"\0")
    try:
        text = value.decode()
    except UnicodeDecodeError as error:
        bad = error.start if bad < 0 else min(bad, error.start)
    if bad < 0:
        return text
    lead = value[bad]
    length = 4 if lead >= 0xF0 else 3 if lead >= 0xE0 else 2 if lead >= 0xC0 else 1
    shown = " ".join(f"0x{byte:02x}" for byte in value[bad : bad + (1 if lead >= 0xF8 else length)])
    raise UsageError(f'invalid byte sequence for encoding "UTF8": {shown}', sqlstate="22021")


def check_text(text: str) -> None:
    """The same of a string of a message, in which what is no UTF-8 stands as it came (PEP 383)."""
    if not text.isascii():
        text_of(text.encode("utf-8", "surrogateescape"))


def clean_ascii(text: str) -> str:
    r"""As application_name is shown: what others would not see, or a terminal would obey, is `\xNN` (`pg_clean_ascii`)."""
    return _NOT_PRINTED.sub(
        lambda match: "".join(f"\\x{byte:02x}" for byte in match[0].encode("utf-8", "surrogateescape")), text
    )  # fmt: skip
