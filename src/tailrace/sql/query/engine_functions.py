"""Functions and casts of PostgreSQL's as the engine has them: other names, other types, and what must not reach it.

In: nodes whose arguments have been translated, and the types of these. Out: the node that the engine is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

from pglast import enums

from tailrace.sql.grammar import ast, name_of
from tailrace.sql.query.allowed import CASTS, SYSTEM_FUNCTIONS, refused
from tailrace.sql.query.json_fields import INPUT, JSON
from tailrace.sql.query.lsn_expressions import LSN, as_lsn, called, difference, hex_of, text_of
from tailrace.sql.query.system_functions import REG_KINDS, reg_text, reg_value, system_value

_RENAMED = {
    "every": "bool_and", "btrim": "trim", "char_length": "length", "character_length": "length", "mod": "%",
}  # fmt: skip
AVG = (("", "avg"), ("pg_catalog", "avg"))
_INTEGERS = ("int2", "int4", "int8")
_TEXTS = ("text", "varchar", "bpchar", "name", "unknown")
_AS_WRITTEN = frozenset({*_TEXTS, "char", "bool", "oid", "xid", LSN, *_INTEGERS})
"""Types that the engine makes the same text of, or that are made text before."""


def cast(node: Any, kind: str) -> Any:
    """A cast of what has this type. Raises UsageError for one that is not computed here."""
    name = node.typeName.names[-1].sval
    if node.typeName.arrayBounds:  # but where `without_bounds` takes it away
        raise refused(f"a cast to {name}[]", node.location)
    if name in REG_KINDS:
        return reg_value(node, name, kind)
    if kind in REG_KINDS and CASTS[name] == "text":
        return reg_text(node.arg, kind)
    engine, most = CASTS[name], node.typeName.typmods
    if most and (name != "varchar" or kind not in _TEXTS):
        raise refused(f"a cast to {name}", node.location)
    if name == LSN:
        return node.arg if kind == LSN else as_lsn(node.arg)
    if kind == "timestamptz" and engine == "text":
        raise refused("a cast of timestamptz to text", node.location)
    if kind == LSN:
        return text_of(node.arg)
    if name == JSON:
        if kind not in (*_TEXTS, JSON):
            raise refused(f"a cast of {kind} to json", node.location)
        return node.arg if kind == JSON else called(INPUT, node.arg)
    if name == "bytea" or kind == "bytea":
        if not (isinstance(node.arg, ast.A_Const) and isinstance(node.arg.val, ast.String)) or name != "bytea":
            raise refused("a cast of bytea", node.location)
        return called("from_hex", ast.A_Const(val=ast.String(sval=hex_of(node.arg.val.sval))))
    node.typeName = ast.TypeName(names=(ast.String(sval=engine),), typemod=-1)
    return called("left", node, *most) if most else node


def function_value(node: Any, kinds: Sequence[str], database: str) -> Any:
    """A checked function, with arguments of these types."""
    name = name_of(node)[1]
    if name in SYSTEM_FUNCTIONS:
        return system_value(node, kinds)
    arguments: Sequence[Any] = node.args or ()
    node.funcname = (ast.String(sval=_RENAMED.get(name, name)),)
    first = kinds[0] if kinds else ""
    if name == "pg_wal_lsn_diff":
        return difference(*(as_lsn(each) if kind == "unknown" else each for each, kind in zip(arguments, kinds, strict=True)))
    if name == "current_database":
        return ast.A_Const(val=ast.String(sval=database))
    if name == "array_agg" and (first == LSN or first in REG_KINDS):
        raise refused(f"array_agg of {first}", node.location)
    if JSON in kinds and name != "count":
        raise refused(f"{name} of json", node.location)
    if name in ("concat", "concat_ws"):
        node.args = tuple(_concatenated(each, kind, node.location) for each, kind in zip(arguments, kinds, strict=True))
    if name in ("substr", "substring"):
        if len(kinds) < 2 or any(kind not in _INTEGERS for kind in kinds[1:]) or first not in _TEXTS:
            raise refused("substring, but for a text by numbers", node.location)
        node.funcname = (ast.String(sval=f"_substring{len(kinds)}"),)
    if name in ("lpad", "rpad") and len(kinds) == 2:
        node.args = (*arguments, ast.A_Const(val=ast.String(sval=" ")))
    elif name in ("lpad", "rpad") and not getattr(getattr(arguments[-1], "val", None), "sval", ""):
        raise refused(f"{name} with what may be empty", node.location)
    if name in ("mod", "sign", "bit_and", "bit_or") and first not in _INTEGERS:
        raise refused(f"function {name}, but for integers", node.location)
    if name == "mod":
        return ast.A_Expr(kind=enums.A_Expr_Kind.AEXPR_OP, name=node.funcname, lexpr=arguments[0], rexpr=arguments[1])
    if name == "encode":
        return _encoded(node, first)
    if name == "length" and first == "bytea":
        node.funcname = (ast.String(sval="octet_length"),)
    return node


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


def average(node: Any, first: str) -> Any:
    """avg() as the engine finds it out, a list of the texts of sum and count; `sql.result_text` divides them as numeric is divided."""
    if first not in (*_INTEGERS, "numeric"):
        raise refused(f"avg of {first}", node.location)
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
