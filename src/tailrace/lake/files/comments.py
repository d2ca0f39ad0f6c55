"""Comments of the source on a table of the lake and on its columns.

In: what the source says (`model.Comments`), and the columns that a commit is about to have. Out: these columns with comments, as Arrow's fields have
them: in their metadata, below `comment`. A setting of the table names what has its comment from the source, so that one that the source removes goes
here as well, and one that somebody has put on the lake's table stays where the source has none.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Self

import pyarrow as pa

from tailrace.dataclass import dataclass
from tailrace.model import Comments, Relation

COMMENTED = "tailrace.commented"
"""Where a table says, in JSON, which of its columns have their comments from the source; the empty name is the table's own."""
_COMMENT = b"comment"
_ROW = ("new", "old")
"""The structs in which the columns of a row lie in a table of changes."""


@dataclass(frozen=True, slots=True)
class LakeComments:
    """What the source says of a table, and of each of its columns by name; empty: nothing. Columns that are not named are not the source's (any
    more). With `in_changes` the columns lie in the rows of a table of changes."""

    table: str
    columns: Mapping[str, str]
    in_changes: bool = False

    @classmethod
    def of(cls, comments: Comments, relation: Relation, lost: Collection[int], *, in_changes: bool) -> Self:
        """`lost` are the numbers of columns that the source has dropped, and the table keeps."""
        said = dict(comments.columns)
        columns = {column.name: said.get(column.number, "") for column in relation.live_columns if column.number not in lost}
        return cls(comments.relation, columns, in_changes)

    @property
    def setting(self) -> str:
        return json.dumps(sorted(name for name, said in self._named if said), ensure_ascii=False)

    @property
    def _named(self) -> list[tuple[str, str]]:
        return [("", self.table), *self.columns.items()]


def commented_table(comments: LakeComments | None, there: str, setting: str) -> str:
    """The comment that the table is to have, empty for none: that of the source, or what is `there`. `setting` is COMMENTED of the table so far."""
    if comments is None:
        return there
    return comments.table or ("" if "" in _from_source(setting) else there)


def commented_columns(schema: pa.Schema, there: pa.Schema | None, comments: LakeComments | None, setting: str = "") -> pa.Schema:
    """The columns with their comments: those of the source, or what stands `there`, in the columns that the table has so far."""
    ours, said = _from_source(setting), comments.columns if comments is not None else {}

    def commented(field: pa.Field, before: pa.Field | None, *, is_column: bool) -> pa.Field:
        comment = comment_of(before) if before is not None else ""
        if is_column and field.name in said:
            comment = said[field.name] or ("" if field.name in ours else comment)
        if comments is not None and comments.in_changes and not is_column and field.name in _ROW:
            known = {each.name: each for each in before.type} if before is not None else {}
            row = [commented(each, known.get(each.name), is_column=True) for each in field.type]
            field = field.with_type(pa.struct(row))
        elif before is not None and field.type == before.type:
            field = field.with_type(before.type)  # with the comments within
        return with_comment(field, comment)

    known = {each.name: each for each in there} if there is not None else {}
    is_column = comments is None or not comments.in_changes
    return pa.schema([commented(each, known.get(each.name), is_column=is_column) for each in schema])


def with_comment(field: pa.Field, comment: str) -> pa.Field:
    """With this comment, or none; what else there is in the metadata stays."""
    metadata = {name: value for name, value in (field.metadata or {}).items() if name != _COMMENT}
    return field.with_metadata({**metadata, _COMMENT: comment.encode()} if comment else metadata)


def comment_of(field: pa.Field) -> str:
    """Empty if there is none."""
    return (field.metadata or {}).get(_COMMENT, b"").decode()


def uncommented(schema: pa.Schema) -> pa.Schema:
    """The same columns as files have them, which say nothing about them."""
    return pa.schema(
        [with_comment(pa.field(each.name, _uncommented(each.type), each.nullable, each.metadata), "") for each in schema]
    )


def _uncommented(kind: pa.DataType) -> pa.DataType:
    if not pa.types.is_struct(kind):
        return kind
    return pa.struct([with_comment(each, "") for each in kind])


def _from_source(setting: str) -> frozenset[str]:
    return frozenset(json.loads(setting or "[]"))
