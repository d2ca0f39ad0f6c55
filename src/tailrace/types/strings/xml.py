"""xml: the stored text but for its declaration, which says no more than it must (`adt/xml.c`, xml_out_internal).

The encoding is dropped, since the text will be in its reader's; what is left is printed only with a version other than 1.0 or a word on
standalone. Where nothing is, the line break behind it goes too: behind nothing at all as well, so that of a text that begins with an empty
line.
"""

from __future__ import annotations

import re

from tailrace.model import PgType
from tailrace.types.codec import format_each
from tailrace.types.style import TextStyle
from tailrace.types.values import Texts, Values

_IS = rb"[ \t\r\n]*=[ \t\r\n]*"
_DECLARATION = re.compile(
    rb"<\?xml[ \t\r\n]+version" + _IS + rb"(?P<version>'[^']*'|\"[^\"]*\")"
    rb"(?:[ \t\r\n]+encoding" + _IS + rb"(?:'[^']*'|\"[^\"]*\"))?"
    rb"(?:[ \t\r\n]+standalone" + _IS + rb"(?P<standalone>'yes'|\"yes\"|'no'|\"no\"))?[ \t\r\n]*\?>"
)  # fmt: skip


def format_xmls(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As xml_out, and as xml_send for a client in UTF8."""
    return format_each(values, _printed)


def _printed(stored: bytes) -> bytes:
    found = _DECLARATION.match(stored)
    if found is None:
        return stored.removeprefix(b"\n")
    if not found[0].isascii():
        return stored
    version, standalone, rest = found["version"][1:-1], found["standalone"], stored[found.end() :]
    if version == b"1.0" and standalone is None:
        return rest.removeprefix(b"\n")
    said = b' standalone="' + standalone[1:-1] + b'"' if standalone else b""
    return b'<?xml version="' + version + b'"' + said + b"?>" + rest
