"""Arrays (`adt/arrayfuncs.c`, `adt/array_userfuncs.c`): an `Array` of elements in their working form."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from tailrace.expressions.evaluate.comparison import type_comparison
from tailrace.expressions.evaluate.fmgr.array_and_record import Array
from tailrace.expressions.evaluate.fmgr.datum_forms import reader_of, register_form, register_kind, type_of
from tailrace.expressions.evaluate.fmgr.function_calls import FunctionCallInfo, Implementation, made, rows
from tailrace.expressions.evaluate.fmgr.refusals import evaluation_error, out_of_range, refused
from tailrace.expressions.evaluate.fmgr.vectors import Facts
from tailrace.model import PgType
from tailrace.types import oids
from tailrace.types.codec.inner_values import WORD, read_value


def read_array(pg_type: PgType, encoding: str) -> Callable[[bytes], Array]:
    """The reader of a stored array (`utils/array.h`)."""
    element = pg_type.element
    assert element is not None
    read = reader_of(element, encoding)

    def run(payload: bytes) -> Array:
        dimensions, data_offset, oid = struct.unpack_from("<iiI", payload)
        bounds = struct.unpack_from(f"<{2 * dimensions}i", payload, 12)
        shape = Array(bounds[:dimensions], bounds[dimensions:], [], oid)
        bitmap = 12 + 8 * dimensions
        at = data_offset or WORD + bitmap + (-(WORD + bitmap) % 8)
        items: list[Any] = []
        for number in range(shape.size):
            if data_offset and not payload[bitmap + number // 8] >> number % 8 & 1:
                items.append(None)
                continue
            raw, at = read_value(payload, at, element.length, element.align)
            items.append(read(raw))
        return Array(shape.lengths, shape.lowers, items, element.oid)

    return run


register_kind("a", read_array)


def _vector_reader(width: str, element: int) -> Callable[[str], Callable[[bytes], Array]]:
    """int2vector and oidvector: one dimension from 0 on, no NULL."""

    def run(payload: bytes) -> Array:
        (count,) = struct.unpack_from("<i", payload, 12)
        return Array((count,), (0,), list(struct.unpack_from(f"<{count}{width}", payload, 20)), element)

    return lambda encoding: run


register_form(oids.INT2VECTOR, _vector_reader("h", oids.INT2))
register_form(oids.OIDVECTOR, _vector_reader("I", oids.OID))


def compare_arrays(compare: type_comparison.Compare) -> type_comparison.Compare:
    """By elements, then by how many, then by their shape; NULL is above all (`array_cmp`)."""

    def run(left: Array, right: Array) -> int:
        for mine, other in zip(left.items, right.items, strict=False):
            if mine is None or other is None:
                if (mine is None) != (other is None):
                    return 1 if mine is None else -1
                continue
            found = compare(mine, other)
            if found:
                return -1 if found < 0 else 1
        shapes = ((len(left.items), len(left.lengths)), (len(right.items), len(right.lengths)))
        if shapes[0] != shapes[1]:
            return type_comparison.plain(*shapes)
        for mine, other in zip((*left.lengths, *left.lowers), (*right.lengths, *right.lowers), strict=True):
            if mine != other:
                return type_comparison.plain(mine, other)
        return 0

    return run


def _array_order(type_oid: int, facts: Facts, collation: int) -> type_comparison.Compare:
    element = type_of(type_oid).element
    assert element is not None
    return compare_arrays(type_comparison.comparison(element.oid, facts, collation))


type_comparison.register_kind_order("a", _array_order)


def element_of(type_oid: int) -> int:
    element = type_of(type_oid).element
    if element is None:
        raise refused(f'elements of "{type_of(type_oid).label}"')
    return element.oid


def _compared(test: Callable[[int], Any]) -> Implementation:
    def make(call: FunctionCallInfo) -> Implementation:
        compare = compare_arrays(type_comparison.comparison(element_of(call.types[0]), call.facts, call.collation))
        return rows(lambda left, right: test(compare(left, right)), True)

    return made(make)


def _equal(negated: bool) -> Implementation:
    def make(call: FunctionCallInfo) -> Implementation:
        equal = type_comparison.equality(element_of(call.types[0]), call.facts)

        def run(left: Array, right: Array) -> bool:
            if left.lengths != right.lengths or left.lowers != right.lowers:
                return negated
            pairs = zip(left.items, right.items, strict=True)
            same = all(
                (mine is None and other is None) or (mine is not None and other is not None and equal(mine, other))
                for mine, other in pairs
            )
            return same != negated

        return rows(run, True)

    return made(make)


def _pick(larger: bool) -> Implementation:
    def make(call: FunctionCallInfo) -> Implementation:
        compare = compare_arrays(type_comparison.comparison(element_of(call.types[0]), call.facts, call.collation))
        return rows(lambda left, right: left if (compare(left, right) > 0) == larger and compare(left, right) else right, True)

    return made(make)


def _related(how: Callable[[Array, Array, Callable[[Any, Any], bool]], bool]) -> Implementation:
    def make(call: FunctionCallInfo) -> Implementation:
        equal = type_comparison.equality(element_of(call.types[0]), call.facts)
        return rows(lambda left, right: how(left, right, equal), True)

    return made(make)


def _contains(left: Array, right: Array, equal: Callable[[Any, Any], bool]) -> bool:
    """Whether each element of the right array is in the left one; NULL is in none."""
    return all(each is not None and any(mine is not None and equal(mine, each) for mine in left.items) for each in right.items)


def _overlaps(left: Array, right: Array, equal: Callable[[Any, Any], bool]) -> bool:
    return any(mine is not None and other is not None and equal(mine, other) for mine in left.items for other in right.items)


def _dimension(how: Callable[[Array, int], int]) -> Callable[[Array, int], int | None]:
    def run(array: Array, dimension: int) -> int | None:
        return how(array, dimension - 1) if 0 < dimension <= len(array.lengths) else None

    return run


def _shape_text(array: Array) -> str | None:
    if not array.lengths:
        return None
    return "".join(f"[{low}:{low + length - 1}]" for length, low in zip(array.lengths, array.lowers, strict=True))


def _same_or_absent(call: FunctionCallInfo, place: int = 0) -> Callable[[Any, Any], bool]:
    equal = type_comparison.equality(element_of(call.types[place]), call.facts)
    return lambda mine, other: (mine is None and other is None) or (mine is not None and other is not None and equal(mine, other))


def _positions(first: bool) -> Implementation:
    def make(call: FunctionCallInfo) -> Implementation:
        same = _same_or_absent(call)

        def run(array: Array | None, wanted: Any, start: int | None = 1) -> Any:
            if array is None:
                return None
            if len(array.lengths) > 1:
                raise evaluation_error("searching for elements in multidimensional arrays is not supported", "0A000")
            if start is None:
                raise evaluation_error("initial position must not be null", "22004")
            low = array.lowers[0] if array.lengths else 1
            found = [low + place for place, each in enumerate(array.items) if same(each, wanted)]
            if not first:
                return Array.of_list(found, oids.INT4)
            later = [each for each in found if each >= start] if len(call.types) > 2 else found
            return later[0] if later else None

        return rows(run)

    return made(make)


def _append(call: FunctionCallInfo) -> Implementation:
    element = element_of(call.types[0])

    def run(array: Array | None, new: Any) -> Array:
        array = array or Array((), (), [], element)
        if len(array.lengths) > 1:
            raise evaluation_error("argument must be empty or one-dimensional array", "22000")
        if array.lengths and array.lowers[0] + array.lengths[0] > 0x7FFFFFFF:
            raise out_of_range("integer")
        return Array((len(array.items) + 1,), array.lowers or (1,), [*array.items, new], element)

    return rows(run)


def _prepend(call: FunctionCallInfo) -> Implementation:
    element = element_of(call.types[1])

    def run(new: Any, array: Array | None) -> Array:
        array = array or Array((), (), [], element)
        if len(array.lengths) > 1:
            raise evaluation_error("argument must be empty or one-dimensional array", "22000")
        return Array((len(array.items) + 1,), array.lowers or (1,), [new, *array.items], element)

    return rows(run)


def concatenated(left: Array | None, right: Array | None) -> Array | None:
    """array_cat: dimensions must fit, or differ by one."""
    if left is None or right is None:
        return left if right is None else right
    if not left.lengths or not right.lengths:
        return left if not right.lengths else right
    depth, other = len(left.lengths), len(right.lengths)
    if abs(depth - other) > 1:
        raise evaluation_error("cannot concatenate incompatible arrays", "2202E")
    items = left.items + right.items
    if depth == other and left.lengths[1:] == right.lengths[1:] and left.lowers[1:] == right.lowers[1:]:
        return Array((left.lengths[0] + right.lengths[0], *left.lengths[1:]), left.lowers, items, left.element)
    if depth == other + 1 and left.lengths[1:] == right.lengths and left.lowers[1:] == right.lowers:
        return Array((left.lengths[0] + 1, *left.lengths[1:]), left.lowers, items, left.element)
    if other == depth + 1 and right.lengths[1:] == left.lengths and right.lowers[1:] == left.lowers:
        return Array((right.lengths[0] + 1, *right.lengths[1:]), right.lowers, items, left.element)
    raise evaluation_error("cannot concatenate incompatible arrays", "2202E")


def _remove(call: FunctionCallInfo) -> Implementation:
    same = _same_or_absent(call)

    def run(array: Array | None, old: Any) -> Array | None:
        if array is None:
            return None
        if len(array.lengths) > 1:
            raise evaluation_error("removing elements from multidimensional arrays is not supported", "0A000")
        kept = [each for each in array.items if not same(each, old)]
        if len(kept) == len(array.items):
            return array
        return Array((len(kept),), array.lowers, kept, array.element) if kept else Array((), (), [], array.element)

    return rows(run)


def _replace(call: FunctionCallInfo) -> Implementation:
    same = _same_or_absent(call)

    def run(array: Array | None, old: Any, new: Any) -> Array | None:
        return None if array is None else array._replace(items=[new if same(each, old) else each for each in array.items])

    return rows(run)


def _trim(array: Array, count: int) -> Array:
    length = array.lengths[0] if array.lengths else 0
    if not 0 <= count <= length:
        raise evaluation_error(f"number of elements to trim must be between 0 and {length}", "2202E")
    kept = length - count
    if kept == 0:
        return Array((), (), [], array.element)
    step = len(array.items) // length
    return Array((kept, *array.lengths[1:]), (1,) * len(array.lengths), array.items[: kept * step], array.element)


def _fill(call: FunctionCallInfo) -> Implementation:
    element = element_of(call.result)

    def run(value: Any, lengths: Array | None, lowers: Array | None = Array((), (), [], oids.INT4)) -> Array:  # noqa: B008 (a tuple)
        if lengths is None or lowers is None:
            raise evaluation_error("dimension array or low bound array cannot be null", "22004")
        for each in (lengths, lowers):
            if len(each.lengths) > 1:
                raise evaluation_error("wrong number of array subscripts", "2202E")
            if None in each.items:
                raise evaluation_error("dimension values cannot be null", "22004")
        if len(call.types) > 2 and len(lowers.items) != len(lengths.items):
            raise evaluation_error("wrong number of array subscripts", "2202E")
        if len(lengths.items) > 6:
            raise evaluation_error(f"number of array dimensions ({len(lengths.items)}) exceeds the maximum allowed (6)", "54000")
        bounds = tuple(lowers.items) or (1,) * len(lengths.items)
        shape = Array(tuple(lengths.items), bounds, [], element)
        if any(each < 0 for each in lengths.items):
            raise refused("function array_fill of negative lengths")
        if shape.size > 1000000:
            raise refused("function array_fill of more than a million elements")
        return shape._replace(items=[value] * shape.size) if shape.size else Array((), (), [], element)

    return rows(run)


def _width_bucket(call: FunctionCallInfo) -> Implementation:
    compare = type_comparison.comparison(call.types[0], call.facts, call.collation)

    def run(operand: Any, thresholds: Array) -> int:
        if len(thresholds.lengths) > 1:
            raise evaluation_error("thresholds must be one-dimensional array", "2202E")
        if None in thresholds.items:
            raise evaluation_error("thresholds array must not contain NULLs", "22004")
        low, high = 0, len(thresholds.items)
        while low < high:
            middle = (low + high) // 2
            if compare(operand, thresholds.items[middle]) < 0:
                high = middle
            else:
                low = middle + 1
        return low

    return rows(run)


def _count_nulls(wanted: bool) -> Implementation:
    def make(call: FunctionCallInfo) -> Implementation:
        if call.variadic:
            return rows(lambda array: None if array is None else sum((each is None) == wanted for each in array.items), True)
        return rows(lambda *values: sum((each is None) == wanted for each in values), True)

    return made(make)


def _oidvector(test: Callable[[int], Any]) -> Implementation:
    """By how many oids there are, then by the oids."""
    return rows(
        lambda left, right: test(type_comparison.plain((len(left.items), left.items), (len(right.items), right.items))), True
    )


FUNCTIONS: dict[str, Implementation] = {
    "array_eq": _equal(False), "array_ne": _equal(True), "array_lt": _compared(lambda found: found < 0),
    "array_le": _compared(lambda found: found <= 0),
    "array_gt": _compared(lambda found: found > 0), "array_ge": _compared(lambda found: found >= 0), "btarraycmp": _compared(lambda found: found),
    "array_larger": _pick(True), "array_smaller": _pick(False), "arraycontains": _related(_contains),
    "arraycontained": _related(lambda left, right, equal: _contains(right, left, equal)), "arrayoverlap": _related(_overlaps),
    "array_cardinality": rows(lambda array: array.size, True), "array_ndims": rows(lambda array: len(array.lengths) or None, True),
    "array_dims": rows(_shape_text, True), "array_length": rows(_dimension(lambda array, place: array.lengths[place]), True),
    "array_lower": rows(_dimension(lambda array, place: array.lowers[place]), True),
    "array_upper": rows(_dimension(lambda array, place: array.lowers[place] + array.lengths[place] - 1), True),
    "array_position": _positions(True), "array_position_start": _positions(True), "array_positions": _positions(False), "array_append": made(_append),
    "array_prepend": made(_prepend), "array_cat": rows(concatenated), "array_remove": made(_remove), "array_replace": made(_replace),
    "trim_array": rows(_trim), "array_fill": made(_fill), "array_fill_with_lower_bounds": made(_fill), "width_bucket_array": made(_width_bucket),
    "pg_num_nulls": _count_nulls(True), "pg_num_nonnulls": _count_nulls(False),
    "oidvectoreq": _oidvector(lambda found: found == 0), "oidvectorne": _oidvector(lambda found: found != 0),
    "oidvectorlt": _oidvector(lambda found: found < 0),
    "oidvectorle": _oidvector(lambda found: found <= 0), "oidvectorgt": _oidvector(lambda found: found > 0),
    "oidvectorge": _oidvector(lambda found: found >= 0),
}  # fmt: skip
