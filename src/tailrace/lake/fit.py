"""Which tables of the source a lake can have."""

from __future__ import annotations

from tailrace.catalog.names.qualified_names import write_table_name
from tailrace.errors import UsageError
from tailrace.feed import FeedSpan, FeedTable
from tailrace.model import FIRST_NORMAL_OID, Relation
from tailrace.types.quoting import quote_identifier


def is_followed(relation: Relation) -> bool:
    """Whether it is a table of a user's, or a partitioned one."""
    return relation.oid >= FIRST_NORMAL_OID and relation.kind in "rp"


def check_fit(each: FeedTable, span: FeedSpan) -> None:
    """Raise UsageError for what has no changes to follow; a partitioned table has, if its partitions are published as it."""
    relation = each.relation
    if relation.kind == "p" and not span.publications:
        raise UsageError(
            f'"{_name(relation)}" is a partitioned table',
            hint="Its rows are in its partitions: name these, or no tables at all.", sqlstate="42809",
        )  # fmt: skip
    if relation.kind not in "rp":
        raise UsageError(f'"{_name(relation)}" is not a table', sqlstate="42809")
    if relation.persistence != "p":
        raise UsageError(
            f'the log has no changes of unlogged table "{_name(relation)}"',
            hint="ALTER TABLE … SET LOGGED",
            sqlstate="42809",
        )
    _check_columns(each)


def _check_columns(each: FeedTable) -> None:
    """Raise UsageError for columns that no Delta table has."""
    relation = each.relation
    names: dict[str, str] = {}
    for column in relation.live_columns:
        other = names.setdefault(column.name.lower(), column.name)
        if other != column.name:
            raise UsageError(
                f"columns {quote_identifier(other)} and {quote_identifier(column.name)} are one to Delta",
                hint="It does not tell capitals from small letters. ALTER TABLE … RENAME COLUMN, and go on.",
                context=f"table {_name(relation)}", sqlstate="42701",
            )  # fmt: skip
    if not names:
        raise UsageError("a Delta table has at least one column", context=f"table {_name(relation)}", sqlstate="42P16")


def _name(relation: Relation) -> str:
    return write_table_name(relation.schema, relation.name)
