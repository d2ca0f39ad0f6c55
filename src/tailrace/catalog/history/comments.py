"""Comments on relations and their columns (`commands/comment.c`): what pg_description said at an LSN.

In: a history. Out: `Comments`; and whether any changed in a span. A comment is a row with the relation's oid and the column's number, 0 for the
relation itself. Bytes that are no text in the database's encoding, which SQL_ASCII lets pass, become replacement characters.
"""

from __future__ import annotations

import numpy as np

from tailrace.catalog.history.history import History
from tailrace.catalog.rows.catalog_rows import oid_of
from tailrace.model import Comments

PG_CLASS = oid_of("pg_class")


def comments_at(history: History, oid: int, lsn: int, ordinal: int = -1) -> Comments | None:
    """The comments on relation `oid` as a change at `lsn` in transaction `ordinal` sees them; None where the catalogs do not tell of comments."""
    if not history.knows_comments:
        return None
    said = comments_on(history, PG_CLASS, oid, lsn, ordinal)
    relation = said.pop(0, "")
    return Comments(relation, tuple(sorted(said.items())))


def comments_on(history: History, catalog: int, oid: int, lsn: int, ordinal: int = -1) -> dict[int, str]:
    """By objsubid, the comments on the object `oid` of this catalog."""
    described = history.table("pg_description")
    rows = described.seen_where("objoid", oid, lsn, ordinal)
    rows = rows[described["classoid"][rows] == catalog]
    codec = history.codec or "utf-8"
    said = zip(described["objsubid"][rows].tolist(), described["description"][rows].tolist(), strict=True)
    return {number: text.decode(codec, "replace") for number, text in said}


def comments_changed(history: History, oid: int, since: int, until: int) -> bool:
    """Whether a commit in `[since, until)` set, changed or removed a comment on relation `oid` or one of its columns."""
    described = history.table("pg_description")
    if not history.knows_comments or described.last_change("objoid", oid) < since:
        return False
    rows = described.where("objoid", oid)
    rows = rows[described["classoid"][rows] == PG_CLASS]
    begin, end = described.rows.begin[rows], described.rows.end[rows]
    moments = np.concatenate([begin, end])[np.tile(begin < end, 2)]
    return bool(((moments >= since) & (moments < until)).any())
