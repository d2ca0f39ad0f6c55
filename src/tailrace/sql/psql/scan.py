"""Text as it is typed, pasted or read, taken apart into statements and backslash commands (`bin/psql/psqlscan.l`).

In: lines. Out: statements, as they end with a semicolon, and commands. A line may begin with a prompt of psql's, as in a session that was copied
from somewhere: once one did, lines without a prompt are results of that session and say nothing, unless a statement is open. Where a person types,
only those that look like results do.
"""

from __future__ import annotations

import re
from dataclasses import field

from tailrace.dataclass import dataclass

_PROMPT = re.compile(r"\w[\w.-]*?([=\-*'\"$(])[*!?]?[#>](?: |$)", re.ASCII)
_RESULT = re.compile(r"\s|$|[-+|]+$|\(\d+ rows?\)|[A-Z]+( [A-Z]+)*( \d+)*$|(ERROR|LINE|DETAIL|HINT|CONTEXT|NOTICE|WARNING)\b.*:")
_DOLLAR = re.compile(r"\$(?:[A-Za-z_\x80-\U0010ffff][\w\x80-\U0010ffff]*)?\$")


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL with its semicolon, as psql sends it; `line` is where it began, from 1. `expanded`: \\gx asked for that."""

    text: str
    line: int
    expanded: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    """A backslash command, without the backslash, and the rest of its line."""

    name: str
    rest: str
    line: int


@dataclass(slots=True)
class StatementText:
    """State: what is open. `feed` takes a line at a time. `typed`: by a person, who may type on behind what was pasted."""

    typed: bool = False
    _text: str = ""
    _begun: int = 0
    _line: int = 0
    _inside: str = ""
    """A quote, a dollar quote, `*` in a comment, once a level; or nothing."""
    _depth: int = 0
    _pasted: bool = False
    _found: list[Statement | Command] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        return bool(self._inside) or bool(_uncommented(self._text).strip())

    @property
    def mark(self) -> str:
        """What a prompt shows: `=`, `-` in a statement, a quote, `(` or `*` in what is open."""
        if self._inside:
            return "$" if self._inside[0] == "$" else self._inside[0]
        return "(" if self._depth else "-" if self.is_open else "="

    def feed(self, line: str) -> list[Statement | Command]:
        """Take a line; the statements and commands that end on it."""
        self._line += 1
        prompt = _PROMPT.match(line)
        if prompt and (self._pasted or (prompt[1] == "=" and not self.is_open)):  # no statement begins so
            self._pasted = True
            line = line[prompt.end() :]
        elif self._pasted and not self.is_open and (not self.typed or _RESULT.match(line)):
            return []
        self._found = []
        self._scan(line)
        return self._found

    def rest(self) -> list[Statement | Command]:
        """What is left at the end of the input, as psql sends it."""
        self._found = []
        if not self._inside:
            self._end()
        self._text = ""
        return self._found

    def drop(self) -> None:
        """Forget what is open."""
        self._text, self._inside, self._depth = "", "", 0

    def _scan(self, line: str) -> None:
        at = 0
        while at < len(line):
            at = self._within(line, at) if self._inside else self._outside(line, at)
        if self._text or self._inside:
            self._text += "\n"

    def _within(self, line: str, at: int) -> int:
        """Up to where the quote or comment ends."""
        kind = self._inside
        if kind[0] == "*":
            found = re.compile(r"/\*|\*/").search(line, at)
            if found is None:
                return self._take(line, at, len(line))
            self._inside = kind + "*" if found[0] == "/*" else kind[1:]
            return self._take(line, at, found.end())
        close = kind if kind[0] == "$" else kind[-1]
        stop = at
        while stop < len(line):
            if kind == "E'" and line[stop] == "\\":
                stop += 2
                continue
            if line.startswith(close, stop):
                self._inside = ""
                return self._take(line, at, stop + len(close))
            stop += 1
        return self._take(line, at, len(line))

    def _outside(self, line: str, at: int) -> int:
        character = line[at]
        if line.startswith("--", at):
            return self._take(line, at, len(line))
        if line.startswith("/*", at):
            self._inside = "*"
            return self._take(line, at, at + 2)
        if character in "'\"":
            escapes = character == "'" and at > 0 and line[at - 1] in "eE" and (at < 2 or not line[at - 2].isalnum())
            self._inside = "E'" if escapes else character
            return self._take(line, at, at + 1)
        if dollar := _DOLLAR.match(line, at):
            if at == 0 or not (line[at - 1].isalnum() or line[at - 1] == "_"):
                self._inside = dollar[0]
            return self._take(line, at, dollar.end())
        if character == "\\":
            return self._command(line, at)
        if character == ";" and self._depth == 0:
            self._take(line, at, at + 1)
            self._end()
            return at + 1
        self._depth = max(0, self._depth + (character == "(") - (character == ")"))
        return self._take(line, at, at + 1)

    def _take(self, line: str, start: int, stop: int) -> int:
        if not self._text and not line[start:stop].strip():
            return stop
        if not self._text:
            self._begun = self._line
        self._text += line[start:stop]
        return min(stop, len(line))

    def _command(self, line: str, at: int) -> int:
        name, _, rest = line[at + 1 :].partition(" ")
        if name.strip().rstrip(";") in ("g", "gx"):
            self._end(expanded=name.strip().rstrip(";") == "gx")
            return len(line)
        self._found.append(Command(name.strip().rstrip(";"), rest.strip().rstrip(";").strip(), self._line))
        return len(line)

    def _end(self, *, expanded: bool = False) -> None:
        text, self._text, self._depth = self._text, "", 0
        if _uncommented(text).strip(" \n\t;"):
            self._found.append(Statement(text.rstrip(), self._begun, expanded))


def _uncommented(text: str) -> str:
    """Without comments, roughly: what is left is blank only if there was nothing else."""
    return re.sub(r"--[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)


def excerpt(text: str, position: int) -> tuple[str, str]:
    """The line in which a character (from 1) stands, as `LINE 1: …` and the caret below it (`libpq/fe-protocol3.c`); longer lines are cut."""
    before = text[: position - 1]
    number, start = before.count("\n") + 1, before.rfind("\n") + 1
    line = text[start:].split("\n", 1)[0].replace("\t", " ")
    at, left, right = position - 1 - start, "", ""
    if len(line) > _SHOWN:
        begin = 0
        if at + _AROUND > _SHOWN and at > _AROUND:
            begin = max(0, min(at - (_SHOWN - _AROUND), len(line) - _SHOWN))
        left = "..." if begin else ""
        right = "..." if begin + _SHOWN < len(line) else ""
        line, at = line[begin : begin + _SHOWN], at - begin
    head = f"LINE {number}: {left}"
    return f"{head}{line}{right}", " " * (len(head) + at) + "^"


_SHOWN, _AROUND = 60, 10
