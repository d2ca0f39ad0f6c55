"""Lists of names as parameters have them, such as publication_names (`SplitIdentifierString` in `utils/adt/varlena.c`)."""

from __future__ import annotations

import re

_NAME = re.compile(r'\s*(?:"((?:[^"]|"")*)"|([^\s",]+))\s*')


def split_identifiers(text: str) -> tuple[str, ...] | None:
    """A list of identifiers with commas between, folded to lower case where they are not quoted, and cut at 63 bytes (`SplitIdentifierString`); None
    for what is none."""
    if not text.strip():
        return ()
    names: list[str] = []
    at = 0
    while (match := _NAME.match(text, at)) is not None:
        word = match[1].replace('""', '"') if match[1] is not None else match[2].lower()
        if match[1] == "":
            return None
        names.append(word.encode("utf-8", "surrogateescape")[:63].decode("utf-8", "surrogateescape"))
        at = match.end()
        if at == len(text):
            return tuple(names)
        if text[at] != ",":
            return None
        at += 1
    return None
