"""Messages that a live server's pgoutput sends: read alone and at once, written again from stored values, and shown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.command import Run, run_in
from support.message_sessions import check
from support.servers import Server
from tailrace.logicalproto import message as m
from tailrace.logicalproto.change_columns import change_batches, tuple_side
from tailrace.logicalproto.change_reader import ChangeReader, Scanned
from tailrace.logicalproto.change_writer import NO_XID, ChangeHeads, write_changes
from tailrace.logicalproto.message_flow import MessageReader, MessageWriter
from tailrace.logicalproto.tuple_columns import tuple_columns
from tailrace.model import Column
from tailrace.types.built_in import built_in_type
from tailrace.types.registry import parse_texts
from tailrace.types.values import Texts

pytestmark = [pytest.mark.matrix, pytest.mark.postgres]

TYPES = (
    "int2", "int4", "int8", "bool", "numeric", "numeric(12,3)", "float4", "float8", "text", "varchar(20)", "char(5)", "name", "bytea", "date",
    "time", "timetz", "timestamp", "timestamptz", "interval", "uuid", "json", "jsonb", "inet", "cidr", "macaddr", "bit(5)", "varbit", "money",
    "point", "box", "int4[]", "text[]", "numeric[]", "int4range", "tsrange", "nummultirange", "tsvector", "tsquery", "pg_lsn", "xid", "oid",
)  # fmt: skip
VALUES = (
    "'-7', '2147483647', '-9223372036854775808', 't', '12345678901234567890.0010', '-0.001', '1.5', '-1e300', 'ä''\\', 'b', 'c', 'd', '\\x00ff',"
    "'2024-02-29', '23:59:59.5', '01:02:03+05:30', '1999-12-31 23:59:59.999999', '2020-01-01 00:00:00+02', '1 year -2 days 03:04:05',"
    "'123e4567-e89b-12d3-a456-426614174000', '{\"a\": [1]}', '{\"b\": 2.50}', '10.0.0.1/8', '10.0.0.0/8', '08:00:2b:01:02:03', '10101', '110',"
    "'12.34', '(1,2)', '(1,2),(0,0)', '{1,NULL,3}', '{\"a b\",c}', '{1.50,NaN}', '[1,5)', '[2020-01-01,2020-02-01)', '{[1,2.5)}', 'a:1 b', 'a & b',"
    "'16/B374D848', '7', '8'"
)
STORY = f"""
CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE DOMAIN small AS int2;
CREATE TABLE t (id serial PRIMARY KEY, {", ".join(f'"c{i}" {name}' for i, name in enumerate(TYPES))});
CREATE TABLE u (id int, m mood, s small, big text); ALTER TABLE u REPLICA IDENTITY FULL; ALTER TABLE u ALTER big SET STORAGE EXTERNAL;
CREATE TABLE names (c regclass, r regrole, a aclitem, l regtype[], m money[], p jsonpath, n int[]);
CREATE PUBLICATION p FOR ALL TABLES;
SELECT pg_create_logical_replication_slot('text', 'pgoutput'), pg_create_logical_replication_slot('binary', 'pgoutput'),
       pg_create_logical_replication_slot('shown', 'pgoutput');
INSERT INTO t VALUES (1, {VALUES});
INSERT INTO t SELECT g FROM generate_series(2, 4) g;
INSERT INTO t (id, c2, c4, c13, c16, c17) VALUES (5, 0, 'NaN', 'infinity', '-infinity', 'infinity'),
  (6, 1, 0, '0044-03-15 BC', '10000-01-01', '0001-01-01 BC');
UPDATE t SET c8 = 'else' WHERE id = 1;
UPDATE t SET id = 7 WHERE id = 2;
DELETE FROM t WHERE id = 3;
INSERT INTO u VALUES (1, 'sad', 5, repeat('x', 5000));
UPDATE u SET m = 'ok';
DELETE FROM u;
INSERT INTO names VALUES ('t', current_user::regrole, makeaclitem(current_user::regrole, current_user::regrole, 'SELECT', false),
  '{{integer,text}}', '{{1.50}}', '$."a"', '{{1,2}}');
TRUNCATE t, u RESTART IDENTITY CASCADE;
SELECT pg_logical_emit_message(true, 'prefix', 'content'), pg_logical_emit_message(false, 'prefix', 'outside');
"""
OPTIONS = "'proto_version', '1', 'publication_names', 'p', 'messages', 'true'"


def _rows(server: Server, slot: str, *, binary: bool = False) -> list[tuple[str, str, bytes]]:
    found: list[Any] = server.sql(
        f"SELECT lsn::text, xid::text, data FROM pg_logical_slot_peek_binary_changes('{slot}', NULL, NULL, {OPTIONS}"
        f"{', $$binary$$, $$true$$' if binary else ''})"
    )
    return [(lsn, xid, bytes(data)) for lsn, xid, data in found]


@pytest.mark.parametrize("major", [14, 15, 16, 17, 18])
def test_a_live_session(major: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    with Server(major) as server:
        for statement in STORY.strip().split(";\n"):
            server.sql(statement)
        text, binary = _rows(server, "text"), _rows(server, "binary", binary=True)
        in_text, in_binary = ([payload for *_, payload in rows] for rows in (text, binary))
    for payloads in (in_text, in_binary):
        reader, writer = MessageReader(1, "off"), MessageWriter(1, "off")
        assert [writer.write(reader.read(payload)) for payload in payloads] == payloads
        assert check(payloads, 1, "off") == ""
    scanned = [_scanned(payloads) for payloads in (in_text, in_binary)]
    of_text, of_binary = ([(relation.name, batch) for relation, batch in change_batches(each)] for each in scanned)
    assert [name for name, _ in of_text] == ["t", "u", "names"]
    row = of_text[2][1].column("new")[0].as_py()
    assert {**row, "r": "", "a": ""} == {
        "c": "t",
        "r": "",
        "a": "",
        "l": "{integer,text}",
        "m": "{$1.50}",
        "p": '$."a"',
        "n": [1, 2],
    }
    assert row["a"] == f"{row['r']}=r/{row['r']}"
    assert of_text[0][1].drop_columns(["number"]).equals(of_binary[0][1].drop_columns(["number"]))
    assert of_text[0][1].num_rows == 9
    _check_written_again(*scanned, in_text, in_binary)
    _check_shown(text, tmp_path, run_in(monkeypatch, capfd))


def _scanned(payloads: list[bytes]) -> Scanned:
    texts = Texts.of(payloads)
    return ChangeReader(1, "off").read(texts.data, texts.offsets)


def _check_written_again(text: Scanned, binary: Scanned, in_text: list[bytes], in_binary: list[bytes]) -> None:
    """Values that were read from the server's text are written as the server wrote them, as text and in binary form."""
    number = next(i for i, each in enumerate(text.relations) if each.name == "t")
    relation = text.relations[number]
    mine = np.flatnonzero(text.rows.relation == number)
    columns = tuple(_column(i, each) for i, each in enumerate(relation.columns, 1))
    sides = []
    for at in (text.rows.new_at[mine], text.rows.old_at[mine]):
        side = tuple_side(text.data, at, len(columns))
        stored = []
        for i, column in enumerate(columns):
            bounds = side.bounds[i]
            texts = Texts(bounds - bounds[0], side.data[bounds[0] : bounds[-1]])
            assert column.type is not None
            stored.append(parse_texts(texts, side.kind[i] == ord("t"), column.type))
        sides.append(stored)
    in_key = np.array([each.flags == 1 for each in relation.columns])
    oids = np.full(len(mine), relation.relation_oid, np.uint32)
    changes = ChangeHeads(text.rows.kind[mine], oids, text.rows.old_kind[mine], NO_XID)
    for scanned, payloads, as_binary in ((text, in_text, False), (binary, in_binary, True)):
        new, old = (tuple_columns(stored, columns, binary=as_binary) for stored in sides)
        written = write_changes(changes, new, old, in_key).to_bytes()
        theirs = [payloads[row] for row in np.flatnonzero(scanned.rows.relation == number).tolist()]
        assert written == theirs


def _column(number: int, column: m.RelationColumn) -> Column:
    pg_type = built_in_type(column.type_oid)
    assert pg_type is not None
    return Column(number, column.name, pg_type, column.type_modifier, pg_type.length, pg_type.align)


def _check_shown(rows: list[tuple[str, str, bytes]], home: Path, tailrace: Run) -> None:
    """As `psql -At` prints them."""
    path = home / "rows"
    path.write_text("".join(f"{lsn}|{xid}|\\x{payload.hex()}\n" for lsn, xid, payload in rows))
    status, out, err = tailrace("messages", path)
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert [line.split("\t")[:2] for line in lines] == [[lsn, xid] for lsn, xid, _ in rows]
    shown = [line.split("\t")[2] for line in lines]
    assert any(re.match(r"INSERT table public\.t: id\[integer\]:1 c0\[smallint\]:-7 ", line) for line in shown)
    assert "UPDATE table public.t: old-key: id[integer]:2 new-tuple: id[integer]:7" in "\n".join(shown)
    assert any(line.startswith("TRUNCATE table public.t, table public.u: restart_seqs cascade") for line in shown)
    assert any(
        line.startswith("UPDATE table public.u: old-tuple: id[integer]:1 m[public.mood]:'sad' s[int2]:'5'") for line in shown
    )
