"""Functions and casts of PostgreSQL's as the engine has them: other names, other types, and what must not reach it.

In: nodes whose arguments have been translated, and the types of these. Out: the node that the engine is given, and the type of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tailrace.errors import UsageError
from tailrace.sql.allowed import CASTS, FUNCTIONS, refused
from tailrace.sql.calls import NO_FUNCTION
from tailrace.sql.grammar import ast, name_of
from tailrace.sql.positions import LSN, as_lsn, called, difference, hex_of, text_of

_TAKE_POSITIONS = frozenset({"count", "min", "max", "lag", "lead", "first_value", "last_value", "concat"})
_RENAMED = {"every": "bool_and", "btrim": "trim"}


def cast(node: Any, kind: str) -> tuple[Any, str]:
    """A cast of what has this type, and the type that comes of it. Raises UsageError for one that is not computed here."""
    name = node.typeName.names[-1].sval
    engine = CASTS.get(name)
    if engine is None or node.typeName.arrayBounds or (node.typeName.typmods and name not in ("varchar", "bpchar")):
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
    if name == "bytea" or kind == "bytea":
        if not (is_constant and isinstance(node.arg.val, ast.String)) or name != "bytea":
            raise refused("a cast of bytea", node.location)
        return called("from_hex", ast.A_Const(val=ast.String(sval=hex_of(node.arg.val.sval)))), "bytea"
    node.typeName = ast.TypeName(names=(ast.String(sval=engine),), typemod=-1)
    return node, "text" if engine == "text" else name


def check_function(node: Any) -> None:
    """Raise UsageError (0A000) for one that the engine does not have with the same meaning."""
    schema, name = name_of(node)
    if name not in FUNCTIONS or schema not in ("", "pg_catalog") or node.func_variadic:
        raise refused(f"function {name}", node.location)


def function_value(node: Any, kinds: Sequence[str], database: str) -> tuple[Any, str]:
    """A checked function, with arguments of these types."""
    name = name_of(node)[1]
    arguments = node.args or ()
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
    if name == "concat":
        node.args = tuple(text_of(each) if kind == LSN else each for each, kind in zip(arguments, kinds, strict=True))
    if name == "encode":
        return _encoded(node, first), "text"
    if name == "length" and first == "bytea":
        node.funcname = (ast.String(sval="octet_length"),)
    kind = FUNCTIONS[name]
    return node, first if kind == "same" else kind


def _encoded(node: Any, first: str) -> Any:
    form = node.args[1].val.sval if len(node.args) == 2 and isinstance(node.args[1], ast.A_Const) else ""
    if first != "bytea" or form != "hex":
        raise refused("encode, but for encode(…, 'hex')", node.location)
    return called("lower", called("hex", node.args[0]))
