"""Functions of json (`adt/jsonfuncs.c`), which is text: what they find is cut out of it as it was written."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from typing import Any

from tailrace.expressions.evaluate.fmgr.array_and_record import Array
from tailrace.expressions.evaluate.fmgr.function_calls import FunctionCallInfo, Implementation, made, rows
from tailrace.expressions.evaluate.fmgr.refusals import evaluation_error, invalid_parameter, refused
from tailrace.expressions.evaluate.json.jsonb_functions import place_in, text_pairs, two_arrays
from tailrace.expressions.evaluate.json.jsonb_values import quoted

_BLANKS = " \t\n\r"
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_WORD = re.compile(r"[^\s,\]}:]+")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANKS:
        at += 1
    return at


def _end(text: str, at: int) -> int:
    """Where the value that starts there ends."""
    if text[at] == '"':
        found = _STRING.match(text, at)
        assert found is not None, "a json value is well formed"
        return found.end()
    if text[at] not in "[{":
        found = _WORD.match(text, at)
        assert found is not None, "a json value is well formed"
        return found.end()
    depth = 0
    while True:
        letter = text[at]
        if letter == '"':
            at = _end(text, at)
            continue
        depth += (letter in "[{") - (letter in "]}")
        at += 1
        if depth == 0:
            return at


def elements(text: str) -> list[str]:
    """The elements of an array."""
    at, found = _skip(text, _skip(text, 0) + 1), []
    while text[at] != "]":
        stop = _end(text, at)
        found.append(text[at:stop])
        at = _skip(text, stop)
        at = _skip(text, at + 1) if text[at] == "," else at
    return found


def fields(text: str) -> list[tuple[str, str]]:
    """Keys, without their escapes, and values of an object, in the order in which they were written."""
    at, found = _skip(text, _skip(text, 0) + 1), []
    while text[at] != "}":
        stop = _end(text, at)
        key = unescaped(text[at:stop])
        at = _skip(text, _skip(text, stop) + 1)
        stop = _end(text, at)
        found.append((key, text[at:stop]))
        at = _skip(text, stop)
        at = _skip(text, at + 1) if text[at] == "," else at
    return found


def unescaped(text: str) -> str:
    """A string without its quotes and escapes."""
    body = text[1:-1]
    if "\\" not in body:
        return body

    def one(match: re.Match[str]) -> str:
        if match[1]:
            code = int(match[1], 16)
            if code == 0:
                raise evaluation_error("unsupported Unicode escape sequence", "22P05")
            return chr(code)
        return _LETTERS.get(match[2], match[2])

    found = _ESCAPE.sub(one, body)
    if any("\ud800" <= letter <= "\udfff" for letter in found):
        found = found.encode("utf-16", "surrogatepass").decode("utf-16")
    return found


def kind(text: str) -> str:
    first = text[_skip(text, 0)]
    return {"{": "object", "[": "array", '"': "string", "t": "boolean", "f": "boolean", "n": "null"}.get(first, "number")


def field(text: str, key: str) -> str | None:
    """Of several fields of that name the last one."""
    if kind(text) != "object":
        return None
    return dict(fields(text)).get(key)


def element(text: str, place: int) -> str | None:
    if kind(text) != "array":
        return None
    found = elements(text)
    place = place + len(found) if place < 0 else place
    return found[place] if 0 <= place < len(found) else None


def extract_path(text: str, path: Array) -> str | None:
    if None in path.items:
        return None
    found: str | None = text.strip(_BLANKS)
    for step in path.items:
        assert found is not None
        shape = kind(found)
        if shape == "object":
            found = field(found, step)
        elif shape == "array":
            place = place_in(step)
            found = None if place is None else element(found, place)
        else:
            return None
        if found is None:
            return None
    return found


def as_text(how: Callable[..., str | None]) -> Callable[..., str | None]:
    """The same with strings without quotes, and null as NULL."""

    @wraps(how)
    def run(*arguments: Any) -> str | None:
        found = how(*arguments)
        if found is None or kind(found) == "null":
            return None
        found = found.strip(_BLANKS) if kind(found) == "string" else found
        return unescaped(found) if found.startswith('"') else found

    return run


def _length(text: str) -> int:
    shape = kind(text)
    if shape == "object":
        raise invalid_parameter("cannot get array length of a non-array")
    if shape != "array":
        raise invalid_parameter("cannot get array length of a scalar")
    return len(elements(text))


def _strip_nulls(text: str) -> str:
    """Without blanks, too; strings are escaped anew."""
    text = text.strip(_BLANKS)
    match kind(text):
        case "object":
            kept = [f"{quoted(key)}:{_strip_nulls(each)}" for key, each in fields(text) if kind(each) != "null"]
            return "{" + ",".join(kept) + "}"
        case "array":
            return "[" + ",".join(map(_strip_nulls, elements(text))) + "]"
        case "string":
            return quoted(unescaped(text))
    return text


def _object(pairs: list[tuple[str, str | None]]) -> str:
    return "{" + ", ".join(f"{quoted(key)} : {'null' if value is None else quoted(value)}" for key, value in pairs) + "}"


def _one_argument(call: FunctionCallInfo) -> Implementation:
    if len(call.types) > 1:
        raise refused(f"function {call.function.label} with an option")
    return rows(_strip_nulls)


FUNCTIONS: dict[str, Implementation] = {
    "json_typeof": rows(kind, True), "json_object_field": rows(field), "json_object_field_text": rows(as_text(field)),
    "json_array_element": rows(element),
    "json_array_element_text": rows(as_text(element)), "json_extract_path": rows(extract_path), "json_extract_path_text": rows(as_text(extract_path)),
    "json_array_length": rows(_length), "json_strip_nulls": made(_one_argument), "json_object": rows(lambda pairs: _object(text_pairs(pairs))),
    "json_object_two_arg": rows(lambda keys, values: _object(two_arrays(keys, values))),
}  # fmt: skip
