"""Functions and casts of PostgreSQL's as the engine has them: other names, other types, and what must not reach it.

In: nodes whose arguments have been translated, and the types of these. Out: the node that the engine is given, and the type of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

from pglast import enums

from tailrace.errors import UsageError
from tailrace.sql.functions.calls import NO_FUNCTION
from tailrace.sql.grammar import ast, name_of
from tailrace.sql.kinds import label
from tailrace.sql.query.allowed import CASTS, FUNCTIONS, refused
from tailrace.sql.query.json_fields import INPUT, JSON
from tailrace.sql.query.positions import LSN, as_lsn, called, difference, hex_of, text_of

_TAKE_POSITIONS = frozenset({"count", "min", "max", "lag", "lead", "first_value", "last_value", "concat"})
_RENAMED = {
    "every": "bool_and", "btrim": "trim", "char_length": "length", "character_length": "length", "mod": "%",
}  # fmt: skip
AVG = (("", "avg"), ("pg_catalog", "avg"))
AVERAGE = "avg"
"""The type of a column whose cells hold a sum and a count."""
_INTEGERS = ("int2", "int4", "int8")
_WIDER = {"int2": "int8", "int4": "int8", "int8": "numeric", "numeric": "numeric", "float4": "float4", "float8": "float8"}
"""What sum() of a type gives."""
_AS_WRITTEN = frozenset({"", "unknown", "text", "name", "char", "bool", "oid", "xid", LSN, *_INTEGERS})
"""Types that the engine makes the same text of, or that are made text before."""


def cast(node: Any, kind: str) -> tuple[Any, str]:
    """A cast of what has this type, and the type that comes of it. Raises UsageError for one that is not computed here."""
    name = node.typeName.names[-1].sval
    engine = CASTS.get(name)
    most = node.typeName.typmods
    if engine is None or node.typeName.arrayBounds or (most and (name != "varchar" or kind not in ("text", "name", "unknown"))):
        raise refused(f"a cast to {name}", node.location)
    is_constant = isinstance(node.arg, ast.A_Const)
    if name == LSN:
        return (node.arg if kind == LSN else as_lsn(node.arg)), LSN
    if kind == "timestamptz" and engine == "text":
        raise refused("a cast of timestamptz to text", node.location)
    if kind == LSN:
        if engine != "text":
            raise UsageError(f"cannot cast type pg_lsn to {name}", sqlstate="42846").in_text(node.location + 1)
        return text_of(node.arg), "text"
    if name == JSON:
        if kind not in ("unknown", "text", "name", JSON):
            raise refused(f"a cast of {kind or 'this'} to json", node.location)
        return (node.arg if kind == JSON else called(INPUT, node.arg)), JSON
    if kind == JSON and engine != "text":
        raise UsageError(f"cannot cast type json to {label(name)}", sqlstate="42846").in_text(node.location + 1)
    if name == "bytea" or kind == "bytea":
        if not (is_constant and isinstance(node.arg.val, ast.String)) or name != "bytea":
            raise refused("a cast of bytea", node.location)
        return called("from_hex", ast.A_Const(val=ast.String(sval=hex_of(node.arg.val.sval)))), "bytea"
    node.typeName = ast.TypeName(names=(ast.String(sval=engine),), typemod=-1)
    return called("left", node, *most) if most else node, "text" if engine == "text" else name


def check_function(node: Any) -> None:
    """Raise UsageError (0A000) for one that the engine does not have with the same meaning."""
    schema, name = name_of(node)
    if name not in FUNCTIONS or schema not in ("", "pg_catalog") or node.func_variadic:
        raise refused(f"function {name}", node.location)


def function_value(node: Any, kinds: Sequence[str], database: str) -> tuple[Any, str]:
    """A checked function, with arguments of these types."""
    name = name_of(node)[1]
    arguments: Sequence[Any] = node.args or ()
    node.funcname = (ast.String(sval=_RENAMED.get(name, name)),)
    first = kinds[0] if kinds else ""
    if name == "pg_wal_lsn_diff":
        return difference(
            *(as_lsn(each) if kind == "unknown" else each for each, kind in zip(arguments, kinds, strict=True))
        ), "numeric"
    if name == "current_database":
        return ast.A_Const(val=ast.String(sval=database)), "name"
    if name == "array_agg" and first == LSN:
        raise refused("array_agg of pg_lsn", node.location)
    if LSN in kinds and name not in _TAKE_POSITIONS:
        message = f"function {name}(pg_lsn) does not exist"
        raise UsageError(message, hint=NO_FUNCTION, sqlstate="42883").in_text(node.location + 1)
    if JSON in kinds and name != "count":
        raise refused(f"{name} of json", node.location)
    if name in ("concat", "concat_ws"):
        node.args = tuple(_concatenated(each, kind, node.location) for each, kind in zip(arguments, kinds, strict=True))
    if name in ("substr", "substring"):
        if len(kinds) < 2 or any(kind not in ("", *_INTEGERS) for kind in kinds[1:]) or first not in ("text", "name", "unknown"):
            raise refused("substring, but for a text by numbers", node.location)
        node.funcname = (ast.String(sval=f"_substring{len(kinds)}"),)
    if name in ("lpad", "rpad") and len(kinds) == 2:
        node.args = (*arguments, ast.A_Const(val=ast.String(sval=" ")))
    elif name in ("lpad", "rpad") and not getattr(getattr(arguments[-1], "val", None), "sval", ""):
        raise refused(f"{name} with what may be empty", node.location)
    if name in ("mod", "sign", "bit_and", "bit_or") and first not in _INTEGERS:
        raise refused(f"function {name}, but for integers", node.location)
    if name == "mod":
        return ast.A_Expr(kind=enums.A_Expr_Kind.AEXPR_OP, name=node.funcname, lexpr=arguments[0], rexpr=arguments[1]), widest(
            *kinds
        )
    if name == "sum":
        return node, _WIDER.get(first, "numeric")
    if name == "encode":
        return _encoded(node, first), "text"
    if name == "length" and first == "bytea":
        node.funcname = (ast.String(sval="octet_length"),)
    kind = FUNCTIONS[name]
    return node, first if kind == "same" else kind


def _concatenated(node: Any, kind: str, location: int) -> Any:
    """An argument of concat(), which calls output functions: they print a bool in one letter."""
    if kind not in _AS_WRITTEN:
        raise refused("concat of other than texts and integers", location)
    if kind == "bool":
        return called(
            "left",
            ast.TypeCast(arg=node, typeName=ast.TypeName(names=(ast.String(sval="text"),), typemod=-1)),
            ast.A_Const(val=ast.Integer(ival=1)),
        )
    return text_of(node) if kind == LSN else node


def widest(*kinds: str) -> str:
    """The type of a sum of these, as far as it is known."""
    ranks = (*_INTEGERS, "numeric", "float4", "float8")
    known = [kind for kind in kinds if kind not in ("unknown", "")]
    if not known or "" in kinds or any(kind not in ranks for kind in known):
        return ""
    return max(known, key=ranks.index)


def average(node: Any, first: str) -> Any:
    """avg() as the engine finds it out, a list of the texts of sum and count; `sql.result_text` divides them as numeric is divided."""
    if first == LSN:
        raise UsageError("function avg(pg_lsn) does not exist", hint=NO_FUNCTION, sqlstate="42883").in_text(node.location + 1)
    if first not in (*_INTEGERS, "numeric"):
        raise refused(f"avg of {first or 'what is no plain column'}", node.location)
    parts = []
    for name in ("sum", "count"):
        part = copy(node)
        part.funcname = (ast.String(sval=name),)
        parts.append(ast.TypeCast(arg=part, typeName=ast.TypeName(names=(ast.String(sval="text"),), typemod=-1)))
    return called("list_value", *parts)


def _encoded(node: Any, first: str) -> Any:
    form = node.args[1].val.sval if len(node.args) == 2 and isinstance(node.args[1], ast.A_Const) else ""
    if first != "bytea" or form != "hex":
        raise refused("encode, but for encode(…, 'hex')", node.location)
    return called("lower", called("hex", node.args[0]))
