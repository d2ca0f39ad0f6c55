"""Decoded rows against what pgoutput sends, on servers that need nothing fetched: transactions, order, kinds, keys and every value."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from support import schedule
from support.cases import DBNAME
from support.decoding import opened
from support.pgoutput import UNCHANGED, Change, Sent, Values, read_sent
from support.servers import Server
from tailrace.decode import DELETE, INSERT, OLD_KEY, UPDATE, Batch, decode
from tailrace.model import FIRST_NORMAL_OID, Lsn, Relation
from tailrace.pipeline import Pipeline
from tailrace.types import registry

TRANSACTIONS = 250
MESSAGES = "SELECT data FROM pg_logical_slot_peek_binary_changes('s', NULL, NULL, 'proto_version', '1', 'publication_names', 'everything')"
_KINDS = {INSERT: "insert", UPDATE: "update", DELETE: "delete"}
_Key = tuple[int, int, int]


@pytest.mark.parametrize("major", [16, 18])
def test_rows_are_what_pgoutput_sends(major: int, tmp_path: Path) -> None:
    seed = 116
    with Server(major, dbname=DBNAME, test_decoding=False) as server:
        server.say("CREATE PUBLICATION everything FOR ALL TABLES", "CHECKPOINT")
        start = str(server.value("SELECT lsn FROM pg_create_logical_replication_slot('s', 'pgoutput')"))
        schedule.run_schedule(server, schedule.make_schedule(seed, TRANSACTIONS, published=True))
        theirs = [each for each in read_sent(bytes(row[0]) for row in server.sql(MESSAGES)) if each.changes]
        server.stop()
        pipeline = opened(server.data_dir, start_lsn=start, stretch_bytes=1 << 20)
        ours = _sent(pipeline, major)
    assert [(each.commit_lsn, each.xid) for each in ours] == [(each.commit_lsn, each.xid) for each in theirs], f"seed {seed}"
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.changes == other.changes, f"seed {seed}, xid {mine.xid}, commit {Lsn(mine.commit_lsn)}"
    said = {change.kind for each in theirs for change in each.changes}
    assert said == {"insert", "update", "delete", "truncate"}
    assert len(theirs) > TRANSACTIONS // 3
    assert UNCHANGED in chain.from_iterable(change.new for each in theirs for change in each.changes)


def _sent(pipeline: Pipeline, major: int) -> list[Sent]:
    plan = pipeline.plan
    found: dict[int, list[tuple[_Key, Change]]] = {}
    for stretch in plan.stretches:
        for batch in decode(stretch, pipeline.source.segments.read):
            if _published(batch.relation):
                for row, change in enumerate(_changes(batch, major)):
                    ordinal = int(batch.ordinal[row])
                    found.setdefault(ordinal, []).append(((ordinal, int(batch.lsn[row]), int(batch.sequence[row])), change))
    for truncation in plan.truncations:
        oids = tuple(relation.oid for relation in truncation.relations if _published(relation))
        if oids:
            found.setdefault(truncation.ordinal, []).append(
                ((truncation.ordinal, int(truncation.lsn), 0), Change("truncate", oids))
            )
    sent = []
    for ordinal in sorted(found):
        in_order = sorted(found[ordinal], key=lambda pair: pair[0])
        told = plan.transactions[ordinal]
        sent.append(Sent(int(told.commit_lsn), told.xid, [change for _, change in in_order]))
    return sent


def _published(relation: Relation) -> bool:
    """As FOR ALL TABLES has it: tables of users, no materialized views."""
    return relation.kind == "r" and relation.oid >= FIRST_NORMAL_OID


def _changes(batch: Batch, major: int) -> Iterator[Change]:
    new = _texts(batch, batch.new, major)
    old = _texts(batch, batch.old, major) if batch.old is not None else [()] * len(batch)
    identity = [column.number in batch.relation.identity for column in batch.columns]
    for row, kind in enumerate(batch.kind.tolist()):
        old_kind = batch.old_kind[row]
        before: Values = ()
        if batch.has_old[row]:
            keep = identity if old_kind == OLD_KEY else [True] * len(identity)
            before = tuple(value if mine else None for value, mine in zip(old[row], keep, strict=True))
        letter = ("K" if old_kind == OLD_KEY else "O") if batch.has_old[row] else ""
        yield Change(_KINDS[kind], (batch.relation.oid,), new[row] if kind != DELETE else (), letter, before)


def _texts(batch: Batch, side, major: int) -> list[Values]:
    style = registry.TextStyle(major=major)
    columns: list[list[str | None]] = []
    for column, values in zip(batch.columns, side, strict=True):
        texts = registry.format_values(values, column.type, style).to_list()
        unchanged = values.unchanged if values.unchanged is not None else [False] * len(batch)
        rows = zip(texts, values.valid.tolist(), unchanged, strict=True)
        columns.append([UNCHANGED if absent else text if there else None for text, there, absent in rows])
    return [tuple(row) for row in zip(*columns, strict=True)] if columns else [()] * len(batch)
