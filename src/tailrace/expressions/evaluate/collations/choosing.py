"""Who is asked about a collation: its provider, if this machine has it in the version that the catalogs recorded."""

from __future__ import annotations

from tailrace.expressions.evaluate.collations import builtin, icu, libc
from tailrace.expressions.evaluate.collations.collation import BUILTIN, ICU, Collation, Compare, Problem, mismatch, missing
from tailrace.expressions.evaluate.collations.letters import ASCII, Letters, Unknown
from tailrace.types.style import TextStyle

_WITHOUT = "C.UTF-8"
"""What stands for a locale that this machine lacks, where one goes on without it."""


def letters_of(collation: Collation, encoding: str, is_multibyte: bool, style: TextStyle) -> Letters:
    """`collation_mismatch` of ignore goes on with another version, or without the locale."""
    ignore = style.collation_mismatch == "ignore"
    if collation.ctype_is_c:
        return ASCII
    if collation.provider == BUILTIN:
        return builtin.letters(style.major, collation.ctype)
    if is_multibyte or (collation.provider == ICU and encoding != "UTF8"):
        return Unknown(_of_encoding(encoding), collation.ctype)
    if collation.provider == ICU:
        library = icu.of_version(collation, ignore)
        return Unknown(library, collation.ctype) if isinstance(library, Problem) else icu.letters(library, collation.ctype)
    handle = _opened(collation, ignore)
    if isinstance(handle, Problem):
        return Unknown(handle, collation.ctype)
    return libc.letters(handle, encoding == "UTF8", collation.is_default)


def order_of(collation: Collation, encoding: str, ignore: bool) -> Compare | Problem | None:
    """How two texts compare; None where their bytes do."""
    if collation.collates_as_c:
        return None
    if collation.provider == ICU:
        if encoding != "UTF8":
            return _of_encoding(encoding)
        library = icu.of_version(collation, ignore)
        return library if isinstance(library, Problem) else icu.ordering(library, collation)
    handle = _opened(collation, ignore)
    return handle if isinstance(handle, Problem) else libc.ordering(handle)


def _of_encoding(encoding: str) -> Problem:
    return Problem(f"the database's encoding is {encoding}")


def _opened(collation: Collation, ignore: bool) -> int | Problem:
    """A locale of libc."""
    problem = mismatch(collation, libc.actual_version())
    if problem is not None and not ignore:
        return problem
    handle = libc.opened(collation.collate, collation.ctype)
    if handle is None and ignore:
        handle = libc.opened(_WITHOUT, _WITHOUT)
    return handle if handle is not None else missing(collation.collate)
