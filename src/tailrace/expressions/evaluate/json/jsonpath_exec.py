"""jsonpath carried out over jsonb (`adt/jsonpath_exec.c`), without what makes dates, numbers objects, or came with 17: that is refused by name.

An error that a path may suppress is a `PathError`. `found` is where items go, or None where it is only asked whether there is one: then the first
one is enough, and what would fail behind it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tailrace.errors import UsageError
from tailrace.expressions.evaluate.collations import Letters
from tailrace.expressions.evaluate.fmgr.refusals import Refused, evaluation_error, refused
from tailrace.expressions.evaluate.json.jsonb_functions import type_name
from tailrace.expressions.evaluate.json.jsonb_values import JSON_NULL, Document
from tailrace.expressions.evaluate.json.jsonpath_items import (
    COMPARISONS,
    PathError,
    as_double,
    compare_items,
    is_container,
    like_regex,
    scalar_of,
    starts_with,
)
from tailrace.expressions.evaluate.numbers import numeric_arithmetic as numeric
from tailrace.expressions.evaluate.numbers.numeric_arithmetic import Numeric
from tailrace.majors import PATHS_WITHOUT_VARIABLES, supports
from tailrace.types.json.jsonpath import EVER, JsonPathItem, is_lax, root_of

Found = list[Document] | None
_ARITHMETIC = {"+": numeric.add, "-": numeric.subtract, "*": numeric.multiply, "/": numeric.divide, "%": numeric.remainder}
_NUMERIC_METHODS: dict[str, Callable[[Numeric], Numeric]] = {
    "abs": lambda value: Numeric(abs(value.digits), value.scale), "floor": numeric.floor, "ceiling": numeric.ceiling,
}  # fmt: skip
_PREDICATES = frozenset({*COMPARISONS, "&&", "||", "!", "is unknown", "exists", "starts with", "like_regex"})
_LITERALS = frozenset({"null", "bool", "numeric", "string", "variable"})


def execute_path(
    path: bytes, variables: Document, document: Document, silent: bool, found: Found, letters: Letters, major: int
) -> bool | None:
    """executeJsonPath: whether there are items; None where the path failed and is to be silent about it."""
    if variables is not None and not isinstance(variables, dict):
        raise evaluation_error('"vars" argument is not an object', "22023")
    execution = _Execution(variables, document, is_lax(path), not silent, letters, major)
    wanted: Found = [] if found is None and not execution.lax else found
    try:
        there = execution.item(root_of(path, major), document, wanted)
    except PathError as error:
        if silent:
            return None
        raise error.error from error
    return bool(wanted) if found is None and wanted is not None else there


def _children(document: Document) -> list[Document]:
    return list(document.values()) if isinstance(document, dict) else document


class _Execution:
    """JsonPathExecContext."""

    def __init__(self, variables: Document, root: Document, lax: bool, throw: bool, letters: Letters, major: int) -> None:
        self.variables, self.root, self.current, self.lax, self.letters, self.major = variables, root, root, lax, letters, major
        self.ignores_structure, self.throws, self.size = lax, throw, -1

    @contextmanager
    def having(self, name: str, value: object) -> Iterator[None]:
        before = getattr(self, name)
        setattr(self, name, value)
        try:
            yield
        finally:
            setattr(self, name, before)

    def structural(self, message: str, sqlstate: str) -> bool:
        """An error where the document is not as the path wants it, which lax mode forgives."""
        if not self.ignores_structure:
            raise PathError(message, sqlstate)
        return False

    # -- items -----------------------------------------------------------------------------------------------------------------

    def item(self, item: JsonPathItem, document: Document, found: Found, unwrap: bool | None = None) -> bool:
        """executeItemOptUnwrapTarget: an array is unwrapped for what wants none, in lax mode if nobody says otherwise."""
        kind, unwrap = item.kind, self.lax if unwrap is None else unwrap
        if kind in _PREDICATES:
            state = self.predicate(item, document)
            if item.following is None and found is None:
                return True
            return self.next(item, JSON_NULL if state is None else state, found)
        if kind in _LITERALS:
            return self.literal(item, found)
        if kind in _ARITHMETIC:
            return self.arithmetic(item, document, found)
        if kind in ("plus", "minus"):
            return self.sign(item, document, found)
        if isinstance(document, list) and unwrap and kind in (*_UNWRAPPING, *_NUMERIC_METHODS):
            return self.any_item(item, document, found, unwrap=False)
        if kind in _NUMERIC_METHODS:
            return self.numeric_method(item, document, found)
        if kind not in _ITEMS:
            raise refused(f"the jsonpath item method .{kind.removesuffix('()')}()")
        return _ITEMS[kind](self, item, document, found)

    def next(self, item: JsonPathItem, document: Document, found: Found) -> bool:
        if item.following is not None:
            return self.item(item.following, document, found)
        if found is not None:
            found.append(document)
        return True

    def any_item(
        self,
        item: JsonPathItem | None,
        document: Document,
        found: Found,
        level: int = 1,
        first: int = 1,
        last: int = 1,
        *,
        unwrap: bool,
    ) -> bool:
        """executeAnyItem: what is at these levels below."""
        there = False
        for each in _children(document) if level <= last else ():
            if level >= first or (first == last == EVER and not is_container(each)):
                if item is not None:
                    there = self.item(item, each, found, unwrap)
                elif found is None:
                    return True
                else:
                    found.append(each)
                if there and found is None:
                    return True
            if level < last and is_container(each):
                there = self.any_item(item, each, found, level + 1, first, last, unwrap=unwrap)
                if there and found is None:
                    return True
        return there

    def key(self, item: JsonPathItem, document: Document, found: Found) -> bool:
        if not isinstance(document, dict):
            return self.structural("jsonpath member accessor can only be applied to an object", "2203A")
        key = item.text_at(1)
        if key in document:
            return self.next(item, document[key], found)
        return self.structural(f'JSON object does not contain key "{key}"', "2203A")

    def any_key(self, item: JsonPathItem, document: Document, found: Found) -> bool:
        if isinstance(document, dict):
            return self.any_item(item.following, document, found, unwrap=self.lax)
        return self.structural("jsonpath wildcard member accessor can only be applied to an object", "2203C")

    def any_array(self, item: JsonPathItem, document: Document, found: Found) -> bool:
        if isinstance(document, list):
            return self.any_item(item.following, document, found, unwrap=self.lax)
        if self.lax:
            return self.next(item, document, found)
        return self.structural("jsonpath wildcard array accessor can only be applied to an array", "22039")

    def index(self, item: JsonPathItem, document: Document, found: Found) -> bool:
        if not isinstance(document, list) and not self.lax:
            return self.structural("jsonpath array accessor can only be applied to an array", "22039")
        elements, there = document if isinstance(document, list) else [document], False
        with self.having("size", len(elements)):
            for number in range(item.word(1)):
                low = self.subscript(item.node(2 + 2 * number), document)
                upper = item.node(3 + 2 * number)
                high = low if upper is None else self.subscript(upper, document)
                if not self.ignores_structure and (low < 0 or low > high or high >= len(elements)):
                    raise PathError("jsonpath array subscript is out of bounds", "22033")
                there = False
                for each in elements[max(low, 0) : max(high + 1, 0)]:
                    there = self.next(item, each, found)
                    if there and found is None:
                        return True
        return there

    def subscript(self, item: JsonPathItem | None, document: Document) -> int:
        """getArrayIndex."""
        found: list[Document] = []
        assert item is not None
        self.item(item, document, found)
        if len(found) != 1 or not isinstance(found[0], Numeric):
            raise PathError("jsonpath array subscript is not a single numeric value", "22033")
        index = numeric.truncated(found[0], 0).digits
        if not -(1 << 31) <= index < 1 << 31:
            raise PathError("jsonpath array subscript is out of integer range", "22033")
        return index

    def any(self, item: JsonPathItem, document: Document, found: Found) -> bool:
        """.**"""
        there, failed, first = False, None, item.word(1)
        with self.having("ignores_structure", True):
            if first == 0:
                try:
                    there = self.next(item, document, found)
                except PathError as error:
                    if self.throws:
                        raise
                    failed = error
                if there and found is None:
                    return True
            if is_container(document):
                return self.any_item(item.following, document, found, 1, first, item.word(2), unwrap=self.lax)
        if failed is not None:
            raise failed
        return there

    def filter(self, item: JsonPathItem, document: Document, found: Found) -> bool:
        with self.having("current", document):
            state = self.predicate(item.argument(1), document)
        return state is True and self.next(item, document, found)

    def literal(self, item: JsonPathItem, found: Found) -> bool:
        if item.following is None and found is None and item.kind != "variable":
            return True
        return self.next(item, self.variable(item.text_at(1)) if item.kind == "variable" else scalar_of(item), found)

    def variable(self, name: str) -> Document:
        if self.variables is None and not supports(self.major, PATHS_WITHOUT_VARIABLES):
            return JSON_NULL
        if name not in (self.variables or {}):
            raise evaluation_error(f'could not find jsonpath variable "{name}"', "42704")
        return self.variables[name]

    def count(self, item: JsonPathItem, document: Document, found: Found) -> bool:
        if not isinstance(document, list) and not self.lax:
            return self.structural("jsonpath item method .size() can only be applied to an array", "22039")
        return self.next(item, Numeric(len(document) if isinstance(document, list) else 1), found)

    # -- numbers ---------------------------------------------------------------------------------------------------------------

    def arithmetic(self, item: JsonPathItem, document: Document, found: Found) -> bool:
        operands: list[list[Document]] = [[], []]
        for number, values in enumerate(operands, 1):
            self.unwrapped(item.argument(number), document, values)
        for side, values in zip(("left", "right"), operands, strict=True):
            if len(values) != 1 or not isinstance(values[0], Numeric):
                raise PathError(f"{side} operand of jsonpath operator {item.kind} is not a single numeric value", "22038")
        try:
            result = _ARITHMETIC[item.kind](operands[0][0], operands[1][0])
        except Refused:
            raise
        except UsageError as error:
            raise PathError(error.message, error.sqlstate) from error
        return self.next(item, result, found)

    def sign(self, item: JsonPathItem, document: Document, found: Found) -> bool:
        values: list[Document] = []
        self.unwrapped(item.argument(1), document, values)
        there, is_enough = False, item.following is None and found is None
        for value in values:
            if isinstance(value, Numeric):
                there = is_enough or self.next(item, numeric.negative(value) if item.kind == "minus" else value, found) or there
                if there and found is None:
                    return True
            elif not is_enough:
                sign = "-" if item.kind == "minus" else "+"
                raise PathError(f"operand of unary jsonpath operator {sign} is not a numeric value", "2203B")
        return there

    def numeric_method(self, item: JsonPathItem, document: Document, found: Found) -> bool:
        if not isinstance(document, Numeric):
            raise PathError(f"jsonpath item method .{item.kind}() can only be applied to a numeric value", "22036")
        return self.next(item, _NUMERIC_METHODS[item.kind](document), found)

    def double(self, item: JsonPathItem, document: Document, found: Found) -> bool:
        return self.next(item, as_double(document, self.major), found)

    # -- predicates ------------------------------------------------------------------------------------------------------------

    def predicate(self, item: JsonPathItem, document: Document) -> bool | None:
        """executeBoolItem: None is unknown."""
        match item.kind:
            case "&&" | "||" as kind:
                decisive = kind == "||"
                left = self.predicate(item.argument(1), document)
                if left is decisive:
                    return decisive
                right = self.predicate(item.argument(2), document)
                return left if right is (not decisive) else right
            case "!":
                inner = self.predicate(item.argument(1), document)
                return None if inner is None else not inner
            case "is unknown":
                return self.predicate(item.argument(1), document) is None
            case "exists":
                return self.exists(item.argument(1), document)
            case "like_regex":
                return self.pairs(item.argument(2), None, document, lambda text, _: like_regex(item, text, self.letters))
            case "starts with":
                return self.pairs(item.argument(1), item.argument(2), document, starts_with, unwrap=False)
            case kind:
                return self.pairs(item.argument(1), item.argument(2), document, lambda one, two: compare_items(kind, one, two))

    def exists(self, item: JsonPathItem, document: Document) -> bool | None:
        values: Found = None if self.lax else []
        with self.having("throws", False):
            try:
                there = self.item(item, document, values)
            except PathError:
                return None
        return there if values is None else bool(values)

    def unwrapped(self, item: JsonPathItem, document: Document, values: list[Document], unwrap: bool = True) -> None:
        """executeItemOptUnwrapResult: in lax mode the elements of what is an array."""
        if not (unwrap and self.lax):
            self.item(item, document, values)
            return
        inner: list[Document] = []
        self.item(item, document, inner)
        for each in inner:
            values += each if isinstance(each, list) else [each]

    def pairs(
        self,
        left: JsonPathItem,
        right: JsonPathItem | None,
        document: Document,
        test: Callable[[Any, Any], bool | None],
        unwrap: bool = True,
    ) -> bool | None:
        """executePredicate: whether it is true of any pair; in strict mode of all that there are, if none is unknown."""
        lefts: list[Document] = []
        rights: list[Document] = [] if right is not None else [None]
        with self.having("throws", False):
            try:
                self.unwrapped(left, document, lefts)
                if right is not None:
                    self.unwrapped(right, document, rights, unwrap)
            except PathError:
                return None
        states = (test(one, two) for one in lefts for two in rights)
        if self.lax:
            seen = False
            for state in states:
                if state:
                    return True
                seen = seen or state is None
            return None if seen else False
        held = False
        for state in states:
            if state is None:
                return None
            held = held or state
        return held


_UNWRAPPING = ("key", ".*", "?", "double")
"""What asks the elements of an array in its place, in lax mode."""
_ITEMS: dict[str, Callable[[_Execution, JsonPathItem, Document, Found], bool]] = {
    "key": _Execution.key, ".*": _Execution.any_key, "[*]": _Execution.any_array, "index": _Execution.index, "**": _Execution.any,
    "?": _Execution.filter, "size": _Execution.count, "double": _Execution.double,
    "$": lambda self, item, _, found: self.next(item, self.root, found), "@": lambda self, item, _, found: self.next(item, self.current, found),
    "last": lambda self, item, _, found: self.next(item, Numeric(self.size - 1), found),
    "type": lambda self, item, document, found: self.next(item, type_name(document), found),
}  # fmt: skip
