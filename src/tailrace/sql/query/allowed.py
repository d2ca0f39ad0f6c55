"""What a statement over the interface's rows may contain: the nodes of the grammar, functions and types that mean the same in PostgreSQL and in the
engine that computes with these rows (docs/decisions/012-duckdb.md). Everything else is refused by its name.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from pglast import enums

from tailrace.errors import UsageError
from tailrace.sql.grammar import ast, children, name_of

NODES = frozenset(
    {
        ast.SelectStmt, ast.ResTarget, ast.ColumnRef, ast.A_Star, ast.A_Const, ast.A_Expr, ast.BoolExpr, ast.NullTest, ast.BooleanTest,
        ast.CaseExpr, ast.CaseWhen, ast.CoalesceExpr, ast.MinMaxExpr, ast.SubLink, ast.TypeCast, ast.FuncCall, ast.WindowDef, ast.SortBy,
        ast.JoinExpr, ast.RangeVar, ast.RangeSubselect, ast.RangeFunction, ast.CommonTableExpr, ast.WithClause, ast.Alias, ast.A_ArrayExpr,
        ast.TypeName, ast.String, ast.Integer, ast.Float, ast.Boolean, ast.A_Indirection, ast.A_Indices, ast.CollateClause, ast.SQLValueFunction,
    }
)  # fmt: skip
_NAMES = {
    "InsertStmt": "INSERT", "UpdateStmt": "UPDATE", "DeleteStmt": "DELETE", "MergeStmt": "MERGE",
    "CreateStmt": "CREATE TABLE", "ViewStmt": "CREATE VIEW",
    "CreateTableAsStmt": "CREATE TABLE AS", "TransactionStmt": "a transaction block", "ExplainStmt": "EXPLAIN", "PrepareStmt": "PREPARE",
    "ExecuteStmt": "EXECUTE", "CopyStmt": "COPY", "DropStmt": "DROP", "TruncateStmt": "TRUNCATE", "AlterTableStmt": "ALTER TABLE",
    "CreatePublicationStmt": "CREATE PUBLICATION", "AlterPublicationStmt": "ALTER PUBLICATION", "DoStmt": "DO", "CallStmt": "CALL",
    "GroupingSet": "GROUPING SETS", "RowExpr": "ROW", "XmlExpr": "XML", "ParamRef": "a parameter", "RangeTableSample": "TABLESAMPLE",
    "LockingClause": "FOR UPDATE", "DeclareCursorStmt": "DECLARE",
    "VacuumStmt": "VACUUM", "CheckPointStmt": "CHECKPOINT", "IndexStmt": "CREATE INDEX", "CreateSchemaStmt": "CREATE SCHEMA",
}  # fmt: skip
FUNCTIONS = frozenset(
    {
        "count", "sum", "min", "max", "string_agg", "array_agg", "bool_and", "bool_or", "every", "row_number", "rank",
        "dense_rank", "octet_length", "lag", "lead", "first_value", "last_value", "ntile", "lower", "upper", "length", "substr",
        "substring", "left", "right", "split_part", "replace", "strpos", "position", "btrim", "ltrim", "rtrim", "concat",
        "repeat", "reverse", "md5", "abs", "starts_with", "encode", "pg_wal_lsn_diff", "now", "current_database", "char_length",
        "character_length", "bit_length", "ascii", "lpad", "rpad", "translate", "concat_ws", "mod", "sign", "bit_and", "bit_or",
    }
)  # fmt: skip
"""Those of PostgreSQL's functions that the engine has with the same meaning."""
SYSTEM_FUNCTIONS = frozenset(
    {
        "pg_get_userbyid", "pg_encoding_to_char", "format_type", "pg_table_is_visible", "pg_type_is_visible", "pg_relation_is_publishable",
        "pg_get_replica_identity_index", "pg_get_partkeydef", "to_regclass", "to_regtype", "pg_get_expr", "pg_get_indexdef",
        "obj_description", "col_description", "shobj_description", "pg_table_size", "pg_relation_size", "pg_total_relation_size", "pg_indexes_size",
        "pg_database_size", "pg_tablespace_size", "pg_size_pretty", "pg_get_constraintdef", "pg_get_triggerdef", "pg_get_statisticsobjdef",
        "pg_get_statisticsobjdef_columns", "pg_function_is_visible", "pg_get_function_result", "pg_get_function_arguments",
        "pg_get_function_identity_arguments", "pg_get_viewdef", "pg_get_partition_constraintdef", "pg_get_ruledef",
        "array_length", "array_upper", "array_to_string",
    }
)  # fmt: skip
"""Those that are answered from the catalogs (`query.system_functions`)."""
SETS = {
    "pg_partition_ancestors": "regclass", "pg_partition_tree": "record", "pg_get_publication_tables": "record", "generate_series": "int4",
    "unnest": "text",
}  # fmt: skip
"""Functions that give rows, and what a row is."""
CASTS = {
    "text": "text", "varchar": "text", "bpchar": "text", "name": "text", "int2": "smallint", "int4": "integer", "int8": "bigint",
    "float8": "double", "bool": "boolean", "oid": "uinteger", "xid": "uinteger", "pg_lsn": "ubigint", "timestamptz": "timestamptz",
    "timestamp": "timestamp", "date": "date", "bytea": "bytea", "json": "json",
    **dict.fromkeys(("regclass", "regtype", "regnamespace", "regrole"), "uinteger"),
}  # fmt: skip
"""Types that can be cast to -> the engine's."""
OPERATORS = frozenset(
    {
        "=", "<>", "!=", "<", ">", "<=", ">=", "+", "-", "*", "/", "%", "||", "~~", "!~~", "~~*", "!~~*", "~", "!~", "~*", "!~*", "&", "|",
        "BETWEEN", "NOT BETWEEN", "->", "->>",
    }
)  # fmt: skip
MATCHES = frozenset({"~", "!~", "~*", "!~*"})
"""Those of regular expressions."""
_KINDS = enums.A_Expr_Kind
EXPRESSIONS = frozenset(
    {
        _KINDS.AEXPR_OP, _KINDS.AEXPR_OP_ANY, _KINDS.AEXPR_OP_ALL, _KINDS.AEXPR_DISTINCT, _KINDS.AEXPR_NOT_DISTINCT, _KINDS.AEXPR_NULLIF,
        _KINDS.AEXPR_IN, _KINDS.AEXPR_LIKE, _KINDS.AEXPR_ILIKE, _KINDS.AEXPR_BETWEEN, _KINDS.AEXPR_NOT_BETWEEN,
    }
)  # fmt: skip
PATTERNS = frozenset({_KINDS.AEXPR_LIKE, _KINDS.AEXPR_ILIKE})


def check_nodes(node: Any, but: Container[int] = ()) -> None:
    """Raise UsageError (0A000) for the first that is none of `NODES`. What is below those whose ids are in `but` has been looked at."""
    if isinstance(node, tuple | list):
        for each in node:
            check_nodes(each, but)
        return
    if not isinstance(node, ast.Node) or id(node) in but:
        return
    if type(node) not in NODES:
        raise refused(what_is(node), getattr(node, "location", None))
    if isinstance(node, ast.SelectStmt):
        if node.intoClause is not None:
            raise refused("SELECT INTO")
        if node.lockingClause:
            raise refused("FOR UPDATE")
    if isinstance(node, ast.A_Expr) and (node.kind not in EXPRESSIONS or not _is_operator([part.sval for part in node.name])):
        raise refused(f"operator {node.name[-1].sval}" if node.kind == _KINDS.AEXPR_OP else "this comparison", node.location)
    if isinstance(node, ast.TypeCast) and not _is_cast(node.typeName):
        raise refused(f"a cast to {node.typeName.names[-1].sval}", node.location)
    if isinstance(node, ast.CollateClause) and [part.sval for part in node.collname][-1] != "default":
        raise refused("COLLATE", node.location)
    if isinstance(node, ast.FuncCall):
        check_function(node, _SEEN_TO)
    if isinstance(node, ast.RangeFunction):  # what may be called there says `query.translation`
        return
    for name in node:
        check_nodes(getattr(node, name), but)


def _is_operator(names: list[str]) -> bool:
    return names[-1] in OPERATORS and names[:-1] in ([], ["pg_catalog"])


def _is_cast(name: Any) -> bool:
    """An int2vector may be cast to int2[]."""
    return name.names[-1].sval == "int2" if name.arrayBounds else name.names[-1].sval in CASTS


MOST_VALUES = 50_000
"""In one list. To compute with so many takes some ten seconds, and with more grows faster than their number."""


def check_lists(node: Any) -> None:
    """Raise UsageError (54000) for a list of more values than are worth being computed with here; a longer one is not gone through."""
    if isinstance(node, tuple | list) and len(node) > MOST_VALUES:
        error = refused(f"a list of {len(node):,} values")
        error.sqlstate = "54000"
        raise error
    for each in children(node):
        check_lists(each)


_SEEN_TO = FUNCTIONS | SYSTEM_FUNCTIONS | {"avg", "like_escape"} | SETS.keys()
"""With those that stand in some places: a column of the result, the pattern of LIKE, FROM."""


def check_function(node: Any, known: Container[str] = FUNCTIONS | SYSTEM_FUNCTIONS) -> None:
    """Raise UsageError (0A000) for a function that the engine does not have with the same meaning."""
    schema, name = name_of(node)
    if name not in known or schema not in ("", "pg_catalog") or (node.func_variadic and name not in SETS):
        raise refused(f"function {name}", node.location)


def check_recursion(statement: Any) -> None:
    """Raise UsageError (0A000) for a LIMIT beside WITH RECURSIVE, which would be computed to its end, and may have none."""
    if _is_recursive(statement) and _is_limited(statement):
        raise refused("LIMIT with WITH RECURSIVE")


def _is_recursive(node: Any) -> bool:
    if isinstance(node, ast.WithClause) and node.recursive:
        return True
    return any(_is_recursive(each) for each in children(node) if isinstance(each, ast.Node | tuple))


def _is_limited(node: Any) -> bool:
    if isinstance(node, ast.SelectStmt) and node.limitCount is not None:
        return True
    return any(_is_limited(each) for each in children(node) if isinstance(each, ast.Node | tuple))


def what_is(node: Any) -> str:
    """A statement or a part of one as a person calls it."""
    name = type(node).__name__
    return _NAMES.get(name, name.removesuffix("Stmt"))


def refused(what: str, location: int | None = None) -> UsageError:
    """The error for what is not computed here."""
    error = UsageError(
        f"{what} is not supported outside of the server", hint="With --connect DSN it goes to a server.", sqlstate="0A000"
    )
    return error if location is None or location < 0 else error.in_text(location + 1)
