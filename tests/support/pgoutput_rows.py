"""pgoutput's rows of a slot, the server's and ours: LSN, xid and message of each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest

from support.cases import DBNAME
from support.decoding import opened
from support.servers import Server
from tailrace.errors import TailraceError
from tailrace.logicalproto.formats import read_message
from tailrace.model import Lsn
from tailrace.pipeline import Pipeline
from tailrace.plugins.pgoutput import PgOutput

Row = tuple[str, int, bytes]
PUBLICATION = "everything"
PLAIN = {"proto_version": "1", "publication_names": PUBLICATION}
IDENTITY_FOR_ALL = """
CREATE FUNCTION public.give_identity() RETURNS event_trigger LANGUAGE plpgsql AS $$
DECLARE it record;
BEGIN
  FOR it IN SELECT c.oid FROM pg_event_trigger_ddl_commands() d JOIN pg_class c ON c.oid = d.objid
      WHERE d.classid = 'pg_class'::regclass AND c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND c.relreplident = 'd'
        AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary) LOOP
    EXECUTE 'ALTER TABLE ' || it.oid::regclass || ' REPLICA IDENTITY FULL';
  END LOOP;
END $$;
CREATE EVENT TRIGGER give_identity ON ddl_command_end WHEN TAG IN ('CREATE TABLE', 'CREATE TABLE AS', 'SELECT INTO')
  EXECUTE FUNCTION public.give_identity();
"""
"""A table without a key gets an identity, so that its UPDATEs may be published."""


def theirs(server: Server, slot: str, options: Mapping[str, str], upto_rows: int | None = None) -> list[Row]:
    """What a fresh session is given of it, up to the end of the transaction with so many; the slot stays."""
    words = [word for option in options.items() for word in option]
    with server.connect() as connection:
        rows: Any = connection.execute(
            "SELECT lsn::text, xid::text::bigint, data FROM pg_logical_slot_peek_binary_changes(%s, NULL, %s, VARIADIC %s::text[])",
            [slot, upto_rows, words],
        ).fetchall()
    return [(lsn, xid, bytes(data)) for lsn, xid, data in rows]


def their_error(server: Server, slot: str, options: Mapping[str, str]) -> tuple[str, str, str]:
    """SQLSTATE, message and context."""
    with pytest.raises(psycopg.Error) as raised:
        theirs(server, slot, options)
    said = raised.value.diag
    return str(said.sqlstate), str(said.message_primary), str(said.context)


def ours(
    pipeline_or_dir: Pipeline | Path, options: Mapping[str, str], *, start_lsn: str = "", two_phase: bool = False, **more: Any
) -> list[Row]:
    """The same of a stopped data directory."""
    plugin = PgOutput()
    plugin.context.two_phase = two_phase
    plugin.context.work_mem = more.pop("work_mem", plugin.context.work_mem)
    plugin.context.definitions = more.pop("definitions", ())
    if isinstance(pipeline_or_dir, Path):
        plugin.startup(options, more.pop("major"))
        pipeline = opened(pipeline_or_dir, DBNAME, start_lsn=start_lsn, demand=plugin.demand, **more)
    else:
        pipeline = pipeline_or_dir
        plugin.startup(options, pipeline.catalogs.state.major)
    return rows_of(pipeline, plugin)


def rows_of(pipeline: Pipeline, plugin: PgOutput) -> list[Row]:
    rows: list[Row] = []
    for lines in pipeline.lines(plugin):
        texts = lines.texts.to_bytes()
        rows += [(str(Lsn(lsn)), xid, text) for lsn, xid, text in zip(lines.lsn.tolist(), lines.xid.tolist(), texts, strict=True)]
    return rows


def check_same(found: list[Row], expected: list[Row], what: str) -> None:
    """To the last byte; else the rows around the first difference."""
    if found == expected:
        return
    at = next(
        (i for i, (mine, other) in enumerate(zip(found, expected, strict=False)) if mine != other), min(len(found), len(expected))
    )
    shown = [
        f"{who} {_shown(row)}" for who, rows in (("tailrace  ", found), ("PostgreSQL", expected)) for row in rows[max(0, at - 2) : at + 3]
    ]  # fmt: skip
    pytest.fail("\n".join([f"{what}: row {at} of {len(found)}, {len(expected)}", *shown]), pytrace=False)


def _shown(row: Row) -> str:
    lsn, xid, data = row
    try:
        said = str(read_message(data, in_stream=False))
    except TailraceError as error:
        said = f"{error.message}: {data.hex()}"
    return f"{lsn} {xid} {said[:300]}"
