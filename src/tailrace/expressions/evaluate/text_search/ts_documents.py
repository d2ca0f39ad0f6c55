"""Documents as tsvectors, and words as dictionaries have them (`tsearch/to_tsany.c`, `ts_parse.c`, `dict_simple.c`): of the configuration and the
dictionary `simple` as initdb makes them, which no row of pg_ts_config_map was taken from."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tailrace.expressions.evaluate.collations.collation import LIBC
from tailrace.expressions.evaluate.fmgr.array_and_record import Array
from tailrace.expressions.evaluate.fmgr.function_calls import FunctionCallInfo, Implementation, made, rows
from tailrace.expressions.evaluate.fmgr.refusals import invalid_parameter, refused
from tailrace.expressions.evaluate.fmgr.vectors import DEFAULT_COLLATION, Facts
from tailrace.expressions.evaluate.json import json_functions
from tailrace.expressions.evaluate.json.jsonb_values import JSON_NULL, Document
from tailrace.expressions.evaluate.numbers.numeric_arithmetic import Numeric, text_of
from tailrace.expressions.evaluate.text_search.default_parser import CharacterClasses, tokens
from tailrace.expressions.evaluate.text_search.tsvector_tsquery import PLACE, Vector, checked_size
from tailrace.types import oids

_SIMPLE_CONFIGURATION, _SIMPLE_DICTIONARY = 3748, 3765
_NOT_INDEXED = frozenset({"SPACE", "TAG", "PROTOCOL", "XMLENTITY"})
_LONGEST_WORD, _MOST_POSITIONS = 2047, 255
_FLAGS = {
    "string": {"string"},
    "numeric": {"numeric"},
    "boolean": {"boolean"},
    "key": {"key"},
    "all": {"string", "numeric", "boolean", "key"},
}
_ASCII_CLASSES = {
    "alnum": string.ascii_letters + string.digits, "alpha": string.ascii_letters, "digit": string.digits, "space": " \t\n\v\f\r",
    "xdigit": string.hexdigits,
}  # fmt: skip
_POSSIBLE = 'Possible values are: "string", "numeric", "boolean", "key", and "all".'


class SimpleConfiguration:
    """Words of a text under the locale of a database, in lower case."""

    def __init__(self, facts: Facts) -> None:
        if facts.provider != LIBC:
            raise refused("the parser of text search in a database whose locale is not libc's")
        is_c = facts.ctype in ("C", "POSIX")
        self.letters = facts.letters(DEFAULT_COLLATION)
        self.classes = CharacterClasses(_of_c if is_c else self.letters.is_in_class)

    def checked(self, text: str) -> str:
        self.letters.check(text, "the parser of text search")
        return text

    def words(self, text: str) -> Iterator[str]:
        """What parsetext finds; each has the next position."""
        for token in tokens(self.checked(text), self.classes):
            if token.type not in _NOT_INDEXED and len(token.text.encode("utf-8", "surrogateescape")) < _LONGEST_WORD:
                yield self.letters.lower(token.text)

    def vector(self, texts: Iterable[str]) -> Vector:
        """make_tsvector; between texts that have words one position is left out."""
        positions: dict[bytes, list[int]] = {}
        last = 0
        for text in texts:
            before = last
            for word in self.words(text):
                last += 1
                place, found = min(last, PLACE), positions.setdefault(word.encode("utf-8", "surrogateescape"), [])
                if not found or (len(found) < _MOST_POSITIONS and found[-1] not in (PLACE, place)):
                    found.append(place)
            last += last > before
        return checked_size([(word, tuple(places)) for word, places in sorted(positions.items())])


def _of_c(name: str, letter: str) -> bool:
    """p_iswhat where the locale is C: beyond ASCII all are letters."""
    if letter > "\x7f":
        return name in ("alnum", "alpha")
    return letter in _ASCII_CLASSES[name]


def of_configuration(function: Callable[..., Any]) -> Implementation:
    """A function whose first argument is the configuration; it is given ours instead."""

    def make(call: FunctionCallInfo) -> Implementation:
        simple = SimpleConfiguration(call.facts)

        def run(configuration: int, *arguments: Any) -> Any:
            if configuration != _SIMPLE_CONFIGURATION:
                raise refused(f"the text search configuration with OID {configuration}, which is not simple")
            return function(simple, *arguments)

        return rows(run)

    return made(make)


def _lexize(call: FunctionCallInfo) -> Implementation:
    simple = SimpleConfiguration(call.facts)

    def run(dictionary: int, text: str) -> Array:
        if dictionary != _SIMPLE_DICTIONARY:
            raise refused(f"the text search dictionary with OID {dictionary}, which is not simple")
        return Array.of_list([simple.letters.lower(simple.checked(text))] if text else [], oids.TEXT)

    return rows(run)


# -- JSON --------------------------------------------------------------------------------------------------------------------------


def _flags(document: Document) -> set[str]:
    """parse_jsonb_index_flags."""
    if isinstance(document, dict):
        raise invalid_parameter("wrong flag type, only arrays and scalars are allowed")
    found: set[str] = set()
    for flag in document if isinstance(document, list) else [document]:
        if not isinstance(flag, str):
            raise invalid_parameter("flag array element is not a string", _POSSIBLE)
        if flag.lower() not in _FLAGS:
            raise invalid_parameter(f'wrong flag in flag array: "{flag}"', _POSSIBLE)
        found |= _FLAGS[flag.lower()]
    return found


def _of_jsonb(document: Document, flags: set[str]) -> Iterator[str]:
    """iterate_jsonb_values."""
    if isinstance(document, dict):
        for key, value in document.items():
            if "key" in flags:
                yield key
            yield from _of_jsonb(value, flags)
    elif isinstance(document, list):
        for value in document:
            yield from _of_jsonb(value, flags)
    elif isinstance(document, bool):
        if "boolean" in flags:
            yield "true" if document else "false"
    elif isinstance(document, Numeric):
        if "numeric" in flags:
            yield text_of(document)
    elif document != JSON_NULL and "string" in flags:
        yield document


def _of_json(text: str, flags: set[str]) -> Iterator[str]:
    """iterate_json_values."""
    match json_functions.kind(text):
        case "object":
            for key, value in json_functions.fields(text):
                if "key" in flags:
                    yield key
                yield from _of_json(value, flags)
        case "array":
            for value in json_functions.elements(text):
                yield from _of_json(value, flags)
        case "string" if "string" in flags:
            yield json_functions.unescaped(text.strip(" \t\n\r"))
        case "boolean" if "boolean" in flags:
            yield text.strip(" \t\n\r")
        case "number" if "numeric" in flags:
            yield text.strip(" \t\n\r")


_STRINGS = {"string"}
FUNCTIONS: dict[str, Implementation] = {
    "ts_lexize": made(_lexize), "to_tsvector_byid": of_configuration(lambda simple, text: simple.vector([text])),
    "jsonb_string_to_tsvector_byid": of_configuration(lambda simple, document: simple.vector(_of_jsonb(document, _STRINGS))),
    "json_string_to_tsvector_byid": of_configuration(lambda simple, text: simple.vector(_of_json(text, _STRINGS))),
    "jsonb_to_tsvector_byid": of_configuration(lambda simple, document, flags: simple.vector(_of_jsonb(document, _flags(flags)))),
    "json_to_tsvector_byid": of_configuration(lambda simple, text, flags: simple.vector(_of_json(text, _flags(flags)))),
}  # fmt: skip
