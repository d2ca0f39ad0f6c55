"""An analysed expression as SQL: what pg_get_expr(prqual, prrelid) says, and so \\dRp+ and pg_dump (`adt/ruleutils.c`, get_rule_expr).

In: a tree of `tailrace.expressions.tree`, its table, the session that is imitated. Out: text that PostgreSQL would print, and read back as the same
tree. Every operator stands in parentheses, but in the form that psql asks for, where only those do that must; CASE goes over several lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Any

from tailrace.dataclass import dataclass
from tailrace.errors import UnsupportedWal
from tailrace.expressions import tree
from tailrace.expressions.analysis.catalog import Catalog, catalog_with
from tailrace.expressions.analysis.state import EXPLICIT_CAST, IMPLICIT_CAST, SQL_SYNTAX, length_of_coercion, type_of
from tailrace.expressions.expression_session import ExpressionSession
from tailrace.expressions.simple_nodes import is_simple
from tailrace.expressions.sql_syntax import SYNTAX, WITHOUT_SYNTAX
from tailrace.majors import XML_INDENT, supports
from tailrace.model import FIRST_NORMAL_OID, Relation
from tailrace.types import oids
from tailrace.types.format_type import VECTORS, with_typemod
from tailrace.types.quoting import quote_identifier, simple_quote_literal
from tailrace.types.registry import format_values
from tailrace.types.style import TextStyle
from tailrace.types.values import Values

INDENT, WIDEST_INDENT = 4, 40
NEW_LINE = "\0"
"""Stands for the beginning of a line until all is written, for it takes away the spaces before it; no text of PostgreSQL's has it."""
_SPACES_BEFORE_LINE = re.compile(" *\0")
_BOOLEAN_TESTS = ("IS TRUE", "IS NOT TRUE", "IS FALSE", "IS NOT FALSE", "IS UNKNOWN", "IS NOT UNKNOWN")
_SQL_VALUES = (
    "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIME({})", "CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP({})", "LOCALTIME", "LOCALTIME({})",
    "LOCALTIMESTAMP", "LOCALTIMESTAMP({})", "CURRENT_ROLE", "CURRENT_USER", "USER", "SESSION_USER", "CURRENT_CATALOG", "CURRENT_SCHEMA",
)  # fmt: skip
"""By `SQLValueFunctionOp` (`nodes/primnodes.h`)."""
_XML_NAMES = ("XMLCONCAT", "XMLELEMENT", "XMLFOREST", "XMLPARSE", "XMLPI", "XMLROOT", "XMLSERIALIZE", "")
_ALIKE_EVERYWHERE = {(oids.REGCONFIG, 3748): "simple", (oids.REGDICTIONARY, 3765): "simple"}
"""Names behind the oids of regconfig and regdictionary."""


def deparse(
    expression: tree.Expression, relation: Relation, session: ExpressionSession | None = None, *, pretty: bool = False
) -> str:  # fmt: skip
    """The text of pg_get_expr, whose third argument is `pretty`."""
    session = session or ExpressionSession()
    own = [column.type for column in relation.live_columns if column.type is not None and column.type.oid >= FIRST_NORMAL_OID]
    catalog = catalog_with(session.major, replace(session.user, types=(*session.user.types, *own)))
    said = Deparser(relation, catalog, _with_names(session.style, catalog), pretty).text(expression)
    return _SPACES_BEFORE_LINE.sub("\n", said)


def _with_names(style: TextStyle, catalog: Catalog) -> TextStyle:
    """The style, which knows the names that are the same in every database too."""

    def name_of(reg_type: int, oid: int) -> str | None:
        known = style.names(reg_type, oid) if style.names is not None else None
        return known or (catalog.label(oid) if reg_type == oids.REGTYPE else _ALIKE_EVERYWHERE.get((reg_type, oid)))

    return replace(style, names=name_of, major=catalog.major)


@dataclass(slots=True)
class Deparser:
    """State: how deep the lines of a CASE are indented."""

    relation: Relation
    catalog: Catalog
    style: TextStyle
    pretty: bool = False
    depth: int = field(default=0)

    def text(self, node: Any, *, implicit: bool = False) -> str:
        """A node; with `implicit` casts that nobody wrote are shown."""
        if isinstance(node, tree.RelabelType | tree.OtherCast) and node.form == IMPLICIT_CAST and not implicit:
            return self.argument(node.arg, node, implicit=False)
        if isinstance(node, tree.CollateExpr):
            return self.paired(f"{self.argument(node.arg, node, implicit=implicit)} COLLATE {self.collation(node.collation)}")
        if isinstance(node, tree.FuncExpr):
            return self._function(node, implicit=implicit)
        return WRITERS[type(node)](self, node)

    def paired(self, text: str) -> str:
        """In parentheses, where all operators are."""
        return text if self.pretty else f"({text})"

    def argument(self, node: Any, parent: Any, *, implicit: bool = True) -> str:
        """Of an operator, in parentheses where it needs some (get_rule_expr_paren)."""
        text = self.text(node, implicit=implicit)
        return f"({text})" if self.pretty and not is_simple(node, parent, self.catalog) else text

    def list_of(self, nodes: Sequence[Any]) -> str:
        return ", ".join(self.text(node, implicit=True) for node in nodes)

    def collation(self, oid: int) -> str:
        return next((self.quoted(name) for (_, name), known in self.catalog.collations.items() if known == oid), str(oid))

    def quoted(self, name: str) -> str:
        return quote_identifier(name, self.catalog.major)

    def operator(self, oid: int) -> str:
        return self.catalog.operators[oid].name

    def type_name(self, oid: int, typmod: int = -1) -> str:
        """format_type_with_typemod."""
        element = self.catalog.element_type(oid)
        if element and oid not in VECTORS:
            return f"{self.type_name(element, typmod)}[]"
        return with_typemod(oid, self.catalog.label(oid), typmod)

    def constant(self, node: tree.Const, *, bare: bool = False) -> str:
        """get_const_expr; `bare` leaves out the type."""
        if node.value is None:
            return "NULL" if bare else f"NULL::{self.type_name(node.type, node.typmod)}{self._odd_collation(node)}"
        kind = oids.TEXT if node.type in (oids.UNKNOWN, oids.CSTRING) else node.type
        pg_type = self.catalog.pg_type(kind) or self.catalog.own_type(kind)
        assert pg_type is not None, node.type
        said = format_values(Values.of_payloads([node.value], pg_type.length), pg_type, self.style).to_list()[0]
        needs_type = True
        if node.type == oids.BOOL:
            said, needs_type = ("true" if said == "t" else "false"), False
        elif node.type == oids.UNKNOWN:
            said, needs_type = simple_quote_literal(said), False
        elif (node.type == oids.INT4 and said[0] != "-") or (node.type == oids.NUMERIC and said[0].isdigit() and "." in said):
            needs_type = node.type == oids.NUMERIC and node.typmod >= 0
        else:
            said = simple_quote_literal(said)
        if bare:
            return said
        return f"{said}{f'::{self.type_name(node.type, node.typmod)}' if needs_type else ''}{self._odd_collation(node)}"

    def _odd_collation(self, node: tree.Const) -> str:
        odd = node.collation and node.collation != self.catalog.collation_of(node.type)
        return f" COLLATE {self.collation(node.collation)}" if odd else ""

    def cast(self, node: Any, arg: Any, typmod: int) -> str:
        """get_coercion_expr."""
        if isinstance(arg, tree.Const) and arg.type == node.type and arg.typmod == -1:
            return f"{self.constant(arg, bare=True)}::{self.type_name(node.type, typmod)}"
        return f"{self.paired(self.argument(arg, node, implicit=False))}::{self.type_name(node.type, typmod)}"

    def _function(self, node: tree.FuncExpr, *, implicit: bool) -> str:
        """get_func_expr."""
        if node.form == IMPLICIT_CAST and not implicit:
            return self.argument(node.args[0], node, implicit=False)
        if node.form in (EXPLICIT_CAST, IMPLICIT_CAST):
            return self.cast(node, node.args[0], length_of_coercion(node))
        if node.oid not in self.catalog.functions:
            return f"{self._own_function(node.oid)}({self.list_of(node.args)})"
        row = self.catalog.functions[node.oid]
        if node.form == SQL_SYNTAX and row.name in SYNTAX and (row.name, row.arguments) not in WITHOUT_SYNTAX:
            return SYNTAX[row.name](self, node)
        args = [self.text(arg, implicit=True) for arg in node.args]
        if node.variadic:
            args[-1] = f"VARIADIC {args[-1]}"
        return f"{self.quoted(row.name)}({', '.join(args)})"

    def _own_function(self, oid: int) -> str:
        """The name of a function that users made. Raises UnsupportedWal if nobody knows it."""
        name = self.style.names(oids.REGPROC, oid) if self.style.names is not None else None
        if name is None:
            raise UnsupportedWal(f"function with OID {oid} is not known")
        return name

    def line(self, word: str, before: int = 0, after: int = 0) -> str:
        """appendContextKeyword: a word at the beginning of a new line."""
        self.depth += before
        depth = max(self.depth, 0)
        if depth >= WIDEST_INDENT:
            depth = (WIDEST_INDENT + (depth - WIDEST_INDENT) // INDENT) % WIDEST_INDENT
        self.depth = max(self.depth + after, 0)
        return f"{NEW_LINE}{' ' * depth}{word}"


def _column(deparser: Deparser, node: tree.Var) -> str:
    return deparser.quoted(deparser.relation.columns[node.attnum - 1].name)


def _operator(deparser: Deparser, node: tree.OpExpr) -> str:
    *left, right = [deparser.argument(arg, node) for arg in node.args]
    return deparser.paired(f"{''.join(f'{each} ' for each in left)}{deparser.operator(node.oid)} {right}")


def _distinct(deparser: Deparser, node: tree.DistinctExpr) -> str:
    left, right = (deparser.argument(arg, node) for arg in node.args)
    return deparser.paired(f"{left} IS DISTINCT FROM {right}")


def _array_comparison(deparser: Deparser, node: tree.ScalarArrayOpExpr) -> str:
    left, right = (deparser.argument(arg, node) for arg in node.args)
    return deparser.paired(f"{left} {deparser.operator(node.oid)} {'ANY' if node.use_or else 'ALL'} ({right})")


def _row_comparison(deparser: Deparser, node: tree.RowCompareExpr) -> str:
    left, right = deparser.list_of(node.left), deparser.list_of(node.right)
    return f"(ROW({left}) {deparser.operator(node.operators[0])} ROW({right}))"


def _and_or(deparser: Deparser, node: tree.And | tree.Or) -> str:
    joint = " AND " if isinstance(node, tree.And) else " OR "
    return deparser.paired(joint.join(deparser.argument(arg, node, implicit=False) for arg in node.args))


def _case(deparser: Deparser, node: tree.CaseExpr) -> str:
    said = [deparser.line("CASE", 0, INDENT)]
    if node.arg is not None:
        said.append(f" {deparser.text(node.arg, implicit=True)}")
    for when in node.whens:
        shown = _without_test(when.condition) if node.arg is not None else when.condition
        said.append(deparser.line("WHEN "))
        said.append(deparser.text(shown))
        said.append(f" THEN {deparser.text(when.result, implicit=True)}")
    said.append(deparser.line("ELSE "))
    said.append(deparser.text(node.default, implicit=True))
    said.append(deparser.line("END", -INDENT))
    return "".join(said)


def _without_test(condition: Any) -> Any:
    """What a WHEN of `CASE x WHEN y` compares with."""
    if isinstance(condition, tree.OpExpr) and len(condition.args) == 2:
        first: Any = condition.args[0]
        while isinstance(first, tree.RelabelType | tree.FuncExpr) and first.form == IMPLICIT_CAST:
            first = first.arg if isinstance(first, tree.RelabelType) else first.args[0]
        if isinstance(first, tree.CaseTestExpr):
            return condition.args[1]
    return condition


def _array(deparser: Deparser, node: tree.ArrayExpr) -> str:
    return f"ARRAY[{deparser.list_of(node.elements)}]{'' if node.elements else f'::{deparser.type_name(node.type)}'}"


def _null_test(deparser: Deparser, node: tree.NullTest) -> str:
    kind = deparser.catalog.kind(type_of(node.arg))
    words = "IS NOT NULL" if node.negated else "IS NULL"
    if not node.of_row and kind == "c":
        words = "IS DISTINCT FROM NULL" if node.negated else "IS NOT DISTINCT FROM NULL"
    return deparser.paired(f"{deparser.argument(node.arg, node)} {words}")


def _xml(deparser: Deparser, node: tree.XmlExpr) -> str:
    if node.op == 7:
        said = deparser.text(node.args[0])
        return f"{f'({said})' if deparser.pretty else said} IS DOCUMENT"  # it is a list to isSimpleNode, which knows no lists
    parts = [] if node.name is None else [f"NAME {deparser.quoted(node.name)}"]
    named = [
        f"{deparser.text(arg, implicit=True)} AS {deparser.quoted(name)}"
        for arg, name in zip(node.named_args, node.arg_names, strict=True)
    ]
    if named:
        parts += named if node.op == 2 else [f"XMLATTRIBUTES({', '.join(named)})"]
    if node.args:
        parts.append(_xml_arguments(deparser, node))
    option = "" if node.op not in (3, 6) else "CONTENT " if node.option else "DOCUMENT "
    tail = ""
    if node.op == 6:
        indent = (" INDENT" if node.indent else " NO INDENT") if supports(deparser.catalog.major, XML_INDENT) else ""
        tail = f" AS {deparser.type_name(node.type, node.typmod)}{indent}"
    return f"{_XML_NAMES[node.op]}({option}{', '.join(parts)}{tail})"


def _xml_arguments(deparser: Deparser, node: tree.XmlExpr) -> str:
    first = deparser.text(node.args[0], implicit=True)
    if node.op == 3:
        keep = isinstance(node.args[1], tree.Const) and node.args[1].value == b"\1"
        return f"{first} {'PRESERVE' if keep else 'STRIP'} WHITESPACE"
    if node.op == 5:
        version, standalone = node.args[1], node.args[2]
        empty = isinstance(version, tree.Const) and version.value is None
        said = f"{first}, VERSION {'NO VALUE' if empty else deparser.text(version)}"
        value = standalone.value if isinstance(standalone, tree.Const) else None
        words = {0: "YES", 1: "NO", 2: "NO VALUE"}
        return said if value is None else f"{said}, STANDALONE {words.get(value[0], '')}".removesuffix(", STANDALONE ")
    return deparser.list_of(node.args)


def _called(name: str) -> Callable[[Deparser, Any], str]:
    return lambda deparser, node: f"{name}({deparser.list_of(node.args)})"


WRITERS: dict[type, Callable[[Deparser, Any], str]] = {
    tree.Var: _column,
    tree.Const: lambda deparser, node: deparser.constant(node),
    tree.OpExpr: _operator,
    tree.DistinctExpr: _distinct,
    tree.NullIfExpr: _called("NULLIF"),
    tree.ScalarArrayOpExpr: _array_comparison,
    tree.RowCompareExpr: _row_comparison,
    tree.And: _and_or,
    tree.Or: _and_or,
    tree.Not: lambda deparser, node: deparser.paired(f"NOT {deparser.argument(node.arg, node, implicit=False)}"),
    tree.RelabelType: lambda deparser, node: deparser.cast(node, node.arg, node.typmod),
    tree.CaseTestExpr: lambda deparser, node: "CASE_TEST_EXPR",
    tree.CaseExpr: _case,
    tree.ArrayExpr: _array,
    tree.RowExpr: _called("ROW"),
    tree.CoalesceExpr: _called("COALESCE"),
    tree.MinMaxExpr: lambda deparser, node: f"{'LEAST' if node.least else 'GREATEST'}({deparser.list_of(node.args)})",
    tree.XmlExpr: _xml,
    tree.NullTest: _null_test,
    tree.BooleanTest: lambda deparser, node: deparser.paired(
        f"{deparser.argument(node.arg, node, implicit=False)} {_BOOLEAN_TESTS[node.kind]}"
    ),
    tree.SQLValueFunction: lambda deparser, node: _SQL_VALUES[node.kind].format(node.typmod),
    tree.OtherCast: lambda deparser, node: deparser.cast(node, node.arg, node.typmod),
}
