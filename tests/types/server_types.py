"""What a real server knows of a type: how it is described, which bytes it stores, what it prints, what it sends."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import psycopg

PAGE = 8192
NO_FUNCTION = "42883"


def read_back(server: psycopg.Connection[Any], data: Path, table: str, length: int) -> list[tuple[str | None, bytes | None]]:
    """(text, stored bytes) of each row's column v in the order of its place in the file, None for NULL. After a CHECKPOINT."""
    path = server.execute("SELECT pg_relation_filepath(%s::regclass)", [table]).fetchone()[0]  # type: ignore[index]
    raw = (data / path).read_bytes()
    found: list[tuple[str | None, bytes | None]] = []
    for page, item, text in server.execute(
        f"SELECT (ctid::text::point)[0]::int, (ctid::text::point)[1]::int, "
        f"CASE WHEN num_nulls(v) = 0 OR pg_column_size(v) > 0 THEN format('%s', v) END FROM {table} ORDER BY {table}.ctid"
    ):
        found.append((text, stored(raw[page * PAGE : (page + 1) * PAGE], item, length)))
    return found


def stored(page: bytes, item: int, length: int) -> bytes | None:
    """The first column of line pointer `item`, without its length word."""
    (pointer,) = struct.unpack_from("<I", page, 24 + 4 * (item - 1))
    at, size = pointer & 0x7FFF, pointer >> 17
    if page[at + 20] & 1 and not page[at + 23] & 1:  # t_infomask: HEAP_HASNULL; then the bitmap
        return None
    body = page[at + page[at + 22] : at + size]
    if length > 0:
        return body[:length]
    if body[0] & 1:
        return body[1 : body[0] >> 1]
    (word,) = struct.unpack_from("<I", body)
    assert word & 3 == 0, "compressed"
    return body[4 : word >> 2]


def sent(server: psycopg.Connection[Any], table: str) -> list[bytes | None] | None:
    """The binary form of each row's column v; None where the type, or a part of it, has no send function."""
    raw = bytearray()
    try:
        with server.cursor().copy(f"COPY (SELECT v FROM {table} ORDER BY ctid) TO STDOUT (FORMAT binary)") as copy:
            for block in copy:
                raw += block
    except psycopg.Error as error:
        if error.sqlstate != NO_FUNCTION:
            raise
        return None
    at, found = 19, []
    while struct.unpack_from(">h", raw, at)[0] >= 0:
        (size,) = struct.unpack_from(">i", raw, at + 2)
        found.append(None if size < 0 else bytes(raw[at + 6 : at + 6 + size]))
        at += 6 + max(size, 0)
    return found


def make_table(server: psycopg.Connection[Any], table: str, label: str) -> None:
    """A table of one column whose values lie in it as they are: neither compressed nor elsewhere."""
    server.execute(f"CREATE TABLE {table} (v {label}) WITH (autovacuum_enabled = false)")
    if server.execute("SELECT typstorage <> 'p' FROM pg_attribute a JOIN pg_type t ON t.oid = atttypid "
                      "WHERE attrelid = %s::regclass AND attnum = 1", [table]).fetchone() == (True,):  # fmt: skip
        server.execute(f"ALTER TABLE {table} ALTER v SET STORAGE PLAIN")


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def names_of(server: psycopg.Connection[Any]) -> dict[str, str]:
    """What the reg types print: {"<reg type's oid> <oid>": name} for every object that has one."""
    found = {}
    catalogs = {
        "regproc": "pg_proc", "regprocedure": "pg_proc", "regoper": "pg_operator", "regoperator": "pg_operator", "regclass": "pg_class",
        "regtype": "pg_type", "regconfig": "pg_ts_config", "regdictionary": "pg_ts_dict", "regnamespace": "pg_namespace",
        "regrole": "pg_roles", "regcollation": "pg_collation",
    }  # fmt: skip
    for reg_type, catalog in catalogs.items():
        for number, oid, name in server.execute(
            f"SELECT '{reg_type}'::regtype::int, oid::int8, oid::{reg_type}::text FROM {catalog}"
        ):
            found[f"{number} {oid}"] = name
    return found


def describe(server: psycopg.Connection[Any], label: str) -> dict[str, Any]:
    """PgType's fields as a dict; what it refers to is resolved."""
    oid = server.execute(f"SELECT pg_typeof(NULL::{label})::oid").fetchone()[0]  # type: ignore[index]
    return describe_oid(server, oid)


def describe_oid(server: psycopg.Connection[Any], oid: int, known: dict[int, dict[str, Any]] | None = None) -> dict[str, Any]:
    if known is not None and oid in known:
        return known[oid]
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
    needs_element = element and (made["kind"] in "adrm" or made["name"] in {"int2vector", "oidvector"})
    made["element"] = describe_oid(server, element, known) if needs_element else None
    made["labels"] = [list(pair) for pair in server.execute(
        "SELECT oid::int8, enumlabel FROM pg_enum WHERE enumtypid = %s ORDER BY enumsortorder", [oid])]  # fmt: skip
    made["fields"] = []
    if made["kind"] == "c":
        for number, column, type_oid, typmod, length, align in server.execute(
            "SELECT attnum, attname, atttypid::int8, atttypmod, attlen, "
            "CASE attalign WHEN 'c' THEN 1 WHEN 's' THEN 2 WHEN 'i' THEN 4 ELSE 8 END "
            "FROM pg_attribute WHERE attrelid = %s AND attnum > 0 ORDER BY attnum", [one[9]]
        ).fetchall():  # fmt: skip
            kind = describe_oid(server, type_oid, known) if type_oid else None
            made["fields"].append(
                {"number": number, "name": column, "type": kind, "typmod": typmod, "length": length, "align": align}
            )
    if known is not None:
        known[oid] = made
    return made
