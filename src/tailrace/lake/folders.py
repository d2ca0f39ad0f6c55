"""Where a table lies: a folder's name made of the schema's and the table's, and folders that follow when names change hands.

In: names as the catalogs have them; which tables there are, and who was the last to have which name. Out: folders. No two names
have one folder, also where a file system does not tell "A" from "a" or composes accents: small letters, digits and "_" stand for
themselves, "-" with a small letter is the capital, "-" hexadecimal "-" any other character. A second "." ends the name, and the
table's oid follows: of tables that gave up their name, and of those whose name is too long for a folder.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from pathlib import Path

from tailrace.dataclass import dataclass

_LONGEST = 200
"""Bytes; file systems end at 255."""
_JAMO = range(0x1100, 0x1200)
"""Letters that some file systems join into syllables."""


def folder_name(schema: str, name: str, oid: int, *, second: bool = False) -> str:
    """The folder of a table; `second` is one whose name another has now."""
    written = f"{_escaped(schema)}.{_escaped(name)}"
    if len(written.encode()) > _LONGEST:
        return f"{written.encode()[:_LONGEST].decode(errors='ignore')}.{oid}"
    return f"{written}.{oid}" if second else written


def _escaped(name: str) -> str:
    return "".join(_escaped_character(letter) for letter in name)


def _escaped_character(letter: str) -> str:
    if letter == "_" or (letter.isascii() and letter.isalnum() and not letter.isupper()):
        return letter
    if letter.isascii() and letter.isupper():
        return f"-{letter.lower()}"
    plain = letter.isalnum() and letter == letter.casefold() == unicodedata.normalize("NFKC", letter) and ord(letter) not in _JAMO
    code = f"{ord(letter):x}"
    return letter if plain and not letter.isascii() else f"-{'' if code[0].isdigit() else '0'}{code}-"


@dataclass(frozen=True, slots=True)
class Claim:
    """A table that wants the folder of its name. `dropped` is where it was (0: never); `at` the folder where it lies, if it lies
    anywhere."""

    oid: int
    schema: str
    name: str
    dropped: int = 0
    at: Path | None = None


def folders_for(directory: Path, claims: Iterable[Claim]) -> dict[int, Path]:
    """A folder for each, by oid. Of several with one name, the last to have it has the plain folder: one that is there, else the
    one dropped last."""
    claims = sorted(claims, key=lambda claim: (not claim.dropped, claim.dropped, claim.oid))
    last = {(claim.schema, claim.name): claim.oid for claim in claims}
    return {
        claim.oid: directory
        / folder_name(claim.schema, claim.name, claim.oid, second=last[claim.schema, claim.name] != claim.oid)
        for claim in claims
    }


def move(places: Mapping[int, tuple[Path, Path]]) -> dict[int, Path]:
    """By oid, folders from where they lie to where they are to lie, and where they lie then: one rename each; where another is
    still in the way (two tables that changed names), aside first. Wherever this is cut short, tables are found again by their
    oid. A folder that is no table's of ours stays in the way."""
    lie = {oid: old for oid, (old, _) in places.items()}
    waiting = {oid: new for oid, (old, new) in places.items() if old != new}
    while waiting:
        free = [oid for oid, new in waiting.items() if not is_filled(new)]
        for oid in free:
            lie[oid] = lie[oid].rename(waiting.pop(oid))
        if free:
            continue
        leaving = {lie[oid]: oid for oid in waiting}
        blocker = next((leaving[new] for new in waiting.values() if new in leaving), None)
        if blocker is None:
            break
        lie[blocker] = lie[blocker].rename(lie[blocker].with_name(f"_moving.{blocker}"))
    return lie


def is_filled(folder: Path) -> bool:
    """Whether the folder has any entry."""
    return folder.exists() and any(folder.iterdir())
