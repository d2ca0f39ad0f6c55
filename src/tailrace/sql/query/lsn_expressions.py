"""pg_lsn in expressions: the engine keeps positions as integers, so constants, casts and arithmetic of them are written out for it."""

from __future__ import annotations

from typing import Any

from pglast import enums

from tailrace.errors import UsageError
from tailrace.model import Lsn
from tailrace.sql.grammar import ast
from tailrace.sql.query.allowed import refused

LSN = "pg_lsn"


def arithmetic(node: Any, result: str) -> Any:
    """Arithmetic of positions: their distance, or one that lies so many bytes further."""
    if result != LSN:
        return difference(node.lexpr, node.rexpr)
    node.lexpr, node.rexpr = _to("hugeint", node.lexpr), _to("hugeint", node.rexpr)
    return _to("ubigint", node)


def difference(left: Any, right: Any) -> Any:
    """How many bytes lie between two."""
    name = (ast.String(sval="-"),)
    return ast.A_Expr(kind=enums.A_Expr_Kind.AEXPR_OP, name=name, lexpr=_to("hugeint", left), rexpr=_to("hugeint", right))


def _to(engine: str, node: Any) -> Any:
    return ast.TypeCast(arg=node, typeName=ast.TypeName(names=(ast.String(sval=engine),), typemod=-1))


def called(name: str, *arguments: Any) -> Any:
    """A call of a function of the engine."""
    return ast.FuncCall(
        funcname=(ast.String(sval=name),), args=arguments, funcformat=enums.CoercionForm.COERCE_EXPLICIT_CALL
    )  # fmt: skip


def as_lsn(node: Any) -> Any:
    """A constant as a position. Raises UsageError (22P02) for what is none."""
    if not isinstance(node, ast.A_Const):
        raise refused("a cast to pg_lsn of what is no constant")
    if node.isnull:
        return _to("ubigint", node)
    try:
        value = Lsn.parse(str(node.val.sval).strip())
    except (ValueError, AttributeError) as error:
        raise UsageError(str(error), sqlstate="22P02") from None
    return _to("ubigint", ast.A_Const(val=ast.String(sval=str(int(value)))))


def text_of(node: Any) -> Any:
    """A position as text."""
    return called("_pg_lsn_out", node)


def hex_of(text: str) -> str:
    """The digits of a bytea constant."""
    if not text.startswith("\\x"):
        return text.encode().hex()
    try:
        return bytes.fromhex(text[2:]).hex()
    except ValueError:
        raise UsageError(f'invalid hexadecimal data: "{text}"', sqlstate="22023") from None
