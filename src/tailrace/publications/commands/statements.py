"""CREATE, ALTER and DROP PUBLICATION as PostgreSQL reads them (`parser/gram.y`; `commands/publicationcmds.c`).

In: the text of a statement. Out: one of the values below, with names as they were written; nothing is looked up here. Raises
UsageError with the server's words for what is no such statement (42601), with the position of the character."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pglast import ast, enums, parse_sql
from pglast.parser import ParseError, scan

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError

ADD, DROP, SET = "add", "drop", "set"
_ACTIONS = {
    enums.AlterPublicationAction.AP_AddObjects: ADD,
    enums.AlterPublicationAction.AP_DropObjects: DROP,
    enums.AlterPublicationAction.AP_SetObjects: SET,
}


@dataclass(frozen=True, slots=True)
class WhereClause:
    """A WHERE clause as it was written, without its parentheses; it begins at this character of the statement (from 0)."""

    text: str
    at: int


@dataclass(frozen=True, slots=True)
class PublicationTable:
    """A table of a publication. `schema` is empty where the search path decides; with ONLY, `inherits` is False."""

    schema: str
    name: str
    inherits: bool = True
    columns: tuple[str, ...] | None = None
    where: WhereClause | None = None

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}" if self.schema else self.name


CURRENT_SCHEMA = None
"""Instead of a schema's name."""


@dataclass(frozen=True, slots=True)
class DefElem:
    """An option as it was written; without a value if none was."""

    name: str
    value: str | int | None


@dataclass(frozen=True, slots=True)
class PublicationObjects:
    tables: tuple[PublicationTable, ...] = ()
    schemas: tuple[str | None, ...] = ()


@dataclass(frozen=True, slots=True)
class CreatePublication:
    name: str
    all_tables: bool
    objects: PublicationObjects
    options: tuple[DefElem, ...]


@dataclass(frozen=True, slots=True)
class AlterObjects:
    name: str
    action: str
    objects: PublicationObjects


@dataclass(frozen=True, slots=True)
class AlterOptions:
    name: str
    options: tuple[DefElem, ...]


@dataclass(frozen=True, slots=True)
class AlterOwner:
    name: str
    owner: str | None
    """None for CURRENT_USER and its kin."""


@dataclass(frozen=True, slots=True)
class RenamePublication:
    name: str
    new: str


@dataclass(frozen=True, slots=True)
class DropPublication:
    names: tuple[str, ...]
    if_exists: bool


Statement = CreatePublication | AlterObjects | AlterOptions | AlterOwner | RenamePublication | DropPublication


def parse_statement(text: str) -> Statement:
    """The one statement that the text has."""
    try:
        parsed = parse_sql(text)
    except ParseError as error:
        message, at = error.args
        raise UsageError(str(message), sqlstate="42601").in_text(None if at is None else int(at) + 1) from None
    if len(parsed) != 1:
        raise UsageError(f"one statement is expected, not {len(parsed)}", sqlstate="42601")
    statement = _statement(parsed[0].stmt, _where_texts(text))
    if statement is None:
        raise UsageError(
            "this is no statement about publications",
            hint="CREATE, ALTER and DROP PUBLICATION are understood.",
            sqlstate="42601",
        )
    return statement


def _statement(parsed: Any, wheres: Iterator[WhereClause]) -> Statement | None:
    node: Any = parsed
    match parsed:
        case ast.CreatePublicationStmt():
            return CreatePublication(
                node.pubname, bool(node.for_all_tables), _objects(node.pubobjects, wheres), _options(node.options)
            )
        case ast.AlterPublicationStmt() if node.options:
            return AlterOptions(node.pubname, _options(node.options))
        case ast.AlterPublicationStmt():
            return AlterObjects(node.pubname, _ACTIONS[node.action], _objects(node.pubobjects, wheres))
        case ast.AlterOwnerStmt() if node.objectType == enums.ObjectType.OBJECT_PUBLICATION:
            return AlterOwner(node.object.sval, node.newowner.rolename)
        case ast.RenameStmt() if node.renameType == enums.ObjectType.OBJECT_PUBLICATION:
            return RenamePublication(node.object.sval, node.newname)
        case ast.DropStmt() if node.removeType == enums.ObjectType.OBJECT_PUBLICATION:
            return DropPublication(tuple(each.sval for each in node.objects), bool(node.missing_ok))
    return None


def _objects(nodes: Sequence[Any] | None, wheres: Iterator[WhereClause]) -> PublicationObjects:
    tables: list[PublicationTable] = []
    schemas: list[str | None] = []
    for node in nodes or ():
        if node.pubobjtype == enums.PublicationObjSpecType.PUBLICATIONOBJ_TABLE:
            table = node.pubtable
            columns = None if table.columns is None else tuple(column.sval for column in table.columns)
            where = None if table.whereClause is None else next(wheres)
            relation = table.relation
            tables.append(PublicationTable(relation.schemaname or "", relation.relname, bool(relation.inh), columns, where))
        else:
            named = node.pubobjtype == enums.PublicationObjSpecType.PUBLICATIONOBJ_TABLES_IN_SCHEMA
            schemas.append(node.name if named else CURRENT_SCHEMA)
    return PublicationObjects(tuple(tables), tuple(schemas))


def _options(nodes: Sequence[Any] | None) -> tuple[DefElem, ...]:
    return tuple(DefElem(node.defname, _value(node.arg)) for node in nodes or ())


def _value(given: Any) -> str | int | None:
    """A value as defGetString gives it; a number as such."""
    node: Any = given
    match given:
        case None:
            return None
        case ast.Integer():
            return int(node.ival or 0)
        case ast.Float():
            return str(node.fval)
        case ast.Boolean():
            return "true" if node.boolval else "false"
        case ast.TypeName():
            return ".".join(each.sval for each in node.names)
        case ast.String():
            return str(node.sval)
    raise UsageError(f"this is no value of an option: {node}", sqlstate="42601")


def _where_texts(text: str) -> Iterator[WhereClause]:
    """What stands in parentheses behind each WHERE, but not in the parentheses of another."""
    depth = begin = 0
    waiting = False
    for token in scan(text):
        if depth == 0 and token.name == "WHERE":
            waiting = True
        elif waiting and token.name == "ASCII_40":
            begin = token.end + 1 if depth == 0 else begin
            depth += 1
        elif waiting and token.name == "ASCII_41":
            depth -= 1
            if depth == 0:
                waiting = False
                yield WhereClause(text[begin : token.start], begin)
