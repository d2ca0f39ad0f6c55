"""xml: the stored text but for its declaration, which says no more than it must (`adt/xml.c`, xml_out_internal).

The encoding is dropped, since the text will be in its reader's. What is left of the declaration is printed only if it has a version other than
1.0 or a word on standalone. Where it is not printed, one line break that stands there is dropped as well; so is that of a text without a
declaration that begins with an empty line. In Arrow it is a string of this text.
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
    declaration = _DECLARATION.match(stored)
    if declaration is None:
        return stored.removeprefix(b"\n")
    if not declaration[0].isascii():
        return stored
    version, standalone, rest = declaration["version"][1:-1], declaration["standalone"], stored[declaration.end() :]
    if version == b"1.0" and standalone is None:
        return rest.removeprefix(b"\n")
    attribute = b' standalone="' + standalone[1:-1] + b'"' if standalone else b""
    return b'<?xml version="' + version + b'"' + attribute + b"?>" + rest
