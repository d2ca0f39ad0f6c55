"""Functions of PostgreSQL's that tell of the catalogs' objects (`utils/adt/ruleutils.c`, `acl.c`, `format_type.c`, `catalog/namespace.c`), and
arrays, as the engine has them: calls of functions that `sql.views.catalog_objects` makes of one snapshot.

In: nodes whose arguments have been translated, and the types of these. Out: the engine's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pglast import enums

from tailrace.sql.grammar import ast, name_of
from tailrace.sql.query.allowed import SETS, SYSTEM_FUNCTIONS, refused
from tailrace.sql.query.lsn_expressions import called
from tailrace.sql.sql_types import read_array
from tailrace.types import oids
from tailrace.types.format_type import VECTORS
from tailrace.types.oid_aliases import OID_ALIASES

PREFIX = "_pg_"
"""What the engine's names of them begin with."""


_DEFAULTS: dict[str, tuple[Any, ...]] = {
    "pg_get_userbyid": (), "pg_encoding_to_char": (), "format_type": (), "pg_table_is_visible": (), "pg_type_is_visible": (),
    "pg_relation_is_publishable": (), "pg_get_replica_identity_index": (), "pg_get_partkeydef": (), "to_regclass": (), "to_regtype": (),
    "pg_function_is_visible": (), "pg_get_function_result": (), "pg_get_function_arguments": (), "pg_get_function_identity_arguments": (),
    "pg_get_viewdef": (), "pg_get_partition_constraintdef": (), "pg_get_expr": (False,), "pg_get_indexdef": (0, False),
    "obj_description": ("",), "col_description": (),
}  # fmt: skip
"""What stands for the last arguments, where they are not given."""
_NOT_KNOWN = frozenset(
    {
        "shobj_description", "pg_table_size", "pg_relation_size", "pg_total_relation_size", "pg_indexes_size",
        "pg_database_size", "pg_tablespace_size", "pg_get_constraintdef", "pg_get_triggerdef", "pg_get_statisticsobjdef",
        "pg_get_statisticsobjdef_columns", "pg_get_ruledef",
    }
)  # fmt: skip
"""Comments on what databases share, sizes, which no log has, and definitions of objects that are not tracked: NULL."""
_OF_NULL = frozenset({"pg_size_pretty"})
_ARRAYS = frozenset({"array_length", "array_upper", "array_to_string"})
assert _DEFAULTS.keys() | _NOT_KNOWN | _OF_NULL | _ARRAYS == SYSTEM_FUNCTIONS
_VECTORS = ("int2vector", "oidvector")
REG_KINDS = {
    "regclass": oids.REGCLASS, "regtype": oids.REGTYPE, "regnamespace": oids.REGNAMESPACE, "regrole": oids.REGROLE, "regproc": oids.REGPROC,
    "regcollation": oids.REGCOLLATION,
}  # fmt: skip
"""Types that are oids to the engine, and print as names."""
_OIDS = ("oid", "int2", "int4", "int8", *REG_KINDS)
assert set(REG_KINDS.values()) <= set(OID_ALIASES)
assert VECTORS == (oids.INT2VECTOR, oids.OIDVECTOR)


_IN_ROWS = {"oid": "UINTEGER", "regclass": "UINTEGER", "int4": "INTEGER", "bool": "BOOLEAN"}


def rows_type(columns: Sequence[tuple[str, str]]) -> str:
    """The engine's type of a list of rows."""
    fields = ", ".join(f"{name} {_IN_ROWS.get(kind, 'VARCHAR')}" for name, kind in columns)
    return f"STRUCT({fields})[]"


def _constant(value: int | bool | str) -> Any:
    if isinstance(value, str):
        return ast.A_Const(val=ast.String(sval=value))
    return ast.A_Const(val=ast.Boolean(boolval=value) if isinstance(value, bool) else ast.Integer(ival=value))


def system_value(node: Any, kinds: Sequence[str]) -> Any:
    """A call of one of SYSTEM_FUNCTIONS."""
    name, arguments = name_of(node)[1], tuple(node.args or ())
    if name in _NOT_KNOWN:
        return ast.A_Const(isnull=True)
    if name in _OF_NULL:
        if not isinstance(arguments[0], ast.A_Const) or not arguments[0].isnull:
            raise refused(f"function {name}", node.location)
        return arguments[0]
    if name in _ARRAYS:
        return _of_array(node, name, arguments, kinds[0])
    defaults = _DEFAULTS[name]
    if name == "pg_get_viewdef":  # whether it is to be pretty makes no difference
        arguments = arguments[:1]
    missing = len(defaults) - (len(arguments) - (2 if name == "pg_get_expr" else 1))
    return called(PREFIX + name, *arguments, *map(_constant, defaults[len(defaults) - missing :] if missing > 0 else ()))


def _of_array(node: Any, name: str, arguments: tuple[Any, ...], kind: str) -> Any:
    if name == "array_to_string":
        if kind in _VECTORS or len(arguments) != 2:
            raise refused(f"{name} of this", node.location)
        return called(name, *arguments)
    if not (isinstance(arguments[1], ast.A_Const) and getattr(arguments[1].val, "ival", 0) == 1):
        raise refused(f"{name}, but for the first dimension", node.location)
    if kind in _VECTORS:
        return called(f"{PREFIX}vector_{name.removeprefix('array_')}", arguments[0])
    return called("nullif", called("array_length", arguments[0]), _constant(0))


def element_of(array: Any, index: Any, kind: str) -> Any:
    """A subscript. An array of a catalog's has one dimension, and begins at 1."""
    if kind.startswith("_") and isinstance(array, ast.ColumnRef) and getattr(getattr(index, "val", None), "ival", 0) > 0:
        return called("list_extract", array, index)
    if kind not in _VECTORS:
        raise refused("a subscript")
    return called(f"{PREFIX}vector_element", array, index)


def without_bounds(node: Any, kind_of: Callable[[Any], str]) -> Any:
    """An int2vector that is cast to int2[], as an argument of array_upper(), as it is: its bounds stay."""
    is_vector = isinstance(node, ast.TypeCast) and node.typeName.arrayBounds and kind_of(node.arg) == "int2vector"
    return node.arg if is_vector else node


def values_of(array: Any, kind: str) -> Any:
    """What stands behind ANY and ALL."""
    if kind == "unknown" and isinstance(array, ast.A_Const) and isinstance(array.val, ast.String):
        texts = read_array(array.val.sval)
        return ast.A_ArrayExpr(elements=tuple(ast.A_Const(val=ast.String(sval=str(text))) for text in texts))
    return called(f"{PREFIX}vector_values", array) if kind in _VECTORS else array


def array_literal(node: Any, kind: str) -> Any:
    """A literal beside an array: `{0}` is `[0]` to the engine."""
    if kind.startswith("_") and isinstance(node, ast.A_Const) and isinstance(node.val, ast.String) and node.val.sval[:1] == "{":
        return ast.A_Const(val=ast.String(sval=f"[{node.val.sval[1:-1]}]"))
    return node


def reg_value(node: Any, target: str, kind: str) -> Any:
    """A cast to a type that is an oid; a name is looked up."""
    arg = node.arg
    if kind == "unknown" and isinstance(arg, ast.A_Const) and not arg.isnull and not arg.val.sval.isdecimal():
        if target not in ("regclass", "regtype"):
            raise refused(f"a cast of a name to {target}", node.location)
        return called(f"{PREFIX}{target}in", arg)
    if kind not in (*_OIDS, "unknown"):
        raise refused(f"a cast of {kind} to {target}", node.location)
    return ast.TypeCast(arg=arg, typeName=ast.TypeName(names=(ast.String(sval="uinteger"),), typemod=-1))


def reg_text(node: Any, kind: str) -> Any:
    """What regclassout and its kin print."""
    return called(f"{PREFIX}regout", _constant(REG_KINDS[kind]), node)


def is_set_call(node: Any) -> bool:
    """Whether it gives rows, and is no function of the interface."""
    return isinstance(node, ast.FuncCall) and name_of(node)[0] in ("", "pg_catalog") and name_of(node)[1] in SETS


def set_in_target(node: Any) -> Any:
    """The call that a column of the result is, or all fields of: f(…), (f(…)).*; None for any other."""
    if isinstance(node, ast.A_Indirection) and isinstance(node.indirection[0], ast.A_Star):
        node = node.arg
    return node if is_set_call(node) else None


def rows_as_list(node: Any, kinds: Sequence[str], arguments: Sequence[Any]) -> Any:
    """The rows of such a function, in a list; its arguments, which have these types, have been translated."""
    name = name_of(node)[1]
    if name == "generate_series":
        if not 2 <= len(kinds) <= 3 or {*kinds} - {"int2", "int4"}:
            raise refused("generate_series, but of integers,", node.location)
        return called(name, *arguments)
    if name == "unnest":
        if list(kinds) != ["_text"]:
            raise refused("unnest, but of one array of texts,", node.location)
        return arguments[0]
    if name == "pg_get_publication_tables" and not node.func_variadic:
        arguments = (called("list_value", *arguments),)
    if name.startswith("pg_partition_"):
        if len(arguments) != 1:
            raise refused(f"function {name} of this", node.location)
        arguments = [_relation(each) for each in arguments]
    return called(PREFIX + name, *arguments)


def _relation(node: Any) -> Any:
    """A literal that is a regclass, by oid or name."""
    is_name = isinstance(node, ast.A_Const) and isinstance(node.val, ast.String) and not node.val.sval.isdecimal()
    return called(f"{PREFIX}regclassin", node) if is_name else node


def unnested(rows: Any, function: Any) -> Any:
    """The rows of a list, which such a function has given; of records their fields, though they be of one, as in older majors."""
    if SETS[name_of(function)[1]] != "record":
        return called("unnest", rows)
    return called("unnest", rows, ast.NamedArgExpr(name="max_depth", arg=_constant(2), argnumber=-1))


def query_of(*values: Any) -> Any:
    """SELECT of these."""
    return ast.SelectStmt(
        targetList=tuple(ast.ResTarget(val=value) for value in values), op=enums.SetOperation.SETOP_NONE,
        limitOption=enums.LimitOption.LIMIT_OPTION_DEFAULT,
    )  # fmt: skip
