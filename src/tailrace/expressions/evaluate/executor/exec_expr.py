"""A tree made functions over columns: what the planner does with a filter before its first row (`optimizer/util/clauses.c`), and the executor then.

In: an `Expression` and `Facts`. Out: a `Part`, which gives a `Vector` for a `Scope`. What is constant is evaluated once, in the planner's order and
with its shortcuts, as an error in there is raised, or not, for all rows alike. A construct that is not evaluated exactly is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tailrace.dataclass import dataclass
from tailrace.expressions import tree
from tailrace.expressions.evaluate.comparison import btree_support, text_comparison
from tailrace.expressions.evaluate.executor import exec_expr_interp as logic
from tailrace.expressions.evaluate.executor.clauses import DEFAULTS, function_of, negated
from tailrace.expressions.evaluate.executor.fmgrtab import IMPLEMENTATIONS, OPERATOR_FUNCTIONS
from tailrace.expressions.evaluate.fmgr.array_and_record import Array, RecordValue
from tailrace.expressions.evaluate.fmgr.datum_forms import TEXTS, array_of, reader_of, type_of
from tailrace.expressions.evaluate.fmgr.function_calls import FunctionCallInfo, Implementation, apply, bound
from tailrace.expressions.evaluate.fmgr.pg_proc import BuiltIn
from tailrace.expressions.evaluate.fmgr.refusals import refused
from tailrace.expressions.evaluate.fmgr.vectors import MULTIBYTE, Facts, Scope, Vector, constant
from tailrace.expressions.evaluate.patterns import like, regexp
from tailrace.expressions.evaluate.strings import text_functions, to_ascii
from tailrace.types import oids

_OTHER_TEXTS = frozenset({oids.NAME, oids.TSVECTOR, oids.TSQUERY})


@dataclass(frozen=True, slots=True)
class Part:
    """A compiled node. `value` is what it gives where it is constant; `safe` that it never raises."""

    run: Callable[[Scope], Vector]
    value: Vector | None = None
    safe: bool = False


def fixed(value: Vector) -> Part:
    """A part that is constant."""
    return Part(lambda scope: value, value, True)


class Compiler:
    """Compiles the nodes of one expression."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.subject: Vector | None = None
        """What the CASE around tests, where that is constant: the planner puts it in its places."""

    def part(self, node: tree.Expression) -> Part:
        made: Part = getattr(self, "_" + type(node).__name__.lower())(node)
        return made

    def parts(self, nodes: Sequence[tree.Expression]) -> list[Part]:
        return [self.part(node) for node in nodes]

    # -- leaves ----------------------------------------------------------------------------------------------------------------

    def _var(self, node: tree.Var) -> Part:
        if node.attnum <= 0:
            raise refused("a system column")
        reader_of(type_of(node.type), self.facts.encoding)
        number = node.attnum
        return Part(lambda scope: scope.column(number), None, True)

    def _const(self, node: tree.Const) -> Part:
        if node.value is None:
            return fixed(constant(node.type, None))
        return fixed(constant(node.type, reader_of(type_of(node.type), self.facts.encoding)(node.value)))

    def _casetestexpr(self, node: tree.CaseTestExpr) -> Part:
        if self.subject is not None:
            return fixed(self.subject)

        def run(scope: Scope) -> Vector:
            assert scope.case is not None
            return scope.case

        return Part(run, None, True)

    # -- calls -----------------------------------------------------------------------------------------------------------------

    def _opexpr(self, node: tree.OpExpr) -> Part:
        symbol = function_of(node.function).symbol
        if symbol in ("booleq", "boolne"):  # the planner makes b = false of it NOT b (`simplify_boolean_equality`)
            for fixed_one, other in (node.args, node.args[::-1]):
                if isinstance(fixed_one, tree.Const) and fixed_one.value is not None:
                    return self.part(other if (fixed_one.value != b"\0") == (symbol == "booleq") else tree.Not(other))
        return self._called(node.function, self.parts(node.args), node.args, node.type, node.input_collation)

    def _funcexpr(self, node: tree.FuncExpr) -> Part:
        return self._called(node.oid, self.parts(node.args), node.args, node.type, node.input_collation, node.variadic)

    def _called(
        self, oid: int, parts: list[Part], args: Sequence[tree.Expression], result: int, collation: int, variadic: bool = False
    ) -> Part:
        function = function_of(oid)
        types = tuple(type_given(arg) for arg in args)
        missing = len(function.arguments) - len(parts)
        if missing > 0:
            defaults = DEFAULTS.get(function.symbol, ())[-missing:]
            parts = [
                *parts,
                *(fixed(constant(kind, value)) for kind, value in zip(function.arguments[-missing:], defaults, strict=True)),
            ]
            types = (*types, *function.arguments[-missing:])
        if function.strict and any(part.value is not None and part.value.is_null for part in parts):
            return fixed(constant(result, None))
        what = self.implementation(function, types, result, collation, parts, variadic)
        runs, strict = [part.run for part in parts], function.strict

        def run(scope: Scope) -> Vector:
            return apply(what, result, strict, [each(scope) for each in runs], scope.count)

        if all(part.value is not None for part in parts):
            return fixed(run(Scope(1, _no_column)))
        return Part(run, None, what.safe and all(part.safe for part in parts))

    def implementation(
        self,
        function: BuiltIn,
        types: tuple[int, ...],
        result: int,
        collation: int,
        parts: Sequence[Part] = (),
        variadic: bool = False,
    ) -> Implementation:
        found = IMPLEMENTATIONS.get(function.symbol)
        if found is None:
            raise refused(f"function {function.label}")
        self.check_encoding(function, (*types, result))
        call = FunctionCallInfo(function, types, result, collation, self.facts, tuple(part.value for part in parts), variadic)
        return bound(found, call)

    def check_encoding(self, function: BuiltIn, types: tuple[int, ...]) -> None:
        """Beside UTF8 comparisons of texts are known to be right, and functions that count, cut and put together; where each byte is a character,
        LIKE and regular expressions."""
        encoding, symbol = self.facts.encoding, function.symbol
        if encoding == "UTF8" or symbol in text_comparison.FUNCTIONS or symbol in btree_support.FUNCTIONS:
            return
        searched = encoding not in MULTIBYTE and (symbol in like.FUNCTIONS or symbol in regexp.FUNCTIONS)
        known = symbol in text_functions.OF_ANY_ENCODING or symbol in to_ascii.FUNCTIONS
        if searched or (known and encoding != "MULE_INTERNAL"):
            return
        if not TEXTS.isdisjoint(types) or not _OTHER_TEXTS.isdisjoint(types):
            raise refused(f"function {function.label} in a database whose encoding is {encoding}")

    def equality(self, oid: int, args: Sequence[tree.Expression], collation: int) -> Callable[[Sequence[Vector], int], Vector]:
        """An operator's function, to be called with vectors: for constructs that compare."""
        function = function_of(oid)
        what = self.implementation(function, tuple(type_given(arg) for arg in args), oids.BOOL, collation)
        return lambda vectors, count: apply(what, oids.BOOL, function.strict, vectors, count)

    def _distinctexpr(self, node: tree.DistinctExpr) -> Part:
        left, right = self.parts(node.args)
        equal = self.equality(node.function, node.args, node.input_collation)
        return self._folded([left, right], lambda scope: logic.distinct(left.run(scope), right.run(scope), equal, scope.count))

    def _nullifexpr(self, node: tree.NullIfExpr) -> Part:
        left, right = self.parts(node.args)
        equal = self.equality(node.function, node.args, node.input_collation)
        return self._folded([left, right], lambda scope: logic.null_if(left.run(scope), right.run(scope), equal, scope.count))

    def _scalararrayopexpr(self, node: tree.ScalarArrayOpExpr) -> Part:
        left, right = self.parts(node.args)
        function = function_of(node.function)
        types = (type_given(node.args[0]), logic.element_type(type_given(node.args[1])))
        what = self.implementation(function, types, oids.BOOL, node.input_collation)
        if right.value is not None and right.value.is_null and function.strict:
            return fixed(constant(oids.BOOL, None))

        def run(scope: Scope) -> Vector:
            return logic.compare_with_array(left.run(scope), right.run(scope), what, function.strict, node.use_or, scope.count)

        return self._folded([left, right], run, what.safe)

    def _rowcompareexpr(self, node: tree.RowCompareExpr) -> Part:
        left, right = self.parts(node.left), self.parts(node.right)
        orders = []
        for mine, other, operator, collation in zip(node.left, node.right, node.operators, node.input_collations, strict=True):
            symbols = OPERATOR_FUNCTIONS.get(operator)
            if symbols is None:
                raise refused(f"a comparison of rows with the operator with oid {operator}")
            less, equal = (self._comparing(symbol, mine, other, collation) for symbol in symbols)
            orders.append((less, equal))

        def run(scope: Scope) -> Vector:
            pairs = [(mine.run, other.run) for mine, other in zip(left, right, strict=True)]
            return logic.compare_rows(pairs, orders, node.kind, scope)

        return Part(run)

    def _comparing(self, oid: int, mine: tree.Expression, other: tree.Expression, collation: int) -> logic.Comparing:
        return self.equality(oid, (mine, other), collation)

    # -- conditions ------------------------------------------------------------------------------------------------------------

    def _and(self, node: tree.And) -> Part:
        return self._junction(node.args, False)

    def _or(self, node: tree.Or) -> Part:
        return self._junction(node.args, True)

    def _junction(self, nodes: Sequence[tree.Expression], decisive: bool) -> Part:
        """AND, which FALSE decides, or OR, which TRUE does; constants that do not decide are dropped (`simplify_and_arguments`)."""
        parts, has_null = [], False
        for node in nodes:
            part = self.part(node)
            if part.value is None:
                parts.append(part)
            elif part.value.is_null:
                has_null = True
            elif bool(part.value.value()) == decisive:
                return fixed(constant(oids.BOOL, decisive))
        if has_null:
            parts.append(fixed(constant(oids.BOOL, None)))
        if not parts:
            return fixed(constant(oids.BOOL, not decisive))
        if len(parts) == 1:
            return parts[0]
        steps = [(part.run, part.safe) for part in parts]
        return Part(lambda scope: logic.junction(steps, decisive, scope), None, all(part.safe for part in parts))

    def _not(self, node: tree.Not) -> Part:
        opposite = negated(node.arg)
        if opposite is not None:
            return self.part(opposite)
        part = self.part(node.arg)
        return self._folded([part], lambda scope: logic.negation(part.run(scope)), part.safe)

    def _nulltest(self, node: tree.NullTest) -> Part:
        if node.of_row and isinstance(node.arg, tree.RowExpr):
            parts = self.parts(node.arg.args)
            return self._folded(
                parts, lambda scope: logic.row_null_test([part.run(scope) for part in parts], node.negated, scope.count)
            )
        if node.of_row:
            raise refused("IS NULL of a composite value")
        part = self.part(node.arg)
        return self._folded([part], lambda scope: logic.null_test(part.run(scope), node.negated), part.safe)

    def _booleantest(self, node: tree.BooleanTest) -> Part:
        part = self.part(node.arg)
        return self._folded([part], lambda scope: logic.boolean_test(part.run(scope), node.kind), part.safe)

    def _folded(self, parts: Sequence[Part], run: Callable[[Scope], Vector], safe: bool = False) -> Part:
        if all(part.value is not None for part in parts):
            return fixed(run(Scope(1, _no_column)))
        return Part(run, None, safe and all(part.safe for part in parts))

    # -- choices ---------------------------------------------------------------------------------------------------------------

    def _caseexpr(self, node: tree.CaseExpr) -> Part:
        subject = None if node.arg is None else self.part(node.arg)
        outer, self.subject = self.subject, None if subject is None else subject.value
        whens: list[logic.When] = []
        last = None
        for when in node.whens:
            asked = self.part(when.condition)
            if asked.value is not None and not asked.value.value():
                continue
            if asked.value is not None:
                last = self.part(when.result)
                break
            whens.append((asked.run, self.part(when.result).run))
        default = last or self.part(node.default)
        self.subject = outer
        if not whens:
            return default
        tested = None if subject is None or subject.value is not None else subject.run
        return Part(lambda scope: logic.choice(whens, default.run, tested, node.type, scope))

    def _coalesceexpr(self, node: tree.CoalesceExpr) -> Part:
        parts = []
        for arg in node.args:
            part = self.part(arg)
            if part.value is not None and part.value.is_null:
                continue
            parts.append(part)
            if part.value is not None:
                break
        if not parts:
            return fixed(constant(node.type, None))
        if parts[0].value is not None or len(parts) == 1:
            return parts[0]
        return Part(lambda scope: logic.first_valid([part.run for part in parts], node.type, scope))

    def _minmaxexpr(self, node: tree.MinMaxExpr) -> Part:
        parts = self.parts(node.args)
        types = tuple(type_given(arg) for arg in node.args)
        less = self.implementation(logic.order_of(node.type), types[:2], oids.BOOL, node.input_collation)
        return self._folded(
            parts, lambda scope: logic.extreme([part.run(scope) for part in parts], less, node.least, node.type, scope.count)
        )

    # -- what is put together --------------------------------------------------------------------------------------------------

    def _relabeltype(self, node: tree.RelabelType) -> Part:
        part, target = self.part(node.arg), node.type
        if not logic.same_form(type_given(node.arg), target):
            raise refused(f'a value of type "{type_of(type_given(node.arg)).label}" seen as "{type_of(target).label}"')
        return self._folded([part], lambda scope: logic.relabelled(part.run(scope), target), part.safe)

    def _collateexpr(self, node: tree.CollateExpr) -> Part:
        return self.part(node.arg)

    def _arrayexpr(self, node: tree.ArrayExpr) -> Part:
        parts = self.parts(node.elements)

        def run(scope: Scope) -> Vector:
            count = scope.count if any(part.value is None for part in parts) else 1
            lists = [part.run(scope).objects(count) for part in parts]
            rows = [Array.of_elements(list(row), node.element_type, node.many_dimensions) for row in zip(*lists, strict=True)]
            rows = rows or [Array((), (), [], node.element_type)] * count
            return Vector(
                node.type,
                np.ones(len(rows), np.bool_),
                count == 1 and all(part.value is not None for part in parts),
                None,
                "UTF8",
                array_of(node.type, rows),
            )

        return self._folded(parts, run)

    def _rowexpr(self, node: tree.RowExpr) -> Part:
        if node.type != oids.RECORD:
            raise refused("a value of a composite type")
        parts, types = self.parts(node.args), tuple(type_given(arg) for arg in node.args)
        collations = tuple(getattr(arg, "collation", 0) for arg in node.args)

        def run(scope: Scope) -> Vector:
            lists = [part.run(scope).objects(scope.count) for part in parts]
            rows = (
                [RecordValue(types, tuple(row), collations) for row in zip(*lists, strict=True)]
                if lists
                else [RecordValue((), ())] * scope.count
            )
            return Vector(node.type, np.ones(len(rows), np.bool_), False, None, "UTF8", array_of(node.type, rows))

        return Part(run)

    def _xmlexpr(self, node: tree.XmlExpr) -> Part:
        names = ("XMLCONCAT", "XMLELEMENT", "XMLFOREST", "XMLPARSE", "XMLPI", "XMLROOT", "XMLSERIALIZE", "IS DOCUMENT")
        if node.op == 6 and not node.indent and node.option == 1:  # XMLSERIALIZE(CONTENT … AS …)
            (part,) = self.parts(node.args)
            return self._folded([part], lambda scope: logic.relabelled(part.run(scope), node.type), part.safe)
        raise refused(names[node.op])


def _no_column(number: int) -> Vector:
    raise AssertionError("a constant has no columns")


def type_given(node: tree.Expression) -> int:
    """The type of what a node gives (`exprType`)."""
    return oids.BOOL if isinstance(node, tree.XmlExpr) and node.op == 7 else node.type
