"""Conditions and choices over vectors: three-valued logic, CASE, COALESCE, comparisons with arrays and of rows (`executor/execExprInterp.c`).

What may raise is asked only about rows that need the answer, so that `a <> 0 AND 1 / a > 2` is as safe as on the server.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tailrace.expressions.evaluate.fmgr.array_and_record import Array
from tailrace.expressions.evaluate.fmgr.datum_forms import DTYPES, TEXTS, array_of, type_of
from tailrace.expressions.evaluate.fmgr.function_calls import Implementation, apply
from tailrace.expressions.evaluate.fmgr.pg_proc import BuiltIn, built_in_functions
from tailrace.expressions.evaluate.fmgr.refusals import evaluation_error, refused
from tailrace.expressions.evaluate.fmgr.vectors import Scope, Vector, conditions, constant, vector_of
from tailrace.types import oids
from tailrace.types.values import Mask

Run = Callable[[Scope], Vector]
When = tuple[Run, Run]
Comparing = Callable[[Sequence[Vector], int], Vector]
LESS, LESS_EQUAL, GREATER_EQUAL, GREATER = 1, 2, 4, 5
"""RowCompareType."""


def junction(steps: Sequence[tuple[Run, bool]], decisive: bool, scope: Scope) -> Vector:
    """AND or OR, which a value of `decisive` decides; each step is asked about the rows that are undecided, or all if it cannot raise."""
    count = scope.count
    decided, unknown = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    for run, safe in steps:
        if decided.any() and (not safe or decided.mean() > 0.5):
            rows = np.flatnonzero(~decided)
            if not len(rows):
                break
            found = run(scope.pick(rows))
            data, valid = spread(found, len(rows))
            decided[rows] |= valid & (data == decisive)
            unknown[rows] |= ~valid
        else:
            data, valid = spread(run(scope), count)
            decided |= valid & (data == decisive)
            unknown |= ~valid
    valid = decided | ~unknown
    return conditions(decided if decisive else ~decided, valid)


def spread(vector: Vector, count: int) -> tuple[Mask, Mask]:
    """Truth values and validity of each row."""
    if vector.constant:
        return np.full(count, bool(vector.data[0])), np.full(count, bool(vector.valid[0]))
    return vector.data, vector.valid


def negation(vector: Vector) -> Vector:
    return Vector(oids.BOOL, vector.valid, vector.constant, None, "UTF8", ~vector.data.astype(np.bool_))


def null_test(vector: Vector, negated: bool) -> Vector:
    found = vector.valid if negated else ~vector.valid
    return Vector(oids.BOOL, np.ones(len(found), np.bool_), vector.constant, None, "UTF8", found.copy())


def row_null_test(vectors: Sequence[Vector], negated: bool, count: int) -> Vector:
    """Of ROW(…): whether all fields are NULL, or none is."""
    found = np.ones(count, np.bool_)
    for each in vectors:
        found &= each.valid if negated else ~each.valid
    return conditions(found, np.ones(count, np.bool_))


def boolean_test(vector: Vector, kind: int) -> Vector:
    """BoolTestType: IS TRUE, IS FALSE, IS UNKNOWN, each followed by its opposite."""
    valid, data = vector.valid, vector.data.astype(np.bool_)
    found = (valid & data, valid & ~data, ~valid)[kind // 2]
    return Vector(oids.BOOL, np.ones(len(valid), np.bool_), vector.constant, None, "UTF8", ~found if kind % 2 else found)


def distinct(left: Vector, right: Vector, equal: Comparing, count: int) -> Vector:
    found = equal([left, right], count)
    both = left.valid & right.valid
    neither = ~left.valid & ~right.valid
    result = np.where(both, ~found.data.astype(np.bool_), ~neither)
    return Vector(oids.BOOL, np.ones(len(result), np.bool_), left.constant and right.constant, None, "UTF8", result)


def null_if(left: Vector, right: Vector, equal: Comparing, count: int) -> Vector:
    found = equal([left, right], count)
    gone = left.valid & right.valid & found.valid & found.data.astype(np.bool_)
    if left.constant and not right.constant:
        return Vector(left.type, left.valid & ~gone, False, None, "UTF8", np.repeat(left.data, count))
    return Vector(left.type, left.valid & ~gone, left.constant and right.constant, None, "UTF8", left.data)


def compare_with_array(left: Vector, right: Vector, what: Implementation, strict: bool, use_or: bool, count: int) -> Vector:
    """`left op ANY (right)` or `ALL`: elements are asked one after another until one decides; a NULL among them leaves it unknown."""
    if right.constant:
        array = right.value()
        if array is None:
            return constant(oids.BOOL, None)
        steps = [_step(left, constant(array.element, each), what, strict) for each in array.items]
        if not steps:
            return constant(oids.BOOL, not use_or)
        is_constant = left.constant
        found = junction([(step, what.safe) for step in steps], use_or, Scope(1 if is_constant else count, lambda number: left))
        found.constant = is_constant
        return found
    if type_of(right.type).kind != "a":
        raise refused(f'ANY of "{type_of(right.type).label}"')
    arrays = right.objects(count)
    result: list[bool | None] = []
    for row in range(count):
        array = arrays[row]
        mine = constant(left.type, left.value(0 if left.constant else row))
        result.append(None if array is None else _compared(mine, array, what, strict, use_or))
    return vector_of(oids.BOOL, result)


def _step(left: Vector, element: Vector, what: Implementation, strict: bool) -> Run:
    return lambda scope: apply(what, oids.BOOL, strict, [left if left.constant else scope.column(0), element], scope.count)


def _compared(mine: Vector, array: Array, what: Implementation, strict: bool, use_or: bool) -> bool | None:
    unknown = False
    if not array.items:
        return not use_or
    for item in array.items:
        found = apply(what, oids.BOOL, strict, [mine, constant(array.element, item)], 1).value()
        if found is None:
            unknown = True
        elif bool(found) == use_or:
            return use_or
    return None if unknown else not use_or


def compare_rows(pairs: Sequence[When], orders: Sequence[tuple[Comparing, Comparing]], kind: int, scope: Scope) -> Vector:
    """`(a, b) < (c, d)`: the first pair that is not equal decides; a NULL before that leaves it unknown."""
    count = scope.count
    result, valid, rows = np.zeros(count, np.bool_), np.ones(count, np.bool_), np.arange(count)
    for (mine, other), (less, equal) in zip(pairs, orders, strict=True):
        if not len(rows):
            break
        part = scope if len(rows) == count else scope.pick(rows)
        vectors = [mine(part), other(part)]
        lower, there = spread(less(vectors, len(rows)), len(rows))
        same, _ = spread(equal(vectors, len(rows)), len(rows))
        valid[rows[~there]] = False
        differs = there & ~same
        result[rows[differs]] = lower[differs] if kind in (LESS, LESS_EQUAL) else ~lower[differs]
        rows = rows[there & same]
    result[rows] = kind in (LESS_EQUAL, GREATER_EQUAL)
    return conditions(result, valid)


def choice(whens: Sequence[When], default: Run, tested: Run | None, type_oid: int, scope: Scope) -> Vector:
    """CASE: each result is evaluated for the rows whose condition came true first."""
    inner = scope if tested is None else scope.testing(tested(scope))
    rows = np.arange(scope.count)
    pieces: list[tuple[np.ndarray, Vector]] = []
    for condition, result in whens:
        if not len(rows):
            break
        part = inner.pick(rows)
        data, valid = spread(condition(part), len(rows))
        met = valid & data
        if met.any():
            pieces.append((rows[met], result(inner.pick(rows[met]))))
        rows = rows[~met]
    if len(rows):
        pieces.append((rows, default(inner.pick(rows))))
    return assembled(pieces, type_oid, scope.count)


def assembled(pieces: Sequence[tuple[np.ndarray, Vector]], type_oid: int, count: int) -> Vector:
    """One vector of pieces for some of the rows each."""
    valid, data = np.zeros(count, np.bool_), array_of(type_oid, [None] * count)
    for rows, found in pieces:
        valid[rows] = found.valid
        data[rows] = found.data
    return Vector(type_oid, valid, False, None, "UTF8", data)


def first_valid(runs: Sequence[Run], type_oid: int, scope: Scope) -> Vector:
    """COALESCE."""
    rows, pieces = np.arange(scope.count), []
    for run in runs:
        if not len(rows):
            break
        found = run(scope.pick(rows))
        there = np.full(len(rows), found.valid[0]) if found.constant else found.valid
        pieces.append((rows[there], found.take(np.flatnonzero(there))))
        rows = rows[~there]
    return assembled(pieces, type_oid, scope.count)


def extreme(vectors: Sequence[Vector], less: Implementation, least: bool, type_oid: int, count: int) -> Vector:
    """GREATEST or LEAST of what is not NULL; of equals the first."""
    count = 1 if all(each.constant for each in vectors) else count
    found = vector_of(type_oid, vectors[0].objects(count))
    for each in vectors[1:]:
        other = vector_of(type_oid, each.objects(count))
        better = apply(less, oids.BOOL, True, [other, found] if least else [found, other], count)
        wins = other.valid & (~found.valid | (better.valid & better.data.astype(np.bool_)))
        data = found.data.copy()
        data[wins] = other.data[wins]
        found = Vector(type_oid, found.valid | other.valid, False, None, "UTF8", data)
    found.constant = all(each.constant for each in vectors)
    return found


def element_type(array_type: int) -> int:
    """The type of an array's elements."""
    found = type_of(array_type)
    if found.kind != "a" or found.element is None:
        raise refused(f'ANY of "{found.label}"')
    return found.element.oid


_FORMS = {**dict.fromkeys(TEXTS, "text"), oids.BIT: "bits", oids.VARBIT: "bits", oids.CIDR: "address", oids.INET: "address"}


def _form_of(type_oid: int) -> object:
    """What types with the same working form have in common; integers of four bytes, with a sign or not, are the same bytes."""
    if DTYPES.get(type_oid) in ("<i4", "<u4") and type_oid != oids.DATE:
        return 4
    return _FORMS.get(type_oid, type_oid)


def same_form(source: int, target: int) -> bool:
    """Whether values of one type can be seen as the other's without changing them."""
    if _form_of(source) == _form_of(target):
        return True
    one, two = type_of(source).element, type_of(target).element
    if type_of(source).kind != "a" or type_of(target).kind != "a" or one is None or two is None:
        return False
    return one.oid not in DTYPES and same_form(one.oid, two.oid)


def relabelled(vector: Vector, target: int) -> Vector:
    """The same values as another type."""
    if vector.stored is not None and vector._data is None and target in TEXTS and vector.type in TEXTS:
        return Vector(target, vector.valid, vector.constant, vector.stored, vector.encoding)
    data = vector.data
    if target in DTYPES and data.dtype != np.dtype(DTYPES[target]):
        data = data.view(DTYPES[target])
    return Vector(target, vector.valid, vector.constant, None, vector.encoding, data)


_LESS = {
    oids.BOOL: "boollt", oids.BYTEA: "bytealt", oids.CHAR: "charlt", oids.NAME: "namelt", oids.INT8: "int8lt",
    oids.INT2: "int2lt", oids.INT4: "int4lt", oids.TEXT: "text_lt", oids.OID: "oidlt", oids.VARCHAR: "text_lt",
    oids.BPCHAR: "bpcharlt", oids.FLOAT4: "float4lt", oids.FLOAT8: "float8lt", oids.NUMERIC: "numeric_lt", oids.MONEY: "cash_lt",
    oids.DATE: "date_lt", oids.TIME: "time_lt", oids.TIMESTAMP: "timestamp_lt", oids.TIMESTAMPTZ: "timestamp_lt",
    oids.INTERVAL: "interval_lt", oids.TIMETZ: "timetz_lt", oids.INET: "network_lt", oids.CIDR: "network_lt",
    oids.MACADDR: "macaddr_lt", oids.MACADDR8: "macaddr8_lt", oids.BIT: "bitlt", oids.VARBIT: "bitlt", oids.UUID: "uuid_lt",
    oids.PG_LSN: "pg_lsn_lt", oids.XID8: "xid8lt", oids.TID: "tidlt", oids.JSONB: "jsonb_lt", oids.TSVECTOR: "tsvector_lt",
    oids.TSQUERY: "tsquery_lt",
}  # fmt: skip


def order_of(type_oid: int) -> BuiltIn:
    """The function behind the < that sorts a type."""
    pg_type = type_of(type_oid)
    symbol = _LESS.get(type_oid) or {"a": "array_lt", "r": "range_lt", "m": "multirange_lt"}.get(pg_type.kind)
    for each in built_in_functions().values():
        if each.symbol == symbol and (
            type_oid in each.arguments
            or pg_type.kind in "arm"
            or type_oid in (oids.VARCHAR, oids.CIDR, oids.VARBIT, oids.TIMESTAMPTZ)
        ):
            return each
    raise evaluation_error(f"could not identify a comparison function for type {pg_type.label}", "42883")
