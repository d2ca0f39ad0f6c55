"""Ask real PostgreSQLs how they store, print and send; the answers are replayed without them.

    python tests/types/record_vectors.py [TARGET]        (needs npm: the build that has the extensions comes from there)

For every literal of `LITERALS` (and a few hundred random ones) the server stores the value in a table of one column; after a
CHECKPOINT the heap file gives the stored bytes (`storage/bufpage.h`, `access/htup_details.h`), a SELECT the text, a binary COPY
what is sent. Writes tests/types/vectors.json.gz: {"types": {name: PgType as a dict}, "vectors": {name: [[text, stored, sent], ...]}
with bytes in hex, "zones": {zone: {name: [text, ...]}}, "styles": [[settings, {name: [text, ...]}], ...], both of the same values,
"names": {"reg type's oid and oid": name}}.
"""

from __future__ import annotations

import gzip
import json
import random
import sys
from pathlib import Path
from typing import Any

import psycopg

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from literals import LITERALS, PREPARE, STYLES, VECTORS, ZONES, random_literals  # type: ignore[import-not-found]  # noqa: E402
from server_types import describe, literal, make_table, names_of, read_back, sent  # type: ignore[import-not-found]  # noqa: E402

from support.servers import Server  # noqa: E402

MAJOR = 18


def main(target: Path) -> None:
    recorded: dict[str, Any] = {"types": {}, "vectors": {}, "zones": {}, "styles": [], "names": {}}
    with Server(MAJOR) as server, server.connect() as connection:
        tables = record(connection, server.data_dir, PREPARE, LITERALS, recorded)
        recorded["zones"] = {
            zone: {
                "timestamptz": under({"TimeZone": zone}, connection, server.data_dir, tables, recorded, ("timestamptz",))[
                    "timestamptz"
                ]
            }
            for zone in ZONES
        }
        for settings, names in STYLES:
            recorded["styles"].append([settings, under(settings, connection, server.data_dir, tables, recorded, names)])
        kept = {int.from_bytes(bytes.fromhex(row[1]), "little") for name, rows in recorded["vectors"].items()
                if name.startswith(("reg", "acl")) for row in rows if len(row[1]) == 8}  # fmt: skip
        roles = {oid for (oid,) in connection.execute("SELECT oid::int8 FROM pg_roles WHERE oid = 10 OR oid > 16383")}
        recorded["names"] = {
            key: name for key, name in names_of(connection).items() if int(key.split()[1]) in kept | roles | {23, 1043}
        }
    with Server(MAJOR, test_decoding=False) as server, server.connect() as connection:
        record(connection, server.data_dir, "CREATE EXTENSION vector", VECTORS, recorded)
    text = json.dumps(recorded, ensure_ascii=False, separators=(",", ":"))
    target.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print({name: len(rows) for name, rows in recorded["vectors"].items()})


def record(
    server: psycopg.Connection[Any], data: Path, prepare: str, literals: dict[str, list[str]], recorded: dict[str, Any]
) -> dict[str, str]:
    """The table of each type; `recorded` gets the types and vectors."""
    server.execute("SET client_min_messages = error; DROP SCHEMA IF EXISTS vectors CASCADE; CREATE SCHEMA vectors")
    server.execute("SET search_path = vectors, pg_catalog; SET TimeZone = 'UTC'")
    server.execute(prepare)
    chance = random.Random(20260101)
    tables = {}
    for number, (name, texts) in enumerate(literals.items()):
        tables[name] = f"v{number}"
        store(server, tables[name], name, list(texts) + random_literals(name, chance))
    server.execute("CHECKPOINT")
    for name, table in tables.items():
        recorded["types"][name] = describe(server, name)
        rows = read_back(server, data, table, recorded["types"][name]["length"])
        binary = sent(server, table) or [None] * len(rows)
        recorded["vectors"][name] = [
            [text, raw.hex() if raw is not None else None, form.hex() if form is not None else None]
            for (text, raw), form in zip(rows, binary, strict=True)
        ]
    return tables


def store(server: psycopg.Connection[Any], table: str, name: str, texts: list[str]) -> None:
    """Insert every literal; one that the server refuses is a mistake in our list."""
    make_table(server, table, name)
    for text in texts:
        try:
            server.execute(f"INSERT INTO {table} VALUES ({literal(text)}::{name})")
        except psycopg.Error as error:
            print(f"{name} refuses {text!r}: {error}", file=sys.stderr)


def under(
    settings: dict[str, str],
    server: psycopg.Connection[Any],
    data: Path,
    tables: dict[str, str],
    recorded: dict[str, Any],
    names: tuple[str, ...],
) -> dict[str, list[str]]:
    """What the server prints of these types under other settings."""
    for setting, value in settings.items():
        server.execute(f"SET {setting} = {literal(value)}")
    found = {
        name: [text for text, _ in read_back(server, data, tables[name], recorded["types"][name]["length"])] for name in names
    }
    for setting in settings:
        server.execute(f"RESET {setting}")
    server.execute("SET TimeZone = 'UTC'")
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "vectors.json.gz")
