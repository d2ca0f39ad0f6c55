"""Functions of regular expressions (`adt/regexp.c`), and SIMILAR TO. What a pattern may have, and where it may be used, says `python_regex`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tailrace.expressions.evaluate.fmgr.array_and_record import Array
from tailrace.expressions.evaluate.fmgr.function_calls import FunctionCallInfo, Implementation, made, rows
from tailrace.expressions.evaluate.fmgr.refusals import evaluation_error, invalid_parameter, refused
from tailrace.expressions.evaluate.patterns.python_regex import python_pattern
from tailrace.types import oids


def options(flags: str, function: str, allow_global: bool) -> str:
    """The options of a call; what changes how a pattern is read is refused."""
    for letter in flags:
        if letter == "g" and allow_global:
            continue
        if letter == "g":
            hint = {"regexp_match": "Use the regexp_matches function instead."}.get(function, "")
            raise invalid_parameter(f'{function}() does not support the "global" option', hint)
        if letter in "bemnpqwx":
            raise refused(f'the option "{letter}" of a regular expression')
        if letter not in "cist":
            raise invalid_parameter(f'invalid regular expression option: "{letter}"')
    kept = [letter for letter in flags if letter in "ic"]
    return "i" if kept and kept[-1] == "i" else ""


class Searcher:
    """Patterns of one call: under its collation, for its purpose."""

    def __init__(self, call: FunctionCallInfo, flags: str = "", ends: bool = False) -> None:
        self.letters = call.letters()
        self.label, self.flags, self.ends = call.function.label, flags, ends

    def pattern(self, text: str, subject: str, flags: str = "") -> re.Pattern[str]:
        """The pattern for a text that is searched: what is a letter must be known of both, if it matters."""
        found = python_pattern(text, self.flags + flags, self.letters)
        if found.classes and not self.letters.known:
            for each in (text, subject):
                self.letters.check(each, f'the regular expression "{text}"')
        if self.ends and not found.single:
            raise refused(f'{self.label} with the regular expression "{text}", which can match in several ways')
        return found.pattern


def _match(negated: bool, flags: str = "") -> Implementation:
    def make(call: FunctionCallInfo) -> Implementation:
        searcher = Searcher(call, flags)
        fixed = call.constant(1)
        if isinstance(fixed, str):
            found = python_pattern(fixed, flags, searcher.letters)
            if not found.classes or searcher.letters.known:
                search = found.pattern.search
                return rows(lambda text, pattern: (search(text) is not None) != negated, True)
        return rows(lambda text, pattern: (searcher.pattern(pattern, text).search(text) is not None) != negated)

    return made(make)


def _like(call: FunctionCallInfo) -> Implementation:
    searcher = Searcher(call)

    def run(text: str, pattern: str, flags: str = "") -> bool:
        return searcher.pattern(pattern, text, options(flags, "regexp_like", False)).search(text) is not None

    return rows(run)


def matches(pattern: re.Pattern[str], text: str, start: int = 0) -> list[re.Match[str]]:
    """All of them; an empty one right behind another match is none."""
    found, at = [], start
    while at <= len(text):
        match = pattern.search(text, at)
        if match is None:
            break
        found.append(match)
        at = match.end() + (match.start() == match.end())
    return found


def _finding(how: Callable[[re.Pattern[str], str], Any]) -> Implementation:
    def make(call: FunctionCallInfo) -> Implementation:
        searcher = Searcher(call, "", True)
        return rows(lambda text, pattern: how(searcher.pattern(pattern, text), text))

    return made(make)


def _substring(pattern: re.Pattern[str], text: str) -> str | None:
    """substring(text from pattern): the first group, if there is one."""
    found = pattern.search(text)
    if found is None:
        return None
    return found.group(1) if pattern.groups else found.group(0)


def _whole_match(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.search(text)
    return None if found is None else found.group(0)


def groups(pattern: re.Pattern[str], text: str) -> Array | None:
    found = pattern.search(text)
    if found is None:
        return None
    return Array.of_list(list(found.groups()) if pattern.groups else [found.group(0)], oids.TEXT)


def replacement(text: str) -> Callable[[re.Match[str]], str]:
    """\\1 to \\9 are groups, \\& all of the match; another backslash is itself."""
    parts = re.split(r"(\\[1-9&\\])", text)

    def run(match: re.Match[str]) -> str:
        out = []
        for part in parts:
            if len(part) == 2 and part[0] == "\\" and part[1] in "123456789&\\":
                number = 0 if part[1] == "&" else -1 if part[1] == "\\" else int(part[1])
                out.append("\\" if number < 0 else (match.group(number) or "") if number <= match.re.groups else "")
            else:
                out.append(part)
        return "".join(out)

    return run


def _replace(call: FunctionCallInfo) -> Implementation:
    searcher = Searcher(call, "", True)

    def run(text: str, pattern: str, new: str, flags: str = "") -> str:
        if flags[:1].isdigit() and flags[:1].isascii():
            raise refused("function regexp_replace with an option that is a number")
        compiled = searcher.pattern(pattern, text, options(flags, "regexp_replace", True))
        found = matches(compiled, text)
        out, at, replace = [], 0, replacement(new)
        for match in found if "g" in flags else found[:1]:
            out += [text[at : match.start()], replace(match)]
            at = match.end()
        return "".join([*out, text[at:]])

    return rows(run)


def _count(call: FunctionCallInfo) -> Implementation:
    searcher = Searcher(call, "", True)

    def run(text: str, pattern: str, start: int = 1) -> int:
        if start <= 0:
            raise invalid_parameter(f'invalid value for parameter "start": {start}')
        return len(matches(searcher.pattern(pattern, text), text, start - 1))

    return rows(run)


# -- SIMILAR TO --------------------------------------------------------------------------------------------------------------------


def similar_escape(pattern: str, escape: str | None = "\\") -> str:
    """A pattern of SIMILAR TO as a regular expression (`similar_escape_internal`); separators and brackets are refused."""
    if escape is None:
        escape = "\\"
    if len(escape) > 1:
        raise evaluation_error("invalid escape string", "22025", "Escape string must be empty or one character.")
    if "[" in pattern or (escape and escape + '"' in pattern):
        raise refused(f'the pattern "{pattern}" of SIMILAR TO')
    out, after = ["^(?:"], False
    for letter in pattern:
        if after:
            out.append("\\" + letter)
            after = False
        elif letter == escape and escape:
            after = True
        elif letter == "%":
            out.append(".*")
        elif letter == "_":
            out.append(".")
        elif letter == "(":
            out.append("(?:")
        elif letter in "\\.^$":
            out.append("\\" + letter)
        else:
            out.append(letter)
    return "".join([*out, ")$"])


FUNCTIONS: dict[str, Implementation] = {
    "regexp_like_no_flags": made(_like), "regexp_like": made(_like), "textregexsubstr": _finding(_substring),
    "regexp_substr_no_start": _finding(_whole_match),
    "regexp_match_no_flags": _finding(groups), "textregexreplace_noopt": made(_replace), "textregexreplace": made(_replace),
    "regexp_count_no_start": made(_count), "regexp_count_no_flags": made(_count),
    "regexp_instr_no_start": _finding(lambda pattern, text: 0 if (found := pattern.search(text)) is None else found.start() + 1),
    "similar_to_escape_1": rows(similar_escape), "similar_to_escape_2": rows(similar_escape),
}  # fmt: skip
for _prefix in ("text", "name"):
    FUNCTIONS.update(
        {
            f"{_prefix}regexeq": _match(False), f"{_prefix}regexne": _match(True), f"{_prefix}icregexeq": _match(False, "i"),
            f"{_prefix}icregexne": _match(True, "i"),
        }
    )  # fmt: skip
