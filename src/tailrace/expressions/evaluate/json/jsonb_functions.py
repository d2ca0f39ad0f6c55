"""Functions of jsonb (`adt/jsonfuncs.c`, `adt/jsonb_op.c`), on documents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tailrace.expressions.evaluate.comparison import type_comparison
from tailrace.expressions.evaluate.comparison.text_comparison import text_comparison
from tailrace.expressions.evaluate.fmgr.array_and_record import Array
from tailrace.expressions.evaluate.fmgr.function_calls import FunctionCallInfo, Implementation, made, rows
from tailrace.expressions.evaluate.fmgr.refusals import evaluation_error, invalid_parameter
from tailrace.expressions.evaluate.fmgr.vectors import DEFAULT_COLLATION, Facts
from tailrace.expressions.evaluate.json.jsonb_values import (
    JSON_NULL,
    Document,
    as_text,
    compare,
    contains,
    equal,
    is_scalar,
    ordered,
    pretty,
)
from tailrace.expressions.evaluate.numbers.numeric_arithmetic import Numeric
from tailrace.expressions.evaluate.numbers.numeric_functions import FUNCTIONS as NUMERICS
from tailrace.majors import JSON_NULL_CASTS, supports
from tailrace.types import oids

_KINDS = {bool: "boolean", str: "string", Numeric: "numeric", list: "array", dict: "object"}


def kind_of(document: Document) -> str:
    return _KINDS.get(type(document), "null")


def type_name(document: Document) -> str:
    return "number" if isinstance(document, Numeric) else kind_of(document)


def field(document: Document, key: str) -> Document | None:
    return document.get(key) if isinstance(document, dict) else None


def element(document: Document, place: int) -> Document | None:
    if not isinstance(document, list):
        return None
    if place < 0:
        place += len(document)
    return document[place] if 0 <= place < len(document) else None


def _top_element(document: Document, place: int) -> Document | None:
    """A scalar that stands alone is stored as an array of one."""
    return element([document] if is_scalar(document) else document, place)


def _text(how: Callable[..., Document | None]) -> Callable[..., str | None]:
    def run(*arguments: Any) -> str | None:
        found = how(*arguments)
        return None if found is None else as_text(found)

    return run


def place_in(text: str) -> int | None:
    """A path's step into an array: a number, or nothing (`strtoint`)."""
    stripped = text.lstrip(" \t\n\v\f\r")
    digits = stripped[1:] if stripped[:1] in ("-", "+") else stripped
    if not digits.isascii() or not digits.isdigit():
        return None
    found = int(stripped)
    return found if -(1 << 31) <= found < 1 << 31 else None


def extract_path(document: Document, path: Array) -> Document | None:
    if None in path.items:
        return None
    if not path.items:
        return document
    found: Document | None = document
    for step in path.items:
        if isinstance(found, dict):
            found = found.get(step)
        elif isinstance(found, list):
            place = place_in(step)
            found = None if place is None else element(found, place)
        else:
            return None
        if found is None:
            return None
    return found


def _length(document: Document) -> int:
    if is_scalar(document):
        raise invalid_parameter("cannot get array length of a scalar")
    if not isinstance(document, list):
        raise invalid_parameter("cannot get array length of a non-array")
    return len(document)


def strip_nulls(document: Document, in_arrays: bool = False) -> Document:
    if isinstance(document, dict):
        return {key: strip_nulls(each, in_arrays) for key, each in document.items() if each != JSON_NULL}
    if isinstance(document, list):
        return [strip_nulls(each, in_arrays) for each in document if not (in_arrays and each == JSON_NULL)]
    return document


def exists(document: Document, key: str) -> bool:
    """A key, an element that is a string, or a string itself."""
    if isinstance(document, dict):
        return key in document
    if isinstance(document, list):
        return any(isinstance(each, str) and each == key for each in document)
    return isinstance(document, str) and document == key


def _exists_many(how: Callable[[Any], bool]) -> Callable[[Document, Array], bool]:
    return lambda document, keys: how(exists(document, key) for key in keys.items if key is not None)


def concatenated(left: Document, right: Document) -> Document:
    if isinstance(left, dict) and isinstance(right, dict):
        return ordered({**left, **right})
    if (isinstance(left, dict) and is_scalar(right)) or (isinstance(right, dict) and is_scalar(left)):
        return [left, right]
    return (left if isinstance(left, list) else [left]) + (right if isinstance(right, list) else [right])


def _no_scalar(document: Document, doing: str = "delete from") -> None:
    if is_scalar(document):
        raise invalid_parameter(f"cannot {doing} scalar")


def delete_keys(document: Document, keys: list[str | None]) -> Document:
    _no_scalar(document)
    if isinstance(document, dict):
        return {key: each for key, each in document.items() if key not in keys}
    return [each for each in document if not (isinstance(each, str) and each in keys)]


def delete_element(document: Document, place: int) -> Document:
    _no_scalar(document)
    if isinstance(document, dict):
        raise invalid_parameter("cannot delete from object using integer index")
    place = place + len(document) if place < 0 else place
    return [each for number, each in enumerate(document) if number != place]


DELETE, CREATE, REPLACE, INSERT_BEFORE, INSERT_AFTER = range(5)


def set_path(document: Document, path: list[str | None], new: Document, how: int, create: bool, level: int = 0) -> Document:
    """What becomes of a document at a path (`setPath`); where the path leads nowhere it stays as it is."""
    if level == 0 and not path:
        return document
    step = path[level]
    if step is None:
        raise evaluation_error(f"path element at position {level + 1} is null", "22004")
    last = level == len(path) - 1
    if isinstance(document, dict):
        return _set_field(document, step, path, new, how, create, level) if last or step in document else document
    if not isinstance(document, list):
        return document
    place = place_in(step)
    if place is None:
        raise evaluation_error(f'path element at position {level + 1} is not an integer: "{step}"', "22P02")
    return _set_element(document, place, path, new, how, create, level)


def _set_field(
    document: dict[str, Document], step: str, path: list[str | None], new: Document, how: int, create: bool, level: int
) -> Document:
    if level < len(path) - 1:
        return {key: set_path(each, path, new, how, create, level + 1) if key == step else each for key, each in document.items()}
    if step in document:
        if how == DELETE:
            return {key: each for key, each in document.items() if key != step}
        if how in (INSERT_BEFORE, INSERT_AFTER):
            raise invalid_parameter("cannot replace existing key", "Try using the function jsonb_set to replace key value.")
        return {**document, step: new}
    return ordered({**document, step: new}) if how != DELETE and create else document


def _set_element(
    document: list[Document], place: int, path: list[str | None], new: Document, how: int, create: bool, level: int
) -> Document:
    count = len(document)
    if place < 0:
        place = place + count if -place <= count else -(1 << 31)
    if level < len(path) - 1:
        return [
            set_path(each, path, new, how, create, level + 1) if number == place else each for number, each in enumerate(document)
        ]
    if how == DELETE:
        return [each for number, each in enumerate(document) if number != place]
    if 0 <= place < count:
        if how == INSERT_BEFORE:
            return [*document[:place], new, *document[place:]]
        if how == INSERT_AFTER:
            return [*document[: place + 1], new, *document[place + 1 :]]
        return [*document[:place], new, *document[place + 1 :]]
    if not create:
        return document
    return [new, *document] if place < 0 else [*document, new]


def _path_of(path: Array) -> list[str | None]:
    if len(path.lengths) > 1:
        raise evaluation_error("wrong number of array subscripts", "2202E")
    return path.items


def _delete_path(document: Document, path: Array) -> Document:
    steps = _path_of(path)
    _no_scalar(document, "delete path in")
    return set_path(document, steps, None, DELETE, False) if document and steps else document


def _set(document: Document, path: Array, new: Document, create: bool) -> Document:
    steps = _path_of(path)
    _no_scalar(document, "set path in")
    return set_path(document, steps, new, REPLACE, create) if (document or create) and steps else document


def _insert(document: Document, path: Array, new: Document, after: bool) -> Document:
    steps = _path_of(path)
    _no_scalar(document, "set path in")
    return set_path(document, steps, new, INSERT_AFTER if after else INSERT_BEFORE, True) if steps else document


def _set_lax(
    document: Document | None, path: Array | None, new: Document | None, create: bool | None, treatment: str | None
) -> Document | None:
    if document is None or path is None or create is None:
        return None
    if treatment is None:
        raise invalid_parameter(
            'null_value_treatment must be "delete_key", "return_target", "use_json_null", or "raise_exception"'
        )
    if new is not None:
        return _set(document, path, new, create)
    match treatment:
        case "raise_exception":
            raise evaluation_error("JSON value must not be null", "22004")
        case "use_json_null":
            return _set(document, path, JSON_NULL, create)
        case "delete_key":
            return _delete_path(document, path)
        case "return_target":
            return document
    raise invalid_parameter('null_value_treatment must be "delete_key", "return_target", "use_json_null", or "raise_exception"')


def _object(pairs: Array) -> Document:
    """jsonb_object(text[]): keys and values by turns, or pairs."""
    return ordered({key: JSON_NULL if value is None else value for key, value in text_pairs(pairs)})


def text_pairs(pairs: Array) -> list[tuple[str, str | None]]:
    match pairs.lengths:
        case ():
            return []
        case (count,):
            if count % 2:
                raise evaluation_error("array must have even number of elements", "2202E")
        case (_, 2):
            pass
        case (_, _):
            raise evaluation_error("array must have two columns", "2202E")
        case _:
            raise evaluation_error("wrong number of array subscripts", "2202E")
    return named_pairs(pairs.items[::2], pairs.items[1::2])


def named_pairs(keys: list[Any], values: list[Any]) -> list[tuple[str, str | None]]:
    if None in keys:
        raise evaluation_error("null value not allowed for object key", "22004")
    return list(zip(keys, values, strict=True))


def two_arrays(keys: Array, values: Array) -> list[tuple[str, str | None]]:
    if len(keys.lengths) > 1 or len(keys.lengths) != len(values.lengths):
        raise evaluation_error("wrong number of array subscripts", "2202E")
    if len(keys.items) != len(values.items):
        raise evaluation_error("mismatched array dimensions", "2202E")
    return named_pairs(keys.items, values.items)


def _cast(label: str, convert: Callable[[Numeric], Any]) -> Implementation:
    def make(call: FunctionCallInfo) -> Implementation:
        nulls = supports(call.facts.style.major, JSON_NULL_CASTS)

        def run(document: Document) -> Any:
            if label == "boolean" and isinstance(document, bool):
                return document
            if label != "boolean" and isinstance(document, Numeric):
                return convert(document)
            if nulls and document == JSON_NULL:
                return None
            noun = kind_of(document)
            phrase = f"jsonb {noun}"
            raise invalid_parameter(f"cannot cast {phrase} to type {label}")

        return rows(run)

    return made(make)


def _numeric_to(symbol: str) -> Callable[[Numeric], Any]:
    function = NUMERICS[symbol].rows
    assert function is not None
    return function


def _strings(facts: Facts) -> type_comparison.Compare:
    """Strings in documents are ordered by the database's collation, whatever the expression says."""
    return text_comparison(facts, DEFAULT_COLLATION, False)


def _ordered_test(test: Callable[[int], Any]) -> Implementation:
    def make(call: FunctionCallInfo) -> Implementation:
        strings = _strings(call.facts)
        return rows(lambda left, right: test(compare(left, right, strings)), True)

    return made(make)


def _ordering(facts: Facts) -> type_comparison.Compare:
    strings = _strings(facts)
    return lambda left, right: compare(left, right, strings)


type_comparison.register_order(oids.JSONB, _ordering)

FUNCTIONS: dict[str, Implementation] = {
    "jsonb_object_field": rows(field, True), "jsonb_object_field_text": rows(_text(field), True), "jsonb_array_element": rows(_top_element, True),
    "jsonb_array_element_text": rows(_text(_top_element), True), "jsonb_extract_path": rows(extract_path, True),
    "jsonb_extract_path_text": rows(_text(extract_path), True), "jsonb_typeof": rows(type_name, True), "jsonb_array_length": rows(_length),
    "jsonb_strip_nulls": rows(strip_nulls, True), "jsonb_pretty": rows(pretty, True), "jsonb_exists": rows(exists, True),
    "jsonb_exists_any": rows(_exists_many(any), True), "jsonb_exists_all": rows(_exists_many(all), True), "jsonb_contains": rows(contains, True),
    "jsonb_contained": rows(lambda left, right: contains(right, left), True), "jsonb_concat": rows(concatenated),
    "jsonb_delete": rows(lambda document, key: delete_keys(document, [key])), "jsonb_delete_idx": rows(delete_element),
    "jsonb_delete_array": rows(lambda document, keys: delete_keys(document, [key for key in _path_of(keys) if key is not None])),
    "jsonb_delete_path": rows(_delete_path), "jsonb_set": rows(_set), "jsonb_insert": rows(_insert), "jsonb_set_lax": rows(_set_lax),
    "jsonb_object": rows(_object),
    "jsonb_object_two_arg": rows(lambda keys, values: ordered({key: JSON_NULL if each is None else each for key, each in two_arrays(keys, values)})),
    "jsonb_eq": rows(equal, True), "jsonb_ne": rows(lambda left, right: not equal(left, right), True),
    "jsonb_lt": _ordered_test(lambda found: found < 0), "jsonb_le": _ordered_test(lambda found: found <= 0),
    "jsonb_cmp": _ordered_test(lambda found: found),
    "jsonb_gt": _ordered_test(lambda found: found > 0), "jsonb_ge": _ordered_test(lambda found: found >= 0),
    "jsonb_bool": _cast("boolean", lambda value: value), "jsonb_numeric": _cast("numeric", lambda value: value),
    "jsonb_int2": _cast("smallint", _numeric_to("numeric_int2")), "jsonb_int4": _cast("integer", _numeric_to("numeric_int4")),
    "jsonb_int8": _cast("bigint", _numeric_to("numeric_int8")), "jsonb_float4": _cast("real", _numeric_to("numeric_float4")),
    "jsonb_float8": _cast("double precision", _numeric_to("numeric_float8")),
}  # fmt: skip
