"""wal2json on a server, and ours: LSN, xid and text of each row.

The plugin comes from Debian's package for PostgreSQL 15, which any 15 loads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest

from support.builds import unpacked_package
from support.cases import DBNAME
from support.decoding import opened
from support.servers import Server
from tailrace.model import Lsn
from tailrace.pipeline import Pipeline
from tailrace.plugins.printing import up_to_zero
from tailrace.plugins.wal2json import Wal2Json

MAJOR = 15
PACKAGE = f"postgresql-{MAJOR}-wal2json"
Row = tuple[str, int, str]
FORMAT = {"format-version": "2"}
_PK = re.compile(r',?\s*"pk":\s*\{[^{}]*\}')
_COMMA = re.compile(r'\A(\{\s*"change":\s*\[\s*),')


def settings() -> dict[str, str | int]:
    """With these a server finds the plugin."""
    return {"dynamic_library_path": f"$libdir:{_library()}"}


def _library() -> Path:
    return unpacked_package(PACKAGE) / "usr" / "lib" / "postgresql" / str(MAJOR) / "lib"


def theirs(server: Server, options: Mapping[str, str | None], slot: str = "s") -> list[Row]:
    """What a fresh session is given of the slot, which stays; without the comma that 2.5 writes before a message outside of transactions if the
    transaction before it had several changes, and 2.6 no more."""
    words = [word for option in options.items() for word in option]
    rows: Any = server.sql(
        "SELECT lsn::text, xid::text::bigint, data FROM pg_logical_slot_peek_changes(%s, NULL, NULL, VARIADIC %s::text[])",
        [slot, words],
    )
    return [(lsn, xid, as_in_2_6(text)) for lsn, xid, text in rows]


def as_in_2_6(text: str) -> str:
    """What 2.5 writes, without the comma that `theirs` speaks of."""
    return _COMMA.sub(r"\1", text)


def their_error(server: Server, options: Mapping[str, str | None]) -> tuple[str, str]:
    """SQLSTATE and message."""
    with pytest.raises(psycopg.Error) as raised:
        theirs(server, options)
    return str(raised.value.sqlstate), str(raised.value.diag.message_primary)


def ours(source: Path, options: Mapping[str, str | None], start_lsn: str, **more: Any) -> list[Row]:
    """The same of a stopped data directory."""
    plugin = Wal2Json()
    plugin.startup(options, MAJOR)
    return rows_of(opened(source, DBNAME, start_lsn=start_lsn, demand=plugin.demand, **more), plugin)


def rows_of(pipeline: Pipeline, plugin: Wal2Json) -> list[Row]:
    rows: list[Row] = []
    for lines in pipeline.lines(plugin):
        texts = up_to_zero(lines.texts).to_list()
        rows += [(str(Lsn(lsn)), xid, text) for lsn, xid, text in zip(lines.lsn.tolist(), lines.xid.tolist(), texts, strict=True)]
    return rows


def check_same(found: list[Row], expected: list[Row], what: str) -> None:
    """To the last byte; else the rows around the first difference. But for primary keys: in format 1 2.5 tells them only where they are the replica
    identity by default, and 2.6, as we do, always."""
    if found == expected or (
        _without_keys(found) == _without_keys(expected)
        and all(set(_PK.findall(other[2])) <= set(_PK.findall(mine[2])) for mine, other in zip(found, expected, strict=True))
    ):
        return
    at = next(
        (i for i, (mine, other) in enumerate(zip(found, expected, strict=False)) if mine != other), min(len(found), len(expected))
    )
    shown = [
        f"{who} {row}"[:1500]
        for who, rows in (("tailrace", found), ("wal2json", expected))
        for row in rows[max(0, at - 1) : at + 2]
    ]
    pytest.fail("\n".join([f"{what}: row {at} of {len(found)}, {len(expected)}", *shown]), pytrace=False)


def _without_keys(rows: list[Row]) -> list[Row]:
    return [(lsn, xid, _PK.sub("", text)) for lsn, xid, text in rows]
