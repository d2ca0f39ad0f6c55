"""Functions of regular expressions that ask from where on, for which match, and for which part of it (`adt/regexp.c`); and splitting."""

from __future__ import annotations

import re
from typing import Any

from tailrace.expressions.evaluate.fmgr.array_and_record import Array
from tailrace.expressions.evaluate.fmgr.function_calls import FunctionCallInfo, Implementation, made, rows
from tailrace.expressions.evaluate.fmgr.refusals import invalid_parameter
from tailrace.expressions.evaluate.patterns.regexp import Searcher, groups, matches, options, replacement, similar_escape
from tailrace.types import oids


def _check(name: str, value: int, good: bool) -> None:
    if not good:
        raise invalid_parameter(f'invalid value for parameter "{name}": {value}')


def _nth(pattern: re.Pattern[str], text: str, start: int, number: int, part: int) -> tuple[int, int] | None:
    """Where the part of the match is; None if there is none. A pattern without groups has itself for the first."""
    found = matches(pattern, text, start - 1)
    if number > len(found) or part > max(pattern.groups, 1):
        return None
    span = found[number - 1].span(part if pattern.groups else 0)
    return None if span[0] < 0 else span


def _count(call: FunctionCallInfo) -> Implementation:
    searcher = Searcher(call, "", True)

    def run(text: str, pattern: str, start: int, flags: str) -> int:
        _check("start", start, start > 0)
        return len(matches(searcher.pattern(pattern, text, options(flags, "regexp_count", False)), text, start - 1))

    return rows(run)


def _instr(call: FunctionCallInfo) -> Implementation:
    searcher = Searcher(call, "", True)

    def run(text: str, pattern: str, start: int, number: int = 1, end: int = 0, flags: str = "", part: int = 0) -> int:
        _check("start", start, start > 0)
        _check("n", number, number > 0)
        _check("endoption", end, end in (0, 1))
        _check("subexpr", part, part >= 0)
        span = _nth(searcher.pattern(pattern, text, options(flags, "regexp_instr", False)), text, start, number, part)
        return 0 if span is None else span[end] + 1

    return rows(run)


def _substr(call: FunctionCallInfo) -> Implementation:
    searcher = Searcher(call, "", True)

    def run(text: str, pattern: str, start: int, number: int = 1, flags: str = "", part: int = 0) -> str | None:
        _check("start", start, start > 0)
        _check("n", number, number > 0)
        _check("subexpr", part, part >= 0)
        span = _nth(searcher.pattern(pattern, text, options(flags, "regexp_substr", False)), text, start, number, part)
        return None if span is None else text[slice(*span)]

    return rows(run)


def _match(call: FunctionCallInfo) -> Implementation:
    searcher = Searcher(call, "", True)
    return rows(lambda text, pattern, flags: groups(searcher.pattern(pattern, text, options(flags, "regexp_match", False)), text))


def _replace(call: FunctionCallInfo) -> Implementation:
    """Of the matches from `start` on the `number`-th, or all for 0; without a number the option g decides."""
    searcher = Searcher(call, "", True)

    def run(text: str, pattern: str, new: str, start: int, number: int = 1, flags: str = "") -> str:
        _check("start", start, start > 0)
        _check("n", number, number >= 0)
        found = matches(searcher.pattern(pattern, text, options(flags, "regexp_replace", True)), text, start - 1)
        out, at, replace = [], 0, replacement(new)
        for match in found[number - 1 : number] if number else found:
            out += [text[at : match.start()], replace(match)]
            at = match.end()
        return "".join([*out, text[at:]])

    return rows(run)


def _split(call: FunctionCallInfo) -> Implementation:
    """Matches of nothing at either end, or right behind another match, do not split."""
    searcher = Searcher(call, "", True)

    def run(text: str, pattern: str, flags: str = "") -> Array:
        compiled = searcher.pattern(pattern, text, options(flags, "regexp_split_to_array", False))
        parts: list[Any] = []
        at = last = 0
        for match in matches(compiled, text):
            if match.start() < len(text) and match.end() > last:
                parts.append(text[at : match.start()])
                at = match.end()
            last = match.end()
        return Array.of_list([*parts, text[at:]], oids.TEXT)

    return rows(run)


def _similar_substring(call: FunctionCallInfo) -> Implementation:
    """substring(text SIMILAR pattern ESCAPE escape), without separators: all of the text, or nothing."""
    searcher = Searcher(call)

    def run(text: str, pattern: str, escape: str) -> str | None:
        return text if searcher.pattern(similar_escape(pattern, escape), text).search(text) is not None else None

    return rows(run)


FUNCTIONS: dict[str, Implementation] = {
    "regexp_count": made(_count), "regexp_match": made(_match), "similar_escape": rows(
        lambda pattern, escape: None if pattern is None else similar_escape(pattern, escape)
    ),
    "substring(text, text, text)": made(_similar_substring),
    **dict.fromkeys(
        ("regexp_instr_no_n", "regexp_instr_no_endoption", "regexp_instr_no_flags", "regexp_instr_no_subexpr", "regexp_instr"), made(_instr)
    ),
    **dict.fromkeys(("regexp_substr_no_n", "regexp_substr_no_flags", "regexp_substr_no_subexpr", "regexp_substr"), made(_substr)),
    **dict.fromkeys(
        ("textregexreplace_extended_no_n", "textregexreplace_extended_no_flags", "textregexreplace_extended"), made(_replace)
    ),
    **dict.fromkeys(("regexp_split_to_array_no_flags", "regexp_split_to_array"), made(_split)),
}  # fmt: skip
