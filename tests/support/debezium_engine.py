"""Debezium's embedded engine, from Maven Central, and the story that it is told: columns of all types, every replica identity.

In: a server on which the story was told, and a run, which is a set of options. Out: its events, as JSON. `comparable` makes of them, and of ours,
what must be equal; `OTHERWISE` are columns that we tell otherwise by intent (docs/guides/json.md).
"""

from __future__ import annotations

import json
import lzma
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from support.fetched_programs import SECONDS, made, needed, run
from support.servers import Server

Event = dict[str, Any]
SOURCES = Path(__file__).parents[1] / "debezium"
FILE = Path(__file__).parents[1] / "cases/debezium_events.jsonl.xz"
"""A run, its number and an event a line, made `comparable` without what differs from one server to another."""
PREFIX, PUBLICATION = "shop", "p"
_LAST = "the end"
RUNS: Mapping[str, Mapping[str, str]] = {
    "as_it_is": {},
    "doubles": {
        "decimal.handling.mode": "double", "time.precision.mode": "adaptive_time_microseconds", "binary.handling.mode": "base64",
        "skipped.operations": "none",
    },
    "strings": {
        "decimal.handling.mode": "string", "time.precision.mode": "connect", "binary.handling.mode": "hex", "unavailable.value.placeholder": "?",
    },
}  # fmt: skip
"""Each reads from a slot of that name."""

DEFINITIONS = (
    "CREATE TYPE mood AS ENUM ('sad', 'so so', 'it''s')",
    "CREATE DOMAIN price AS numeric(8,3)",
    "CREATE TABLE strict (id int PRIMARY KEY, b bool NOT NULL, s int2 NOT NULL, i int NOT NULL, l int8 NOT NULL, f float4 NOT NULL, "
    "d float8 NOT NULL, n numeric(5,2) NOT NULL, v numeric NOT NULL, t text NOT NULL, c char(4) NOT NULL, y bytea NOT NULL, da date NOT NULL, "
    "ti time NOT NULL, ti3 time(3) NOT NULL, ts timestamp NOT NULL, ts3 timestamp(3) NOT NULL, tz timestamptz NOT NULL, tt timetz NOT NULL, "
    "iv interval NOT NULL, u uuid NOT NULL, j json NOT NULL, m mood NOT NULL, bt bit NOT NULL, bs bit(5) NOT NULL, vb varbit NOT NULL, "
    "mo money NOT NULL, o oid NOT NULL, p price NOT NULL, ip inet NOT NULL, r int4range NOT NULL)",
    "CREATE TABLE every (id int PRIMARY KEY, b bool, s int2, i int, l int8, f float4, d float8, n numeric(5,2), v numeric, t text, c char(4), "
    "y bytea, da date, ti time, ti3 time(3), ts timestamp, ts3 timestamp(3), tz timestamptz, tz0 timestamptz(0), tz3 timestamptz(3), tt timetz, "
    "tt2 timetz(2), iv interval, u uuid, j json, jb jsonb, m mood, bt bit, bs bit(5), b20 bit(20), vb varbit, mo money, o oid, p price, ip inet, "
    'ci cidr, ma macaddr, m8 macaddr8, r int4range, ch "char", nm name, pt point, tv tsvector, ln pg_lsn, ai int[], an numeric[])',
    "CREATE TABLE whole (id int PRIMARY KEY, n int, v text, y bytea)",
    "ALTER TABLE whole REPLICA IDENTITY FULL, ALTER v SET STORAGE EXTERNAL, ALTER y SET STORAGE EXTERNAL",
    "CREATE TABLE toasted (id int PRIMARY KEY, n int, v text, j jsonb)",
    "ALTER TABLE toasted ALTER v SET STORAGE EXTERNAL, ALTER j SET STORAGE EXTERNAL",
    "CREATE TABLE by_index (a int NOT NULL, b int NOT NULL, c text NOT NULL, d date)",
    "CREATE UNIQUE INDEX by_index_b ON by_index (b)",
    "ALTER TABLE by_index REPLICA IDENTITY USING INDEX by_index_b",
    'CREATE TABLE "Odd ""name" ("a b" int PRIMARY KEY, "1st" int, "V-w" text)',
    f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES",
)
_STRICT = (
    "1, true, 2, 3, 4, 1.5, -0.25, 1.25, 12.50, 'text', 'c', '\\x00ff', '2024-02-29', '12:34:56.789', '12:34:56.789', '2024-02-29 12:34:56.789123', "
    "'2024-02-29 12:34:56.789', '2024-02-29 12:34:56.789+02', '12:34:56+02', '1 day', '00000000-0000-0000-0000-000000000001', '{}', 'it''s', B'1', "
    "B'10100', B'101', '$12.50', 5, 1.5, '::1', '[1,3)'"
)
_VALUES: Sequence[tuple[str, str]] = (
    ("b, s, i, l, f, d, n, v, t, c, y", "false, -3, 4, 5, 1, 2, 3, 4.0, E'a\"\\\\\\nü', 'x', '\\x'"),
    ("f, d", "'-0', '-0'"),
    ("f, d, v", "'NaN', 'NaN', 'NaN'"),
    ("f, d, v", "'Infinity', '-Infinity', 'Infinity'"),
    ("v", "'-Infinity'"),
    ("f, d, v", "1e20, 1e20, 1e20"),
    ("f, d, v, n", "1.1, 1e-10, 0.00, -0.5"),
    ("f, d, v", "16777216, 123456789, 1200.00"),
    ("f, d, v", "3.4028235e38, 1.7976931348623157e308, 10.010"),
    (
        "da, ti, ti3, ts, ts3, tz, tz0, tt",
        "'infinity', '24:00', '24:00', 'infinity', 'infinity', 'infinity', 'infinity', '24:00+00'",
    ),
    ("da, ti, ti3, ts, ts3, tz, tt", "'-infinity', '00:00', '00:00', '-infinity', '-infinity', '-infinity', '00:00:00.1+15'"),
    ("da, ti, ti3, tt, tt2", "'0001-01-01 BC', '01:02:03.4567', '01:02:03.4567', '23:59:59.999999-08', '12:00:00.1+00'"),
    ("ts, ts3, tz, tz0", "'0001-01-01 01:00:00.5 BC', '0044-03-15 BC', '0044-03-15 12:00+00 BC', '0044-03-15 12:00+00 BC'"),
    ("da, ts, ts3, tz", "'1582-10-10', '1582-10-10 01:02:03.000004', '1582-10-10 01:02:03.004', '1582-10-10 01:02:03.000004+00'"),
    ("da, ts, tz, tz3", "'1969-12-31', '1969-12-31 23:59:59.9999', '2024-01-01 00:00:00.120+00', '2024-01-01 00:00:00.12+00'"),
    ("da, ts, ts3, tz", "'5874897-12-31', '10000-01-01', '294276-12-31 23:59:59.999', '10000-01-01 00:00:00.1+00'"),
    ("iv", "'1 year 2 mons 3 days 04:05:06.789'"),
    ("iv", "'-1 mons +2 days -03:04:05.000006'"),
    ("iv", "'178000000 years'"),
    ("u, j, jb, m, p", "'ffffffff-ffff-ffff-ffff-ffffffffffff', ' {\"a\" : [1, 2.0]}', '{\"b\":1,\"a\":null}', 'so so', 1.5"),
    ("bt, bs, b20, vb", "B'1', B'10011', B'00000000000000000001', B'1000000001'"),
    ("bt, bs, b20, vb", "B'0', B'00000', B'00000000000000000000', B'0000000001'"),
    ("b20, vb", "B'00000000010000000000', B''"),
    ("mo, o, ch", "'-$0.07', 4294967295, 'c'"),
    ("mo", "'$92,233,720,368,547,758.07'"),
    ("ip, ci, ma, m8, r", "'192.168.0.1/24', '10.0.0.0/8', '08:00:2b:01:02:03', '08:00:2b:01:02:03:04:05', '[1,3)'"),
    ("nm, pt, tv, ln, ai, an", "'name', '(1.5,2)', 'a:1 b', '16/B374D848', '{1,NULL,3}', '{1.5,2}'"),
)
WORK = (
    f"INSERT INTO strict VALUES ({_STRICT})",
    "UPDATE strict SET i = 4",
    "UPDATE strict SET id = 2",
    "DELETE FROM strict",
    *(f"INSERT INTO every (id, {names}) VALUES ({number}, {values})" for number, (names, values) in enumerate(_VALUES)),
    "UPDATE every SET i = 1 WHERE id = 1",
    "UPDATE every SET id = 100 WHERE id = 1",
    "DELETE FROM every WHERE id = 100",
    "INSERT INTO whole SELECT g, g, repeat('x', 3000) || g, decode(repeat('00ff', 2000), 'hex') FROM generate_series(1, 2) g",
    "UPDATE whole SET n = 5",
    "UPDATE whole SET id = id + 10",
    "DELETE FROM whole WHERE id = 11",
    "INSERT INTO toasted SELECT 1, 1, repeat('x', 3000), jsonb_agg(k) FROM generate_series(1, 1000) k",
    "UPDATE toasted SET n = 2",
    "UPDATE toasted SET id = 2",
    "DELETE FROM toasted",
    "INSERT INTO by_index VALUES (1, 1, 'one')",
    "UPDATE by_index SET c = 'two'",
    "UPDATE by_index SET b = 2",
    "DELETE FROM by_index",
    'INSERT INTO "Odd ""name" VALUES (1, 2, \'ü\')',
    'UPDATE "Odd ""name" SET "1st" = 3',
    'DELETE FROM "Odd ""name"',
    "BEGIN; INSERT INTO by_index VALUES (5, 5, 'five'); SELECT pg_logical_emit_message(true, 'pre', 'within'); "
    "INSERT INTO by_index VALUES (6, 6, 'six'); COMMIT",
    "SELECT pg_logical_emit_message(false, 'pre\"x', '\\x00ff'::bytea)",
    "TRUNCATE by_index, whole",
    f"SELECT pg_logical_emit_message(true, '{_LAST}', '')",
)
OTHERWISE = frozenset({"nm", "pt", "tv", "ln", "ai", "an"})
"""Of these the engine tells a null, a struct, nothing, nothing, and arrays."""
_OF_A_RUN = ("version", "sequence")
_OF_A_SERVER = ("ts_ms", "ts_us", "ts_ns", "txId", "lsn")


def events_of(server: Server, name: str) -> list[Event]:
    """What the engine makes of all that the slot of a run has to say. Raises MissingProgram."""
    home = _engine()
    properties = {
        "name": "engine", "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore", "offset.flush.interval.ms": "60000",
        "database.hostname": "127.0.0.1", "database.port": str(server.port), "database.user": "postgres", "database.password": "none",
        "database.dbname": server.dbname, "topic.prefix": PREFIX, "plugin.name": "pgoutput", "slot.name": name, "publication.name": PUBLICATION,
        "publication.autocreate.mode": "disabled", "snapshot.mode": "no_data", "tombstones.on.delete": "false", "poll.interval.ms": "50",
        **RUNS[name],
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch, "properties")
        file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        words = [
            needed("java", "Debezium's engine"), "-Dfile.encoding=UTF-8", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-cp", f"{home}/classes{os.pathsep}{home}/lib/*", "Engine", str(file), _LAST, str(SECONDS // 4),
        ]  # fmt: skip
        ran = subprocess.run(words, capture_output=True, text=True, encoding="utf-8", timeout=SECONDS, check=False)
    assert ran.returncode == 0, f"{ran.returncode}: {ran.stderr[-3000:]}"
    return [json.loads(line.split("\t")[2]) for line in ran.stdout.splitlines()]


@cache
def _engine() -> Path:
    mvn, javac = needed("mvn", "Debezium's engine"), needed("javac", "Debezium's engine")

    def make(home: Path) -> None:
        run(
            home, mvn, "--settings", "settings.xml", "--quiet", "--batch-mode", "dependency:copy-dependencies", "-DoutputDirectory=lib",
            "-DincludeScope=runtime",
        )  # fmt: skip
        run(home, javac, "-cp", "lib/*", "-d", "classes", "Engine.java")

    return made(SOURCES, make)


def comparable(events: Sequence[Event], *, of_one_server: bool) -> list[Event]:
    """Without what depends on the run, or, unless all are `of_one_server`, on the server; the engine's `d` and `c` of a key that changed as the `u`
    that they are, and without columns that are told otherwise."""
    found = []
    earlier: Event | None = None
    for event in events:
        schema, payload = event["schema"], dict(event["payload"])
        source = {name: value for name, value in payload["source"].items() if name not in _OF_A_RUN}
        outside = not source["table"] and source["txId"] is None
        if not of_one_server or outside:  # the log has no time for a message outside of transactions
            source = {name: value for name, value in source.items() if name not in _OF_A_SERVER}
        payload = {name: value for name, value in payload.items() if name not in _OF_A_SERVER} | {"source": source}
        for side in ("before", "after"):
            if payload.get(side) is not None:
                payload[side] = {name: value for name, value in payload[side].items() if name not in OTHERWISE}
        each = {"schema": _without_otherwise(schema), "payload": payload}
        if payload["op"] == "d" and earlier is None and _is_a_new_key(event, events):
            earlier = each
            continue
        if earlier is not None:
            assert payload["op"] == "c"
            payload |= {"op": "u", "before": earlier["payload"]["before"]}
            earlier = None
        found.append(each)
    return found


def _is_a_new_key(event: Event, events: Sequence[Event]) -> bool:
    """Whether the next event is the other half of it: its source is the same."""
    at = next(i for i, each in enumerate(events) if each is event)
    return at + 1 < len(events) and events[at + 1]["payload"]["source"]["lsn"] == event["payload"]["source"]["lsn"]


def _without_otherwise(schema: Event) -> Event:
    fields = [
        {**field, "fields": [each for each in field["fields"] if each["field"] not in OTHERWISE]}
        if field["field"] in ("before", "after")
        else field
        for field in schema["fields"]
    ]
    return {**schema, "fields": fields}


def write_events(told: Mapping[str, Sequence[Event]]) -> None:
    """A schema is written where it first comes in a run; then its place among those."""
    lines = []
    for name, events in told.items():
        schemas: list[Event] = []
        for event in comparable(events, of_one_server=False):
            if event["schema"] not in schemas:
                schemas.append(event["schema"])
                lines.append([name, "schema", event["schema"]])
            lines.append([name, schemas.index(event["schema"]), event["payload"]])
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    FILE.write_bytes(lzma.compress(text.encode(), preset=9))


def recorded_events(name: str) -> Iterator[Event]:
    """Of a run, as `comparable` leaves them."""
    schemas: list[Event] = []
    for run_name, what, told in map(json.loads, lzma.decompress(FILE.read_bytes()).decode().splitlines()):
        if run_name == name and what == "schema":
            schemas.append(told)
        elif run_name == name:
            yield {"schema": schemas[what], "payload": told}
