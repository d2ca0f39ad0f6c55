"""Ask a real PostgreSQL how it stores and how it prints; the answers are replayed without it.

    python tests/types/record_vectors.py "host=/tmp/sock user=postgres" DATA_DIRECTORY [TARGET]

For every literal of `LITERALS` (and a few hundred random ones) the server stores the value in a table of one column;
after a CHECKPOINT the heap file gives the stored bytes (`storage/bufpage.h`, `access/htup_details.h`), a SELECT the text.
Writes tests/types/vectors.json.gz: {"types": {name: PgType as a dict}, "vectors": {name: [[text, hex], ...]},
"zones": {zone: {name: [[text, hex], ...]}}}.
"""

from __future__ import annotations

import gzip
import json
import random
import struct
import sys
from pathlib import Path
from typing import Any

import psycopg
from literals import LITERALS, PREPARE, ZONES, random_literals  # type: ignore[import-not-found]

PAGE = 8192
HERE = Path(__file__).parent


def main(dsn: str, data: Path, target: Path) -> None:
    with psycopg.connect(dsn, autocommit=True) as server:
        server.execute("SET client_min_messages = error; DROP SCHEMA IF EXISTS vectors CASCADE; CREATE SCHEMA vectors")
        server.execute("SET search_path = vectors, pg_catalog; SET TimeZone = 'UTC'")
        server.execute(PREPARE)
        chance = random.Random(20260101)
        literals = {name: list(texts) + random_literals(name, chance) for name, texts in LITERALS.items()}
        tables = {name: store(server, number, name, texts) for number, (name, texts) in enumerate(literals.items())}
        server.execute("CHECKPOINT")
        types, vectors = {}, {}
        for name, table in tables.items():
            types[name] = describe(server, f"{name}")
            vectors[name] = read_back(server, data, table, types[name]["length"])
        zones = {}
        for zone in ZONES:
            server.execute(f"SET TimeZone = '{zone}'")
            zones[zone] = {name: read_back(server, data, tables[name], types[name]["length"]) for name in ("timestamptz",)}
    text = json.dumps({"types": types, "vectors": vectors, "zones": zones}, ensure_ascii=False, separators=(",", ":"))
    target.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print({name: len(rows) for name, rows in vectors.items()})


def store(server: psycopg.Connection[Any], number: int, name: str, texts: list[str]) -> str:
    """Insert every literal; one that the server refuses is a mistake in our list."""
    table = f"v{number}"
    server.execute(f"CREATE TABLE {table} (v {name}) WITH (autovacuum_enabled = false)")
    if server.execute("SELECT typstorage <> 'p' FROM pg_attribute a JOIN pg_type t ON t.oid = atttypid "
                      "WHERE attrelid = %s::regclass AND attnum = 1", [table]).fetchone() == (True,):  # fmt: skip
        server.execute(f"ALTER TABLE {table} ALTER v SET STORAGE PLAIN")
    for text in texts:
        try:
            server.execute(f"INSERT INTO {table} VALUES ({literal(text)}::{name})")
        except psycopg.Error as error:
            print(f"{name} refuses {text!r}: {error}", file=sys.stderr)
    return table


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def read_back(server: psycopg.Connection[Any], data: Path, table: str, length: int) -> list[list[str]]:
    """[text, stored bytes in hex] of each row in the order of its place in the file."""
    path = server.execute("SELECT pg_relation_filepath(%s::regclass)", [table]).fetchone()[0]  # type: ignore[index]
    raw = (data / path).read_bytes()
    found = []
    for page, item, text in server.execute(
        f"SELECT (ctid::text::point)[0]::int, (ctid::text::point)[1]::int, format('%s', v) FROM {table} ORDER BY {table}.ctid"
    ):
        found.append([text, stored(raw[page * PAGE : (page + 1) * PAGE], item, length).hex()])
    return found


def stored(page: bytes, item: int, length: int) -> bytes:
    """The first column of line pointer `item`, without its length word."""
    (pointer,) = struct.unpack_from("<I", page, 24 + 4 * (item - 1))
    at, size = pointer & 0x7FFF, pointer >> 17
    body = page[at + page[at + 22] : at + size]
    if length > 0:
        return body[:length]
    if body[0] & 1:
        return body[1 : body[0] >> 1]
    (word,) = struct.unpack_from("<I", body)
    assert word & 3 == 0, "compressed"
    return body[4 : word >> 2]


def describe(server: psycopg.Connection[Any], name: str) -> dict[str, Any]:
    row = server.execute("SELECT format_type(a.atttypid, NULL), a.atttypid, a.atttypmod FROM pg_attribute a "
                         "WHERE attrelid = 'v0'::regclass AND false").fetchone()  # fmt: skip
    assert row is None
    oid = server.execute(f"SELECT pg_typeof(NULL::{name})::oid").fetchone()[0]  # type: ignore[index]
    return describe_oid(server, oid)


def describe_oid(server: psycopg.Connection[Any], oid: int) -> dict[str, Any]:
    """PgType's fields as a dict; what it refers to is resolved."""
    one = server.execute(
        "SELECT t.oid::int8, nspname, typname, format_type(t.oid, NULL), "
        "CASE WHEN typsubscript = 'array_subscript_handler'::regproc THEN 'a' ELSE typtype END, typlen, "
        "CASE typalign WHEN 'c' THEN 1 WHEN 's' THEN 2 WHEN 'i' THEN 4 ELSE 8 END, typdelim, "
        "CASE WHEN typbasetype <> 0 THEN typbasetype WHEN rngsubtype IS NOT NULL THEN rngsubtype ELSE typelem END::int8, "
        "typrelid::int8, "
        "(SELECT rngtypid::int8 FROM pg_range m WHERE m.rngmultitypid = t.oid) "
        "FROM pg_type t JOIN pg_namespace n ON n.oid = typnamespace LEFT JOIN pg_range r ON rngtypid = t.oid WHERE t.oid = %s",
        [oid],
    ).fetchone()
    assert one is not None
    names = ("oid", "schema", "name", "label", "kind", "length", "align", "delimiter")
    made: dict[str, Any] = dict(zip(names, one[:8], strict=True))
    element = one[10] or one[8]
    made["element"] = describe_oid(server, element) if element and made["kind"] in "adrm" else None
    made["labels"] = [list(pair) for pair in server.execute(
        "SELECT oid::int8, enumlabel FROM pg_enum WHERE enumtypid = %s ORDER BY enumsortorder", [oid])]  # fmt: skip
    made["fields"] = []
    if made["kind"] == "c":
        for number, column, type_oid, typmod, length, align in server.execute(
            "SELECT attnum, attname, atttypid::int8, atttypmod, attlen, "
            "CASE attalign WHEN 'c' THEN 1 WHEN 's' THEN 2 WHEN 'i' THEN 4 ELSE 8 END "
            "FROM pg_attribute WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum", [one[9]]
        ).fetchall():  # fmt: skip
            kind = describe_oid(server, type_oid)
            made["fields"].append(
                {"number": number, "name": column, "type": kind, "typmod": typmod, "length": length, "align": align}
            )
    return made


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]) if len(sys.argv) > 3 else HERE / "vectors.json.gz")
