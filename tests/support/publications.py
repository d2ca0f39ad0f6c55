"""What pgoutput sends of SQL, and what tailrace publishes of the log that this left: both as `support.pgoutput.Sent`.

A `Scenario` makes tables and publications in a schema of its own and works on them; a server does all of its scenarios one after another, and says of
each what its slot gave, or the error that it raised.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import psycopg

from support.cases import DBNAME
from support.decoding import opened
from support.pgoutput import UNCHANGED, Change, Sent, Values, read_sent
from support.servers import Server
from tailrace.catalog.history.change_points import Committed
from tailrace.decode import DELETE, INSERT, UPDATE, Batch, decode_by_descriptor
from tailrace.errors import TailraceError
from tailrace.pipeline import Pipeline
from tailrace.publications.publishing.entry_timeline import Definitions, EntryTimeline, entry_timeline
from tailrace.publications.publishing.filter_compiler import StoredFilters
from tailrace.publications.publishing.publisher import Publisher
from tailrace.types import registry

SLOT = "s"
_KINDS = {INSERT: "insert", UPDATE: "update", DELETE: "delete"}


@dataclass(frozen=True, slots=True)
class Scenario:
    """`work` is done by statements that commit by themselves, those of an inner list in one transaction; for majors since `first`."""

    name: str
    setup: tuple[str, ...]
    work: tuple[str | tuple[str, ...], ...]
    names: tuple[str, ...]
    first: int = 14


@dataclass(frozen=True, slots=True)
class Told:
    """What the server's slot gave of a scenario, whose transactions commit in `[start, stop)`; or SQLSTATE and message of its error."""

    scenario: Scenario
    start: int
    stop: int
    sent: list[Sent]
    error: tuple[str, str] | None


def _lsn(server: Server) -> int:
    server.checkpoint()
    return int(server.value("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"))  # type: ignore[arg-type]


def tell(server: Server, scenario: Scenario) -> Told:
    """Do it, and ask the slot, which is moved on."""
    with server.connect() as connection:
        connection.execute("DROP SCHEMA IF EXISTS sc, sc2 CASCADE; CREATE SCHEMA sc; SET search_path = sc")
        for statement in scenario.setup:
            connection.execute(statement.encode())
        server.sql("SELECT pg_replication_slot_advance('s', pg_current_wal_insert_lsn())")
        start = _lsn(server)
        for step in scenario.work:
            statements = [step] if isinstance(step, str) else ["BEGIN", *step, "COMMIT"]
            for statement in statements:
                connection.execute(statement.encode())
    stop = _lsn(server)
    options = ["proto_version", "1", "publication_names", ",".join(scenario.names)]
    query = f"SELECT data FROM pg_logical_slot_peek_binary_changes('s', NULL, NULL{', %s' * len(options)})"
    sent: list[Sent] = []
    error = None
    try:
        sent = [each for each in read_sent(bytes(row[0]) for row in server.sql(query, options)) if each.changes]
    except psycopg.Error as raised:
        error = str(raised.sqlstate), str(raised.diag.message_primary)
    for (name,) in server.sql("SELECT pubname FROM pg_publication"):
        server.sql(f'DROP PUBLICATION "{name}"')
    return Told(scenario, start, stop, sent, error)


def told_by(server: Server, scenarios: Sequence[Scenario]) -> tuple[list[Told], str]:
    """Each scenario of this major, and where the slot began."""
    start = str(server.value("SELECT lsn FROM pg_create_logical_replication_slot('s', 'pgoutput')"))
    return [tell(server, scenario) for scenario in scenarios if scenario.first <= server.major], start


def sent_by(
    pipeline: Pipeline, told: Told, compile_filter: Any, definitions: Definitions = (), timeline: EntryTimeline | None = None,
    stored: StoredFilters | None = None,
) -> list[Sent]:  # fmt: skip
    """What tailrace publishes of the transactions of a scenario."""
    plan = pipeline.plan
    major = pipeline.catalogs.state.major
    commits = plan.transactions.commit_lsn
    wanted = (commits >= told.start) & (commits < told.stop)
    read = pipeline.source.segments.read
    decoded = [each for stretch in plan.restricted_to(wanted) for each in decode_by_descriptor(stretch, read)]
    truncations = [each for each in plan.truncations if wanted[each.ordinal]]
    # Of the relations of this scenario only: all of a server's scenarios would be asked for each time.
    relations = {relation.oid for batch in decoded for relation in batch.relations}
    relations |= {relation.oid for truncation in truncations for relation in truncation.relations}
    committed = Committed(plan.transactions.first_lsn, commits, wanted)
    timeline = timeline or entry_timeline(pipeline.history, relations, told.scenario.names, committed, told.start, definitions)
    publisher = pickle.loads(pickle.dumps(Publisher(timeline, major, compile_filter, stored or {})))
    found: dict[int, list[tuple[tuple[int, int], Change]]] = {}
    for each in decoded:
        for shown in publisher.publish(each):
            for batch in shown.by_relation():
                for row, change in enumerate(changes_of(batch, major)):
                    place = int(batch.lsn[row]), int(batch.sequence[row])
                    found.setdefault(int(batch.ordinal[row]), []).append((place, change))
    for truncation in truncations:
        if named := publisher.truncated(truncation):
            change = Change("truncate", tuple(relation.oid for relation in named))
            found.setdefault(truncation.ordinal, []).append(((int(truncation.lsn), 0), change))
    return [
        Sent(int(commits[ordinal]), int(plan.transactions.xid[ordinal]), [change for _, change in sorted(found[ordinal], key=lambda pair: pair[0])])
        for ordinal in sorted(found)
    ]  # fmt: skip


def changes_of(batch: Batch, major: int) -> Iterator[Change]:
    """Published changes as pgoutput writes them. What kind the old tuple is, the table says that they are published as."""
    new = _texts(batch, batch.new, major)
    old = _texts(batch, batch.old, major) if batch.old is not None else [()] * len(batch)
    letter = "O" if batch.published_relation.replica_identity == "f" else "K"
    for row, kind in enumerate(batch.kind.tolist()):
        has_old = bool(batch.has_old[row])
        yield Change(
            _KINDS[kind], (batch.published_relation.oid,), new[row] if kind != DELETE else (), letter if has_old else "", old[row] if has_old else ()
        )  # fmt: skip


def _texts(batch: Batch, side: Any, major: int) -> list[Values]:
    style = registry.TextStyle(major=major)
    columns: list[list[str | None]] = []
    for column, values in zip(batch.columns, side, strict=True):
        texts = registry.format_values(values, column.type, style).to_list()
        unchanged = values.unchanged if values.unchanged is not None else np.zeros(len(batch), np.bool_)
        rows = zip(texts, values.valid.tolist(), unchanged.tolist(), strict=True)
        columns.append([UNCHANGED if absent else text if there else None for text, there, absent in rows])
    return [tuple(row) for row in zip(*columns, strict=True)] if columns else [()] * len(batch)


def error_of(pipeline: Pipeline, told: Told, compile_filter: Any) -> tuple[str, str] | None:
    """SQLSTATE and message of what publishing the scenario raises."""
    try:
        sent_by(pipeline, told, compile_filter)
    except TailraceError as error:
        return error.sqlstate, error.message
    return None


def pipeline_of(server: Server, start: str) -> Pipeline:
    """The log that the server left; it is stopped."""
    server.stop()
    return opened(server.data_dir, DBNAME, start_lsn=start, stretch_bytes=1 << 20)
