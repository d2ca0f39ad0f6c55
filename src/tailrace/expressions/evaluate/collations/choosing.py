"""Who is asked about a collation: its provider, if this machine has it in the version that the catalogs recorded."""

from __future__ import annotations

from tailrace.expressions.evaluate.collations import builtin, libc
from tailrace.expressions.evaluate.collations.collation import BUILTIN, LIBC, Collation, Compare, Problem, mismatch, missing
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
    if is_multibyte:
        return Unknown(Problem(f"the database's encoding is {encoding}"), collation.ctype)
    handle, problem = _opened(collation, ignore)
    if problem is not None:
        return Unknown(problem, collation.ctype)
    assert handle is not None
    return libc.letters(handle, encoding == "UTF8", collation.is_default)


def order_of(collation: Collation, encoding: str, ignore: bool) -> Compare | Problem | None:
    """How two texts compare; None where their bytes do."""
    if collation.collates_as_c:
        return None
    handle, problem = _opened(collation, ignore)
    if problem is not None:
        return problem
    assert handle is not None
    return libc.ordering(handle)


def _opened(collation: Collation, ignore: bool) -> tuple[int | None, Problem | None]:
    if collation.provider != LIBC:
        return None, Problem(f'locale "{collation.ctype}" is of another provider than libc')
    problem = mismatch(collation, libc.actual_version())
    if problem is not None and not ignore:
        return None, problem
    handle = libc.handle_of(collation)
    if handle is None and ignore:
        handle = libc.opened(_WITHOUT, _WITHOUT)
    return handle, None if handle is not None else missing(collation.collate)
