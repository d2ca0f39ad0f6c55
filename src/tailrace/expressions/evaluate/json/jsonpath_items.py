"""What a jsonpath does with single items (`adt/jsonpath_exec.c`): literals, comparisons, patterns, numbers of double precision."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable

from tailrace.expressions.evaluate.collations import Letters
from tailrace.expressions.evaluate.fmgr.refusals import evaluation_error, refused
from tailrace.expressions.evaluate.json.jsonb_values import JSON_NULL, Document, rank
from tailrace.expressions.evaluate.numbers import numeric_arithmetic as numeric
from tailrace.expressions.evaluate.numbers.numeric_arithmetic import Numeric
from tailrace.expressions.evaluate.patterns.python_regex import python_pattern
from tailrace.majors import NO_DOUBLE_NUMBER, NO_DOUBLE_STRING, said_by
from tailrace.types.json.jsonpath import JsonPathItem

COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge,
}  # fmt: skip
_IGNORE_CASE, _DOT_ALL, _MULTILINE, _QUOTE = 1, 2, 4, 16
"""JSP_REGEX_ICASE, DOTALL, MLINE, QUOTE."""
_NUMBER = re.compile(r"[ \t\n\r\f\v]*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[ \t\n\r\f\v]*\Z")
_IS_SPECIAL = re.compile(r"[ \t\n\r\f\v]*[+-]?(?:nan|inf|0x)", re.IGNORECASE)
"""What strtod takes, some of it on some machines."""


class PathError(Exception):
    """What makes a path fail, and a predicate unknown."""

    def __init__(self, message: str, sqlstate: str) -> None:
        super().__init__(message)
        self.error = evaluation_error(message, sqlstate)


def is_container(document: Document) -> bool:
    return isinstance(document, dict | list)


def scalar_of(item: JsonPathItem) -> Document:
    match item.kind:
        case "string":
            return item.text_at(1)
        case "numeric":
            return numeric.read_numeric_payload(item.stored_numeric)
        case "bool":
            return item.is_true
    return JSON_NULL


def _is_double(text: str) -> bool:
    """Whether strtod takes it, neither too large nor too small."""
    if not _NUMBER.match(text):
        return False
    value, mantissa = float(text), re.split("[eE]", text)[0]
    return not math.isinf(value) and (value != 0 or not re.search("[1-9]", mantissa))


def starts_with(whole: Document, initial: Document) -> bool | None:
    if not isinstance(whole, str) or not isinstance(initial, str):
        return None
    return whole.startswith(initial)


def compare_items(kind: str, left: Document, right: Document) -> bool | None:
    """compareItems."""
    if rank(left) != rank(right) or is_container(left):
        return kind == "!=" if (left == JSON_NULL) != (right == JSON_NULL) else None
    if left == JSON_NULL:
        found = 0
    elif isinstance(left, Numeric):
        found = numeric.compare(left, right)
    else:
        found = (left > right) - (left < right)
    return COMPARISONS[kind](found, 0)


def like_regex(item: JsonPathItem, text: Document, letters: Letters) -> bool | None:
    """Line breaks are no matter of a text without any."""
    if not isinstance(text, str):
        return None
    flags, pattern = item.word(1), item.text_at(3)
    if flags & _QUOTE:
        if flags & _IGNORE_CASE:
            raise refused('like_regex with the flags "iq"')
        return pattern in text
    if "\n" in text and (not flags & _DOT_ALL or flags & _MULTILINE):
        raise refused("like_regex on a text with line breaks")
    found = python_pattern(pattern, "i" if flags & _IGNORE_CASE else "", letters)
    if found.classes and not letters.known:
        for each in (pattern, text):
            letters.check(each, f'the regular expression "{pattern}"')
    return found.pattern.search(text) is not None


def as_double(document: Document, major: int) -> Numeric:
    """.double(): a number stays as it is, if double precision can hold it."""
    if not isinstance(document, Numeric | str):
        raise PathError("jsonpath item method .double() can only be applied to a string or numeric value", "22036")
    text = document if isinstance(document, str) else numeric.text_of(document)
    if _IS_SPECIAL.match(text):
        raise refused(f'the jsonpath item method .double() of "{text}"')
    if not _is_double(text):
        words = NO_DOUBLE_STRING if isinstance(document, str) else NO_DOUBLE_NUMBER
        raise PathError(said_by(major, words).format(text), "22036")
    return numeric.parse(format(float(text), ".15g")) if isinstance(document, str) else document
