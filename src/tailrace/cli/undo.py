"""`tailrace undo`: the SQL that would take a transaction back. It is printed, never run."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tailrace.cli.choice import On
from tailrace.cli.past_log import open_log, time_text
from tailrace.cli.progress import counted, warn
from tailrace.past.sql_text import comment, defer_keys, restore_keys
from tailrace.past.undo import OF_STATEMENTS, Undo, undo
from tailrace.types.encodings.server_encodings import SQL_ASCII
from tailrace.window import WindowSize

_HEAD = """What others have changed since is left as it is. Triggers fire, and foreign keys are checked, unless a superuser adds:
SET LOCAL session_replication_role = replica;"""
_KEYS = (
    "Foreign keys between these tables are checked at the end, as far as their owner runs this; the tables are locked until then."
)
_SESSION = """SET LOCAL client_encoding = '{encoding}';
SET CONSTRAINTS ALL DEFERRED;"""
"""What the text is in; and constraints that the transaction may have deferred."""


def print_statements(
    source: str, xid: int, database: str, *, catalog: str | None, index: Path | None, window: WindowSize | None, on: On
) -> bool:  # fmt: skip
    """What would take the transaction back; whether that is all of it."""
    with counted("statements") as progress:
        feed = open_log(
            source, database, catalog=catalog, index=index, window=window, on=on, progress=progress, demand=OF_STATEMENTS
        )
        found = undo(feed, xid)
        progress.add(sum(bool(step.statement) for step in found.steps))
    sys.stdout.flush()
    for line in _lines(found, database, "SQL_ASCII" if feed.history.encoding == SQL_ASCII else "UTF8"):
        sys.stdout.buffer.write(f"{line}\n".encode("utf-8", "surrogateescape"))
    troubles = Counter((step.table, _reason(step.trouble)) for step in found.steps if step.trouble)
    for (table, trouble), count in troubles.items():
        warn(f"{table}: {trouble}" + (f" ({count} times)" if count > 1 else ""))
    if troubles and feed.warning:
        warn(feed.warning)
    return not troubles


def _reason(trouble: str) -> str:
    """What is not restored, without the LSN of each row."""
    what, _, why = trouble.partition(": ")
    return f"{what.partition(' at ')[0]}: {why}" if why else trouble


def _lines(found: Undo, database: str, encoding: str) -> Iterator[str]:
    of = found.transaction
    yield comment(
        f"takes back transaction {found.full_xid} of database {database}, committed {time_text(of.commit_time)} at {of.commit_lsn}"
    )
    yield comment(_HEAD)
    yield "BEGIN;"
    yield _SESSION.format(encoding=encoding)
    tables = sorted({step.table for step in found.steps if step.statement})
    if several := sum(bool(step.statement) for step in found.steps) > 1:
        yield comment(_KEYS)
        yield defer_keys(tables)
    for step in found.steps:
        if step.trouble:
            yield comment(f"NOT RESTORED, {step.table}: {step.trouble}")
        if step.note:
            yield comment(step.note)
        if step.statement:
            yield step.statement
    if several:
        yield restore_keys()
    yield "COMMIT;"
