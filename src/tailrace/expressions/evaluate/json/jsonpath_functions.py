"""Functions and operators that carry out a jsonpath (`adt/jsonpath_exec.c`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tailrace.expressions.evaluate.fmgr.function_calls import FunctionCallInfo, Implementation, made, rows
from tailrace.expressions.evaluate.fmgr.refusals import evaluation_error, refused
from tailrace.expressions.evaluate.fmgr.vectors import DEFAULT_COLLATION
from tailrace.expressions.evaluate.json.jsonb_values import JSON_NULL, Document
from tailrace.expressions.evaluate.json.jsonpath_exec import Found, execute_path

Execute = Callable[[bytes, Document, Document, bool, Found], bool | None]


def _exists(execute: Execute, document: Document, path: bytes, variables: Document = None, silent: bool = True) -> bool | None:
    return execute(path, variables, document, silent, None)


def _match(execute: Execute, document: Document, path: bytes, variables: Document = None, silent: bool = True) -> bool | None:
    found: list[Document] = []
    execute(path, variables, document, silent, found)
    if len(found) == 1 and isinstance(found[0], bool):
        return found[0]
    if silent or (len(found) == 1 and found[0] == JSON_NULL):
        return None
    raise evaluation_error("single boolean result is expected", "22038")


def _query(execute: Execute, document: Document, path: bytes, variables: Document, silent: bool) -> list[Document]:
    found: list[Document] = []
    execute(path, variables, document, silent, found)
    return found


def _query_first(*arguments: Any) -> Document | None:
    found = _query(*arguments)
    return found[0] if found else None


def _of_path(function: Callable[..., Any]) -> Implementation:
    def make(call: FunctionCallInfo) -> Implementation:
        if call.facts.encoding != "UTF8":
            raise refused(f"function {call.function.label} in a database whose encoding is {call.facts.encoding}")
        letters, major = call.facts.letters(DEFAULT_COLLATION), call.facts.style.major
        return rows(partial(function, partial(execute_path, letters=letters, major=major)))

    return made(make)


FUNCTIONS: dict[str, Implementation] = {
    "jsonb_path_exists": _of_path(_exists), "jsonb_path_exists_opr": _of_path(_exists), "jsonb_path_match": _of_path(_match),
    "jsonb_path_match_opr": _of_path(_match), "jsonb_path_query_array": _of_path(_query), "jsonb_path_query_first": _of_path(_query_first),
}  # fmt: skip
