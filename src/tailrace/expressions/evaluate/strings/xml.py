"""xml (`adt/xml.c`): what needs no parser of XML."""

from __future__ import annotations

import re

from tailrace.expressions.evaluate.fmgr.function_calls import Implementation, rows
from tailrace.expressions.evaluate.fmgr.refusals import evaluation_error, refused

_DECLARATION = re.compile(
    r"<\?xml[ \t\r\n]+version[ \t\r\n]*=[ \t\r\n]*([\"'])(?P<version>.*?)\1"
    r"(?:[ \t\r\n]+encoding[ \t\r\n]*=[ \t\r\n]*([\"']).*?\3)?"
    r"(?:[ \t\r\n]+standalone[ \t\r\n]*=[ \t\r\n]*([\"'])(?P<standalone>yes|no)\4)?[ \t\r\n]*\?>",
    re.DOTALL,
)
_SPECIAL = str.maketrans({"<": "&lt;", ">": "&gt;", "&": "&amp;", '"': "&quot;", "\r": "&#13;"})


def _comment(text: str) -> str:
    if "--" in text or text.endswith("-"):
        raise evaluation_error("invalid XML comment", "2200S")
    return f"<!--{text}-->"


def _parts(text: str) -> tuple[str, str, str]:
    """parse_xml_decl: the version and whether it is standalone of the declaration, and what is behind it."""
    if not re.match(r"<\?xml[ \t\r\n]", text):
        return "", "", text
    found = _DECLARATION.match(text)
    if found is None or not found[0].isascii():
        raise refused("an XML declaration that is not well-formed")
    return found["version"], found["standalone"] or "", text[found.end() :]


def _concatenated(left: str | None, right: str | None) -> str | None:
    """xmlconcat: one declaration for both, if they agree on anything that needs one."""
    if left is None or right is None:
        return right if left is None else left
    versions, standalones, contents = zip(*map(_parts, (left, right)), strict=True)
    version = versions[0] if versions[0] == versions[1] else ""
    standalone = "" if "" in standalones else min(standalones)
    declared = version not in ("", "1.0") or standalone
    declaration = f'<?xml version="{version or "1.0"}"' + (f' standalone="{standalone}"' if standalone else "") + "?>"
    return (declaration if declared else "") + "".join(contents)


def _not_implemented(*arguments: object) -> bool:
    raise evaluation_error("xmlvalidate is not implemented", "0A000")


FUNCTIONS: dict[str, Implementation] = {
    "xmltotext": rows(lambda text: text, True), "xmlcomment": rows(_comment), "xmlconcat2": rows(_concatenated),
    "xmlvalidate": rows(_not_implemented), "xmltext": rows(lambda text: text.translate(_SPECIAL), True),
}  # fmt: skip
