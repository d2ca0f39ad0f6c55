"""wal2json on a server, and ours: LSN, xid and text of each row.

The plugin comes from Debian's package for PostgreSQL 15, which any 15 loads. apt fetches it once, without being root, into the folder of the fetched
builds.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest

from support.builds import MissingBuild, cache
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
_COMMA = re.compile(r'\A(\{\s*"change":\s*\[\s*),')


def settings() -> dict[str, str | int]:
    """With these a server finds the plugin."""
    return {"dynamic_library_path": f"$libdir:{_library()}"}


def _library() -> Path:
    home = cache() / PACKAGE
    library = home / "usr" / "lib" / "postgresql" / str(MAJOR) / "lib"
    if not (library / "wal2json.so").exists():
        _fetch(home)
    return library


def _fetch(home: Path) -> None:
    """Have apt bring the package, unpack it beside its place, and move it there in one step: two runs may race."""
    for program in ("apt-get", "dpkg"):
        if shutil.which(program) is None:
            raise MissingBuild(f"{program} is missing: {PACKAGE} is fetched with `apt-get download` and unpacked with `dpkg -x`")
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=f"{PACKAGE}-") as scratch:
        ran = subprocess.run(["apt-get", "download", PACKAGE], cwd=scratch, capture_output=True, text=True, check=False)
        packages = list(Path(scratch).glob("*.deb"))
        if ran.returncode or not packages:
            raise MissingBuild(f"`apt-get download {PACKAGE}` failed: {ran.stderr.strip() or 'no package came'}")
        unpacked = Path(scratch, "unpacked")
        subprocess.run(["dpkg", "-x", packages[0], unpacked], check=True, capture_output=True)
        unpacked.chmod(0o755)
        try:
            unpacked.rename(home)
        except OSError as error:
            if not home.exists():
                raise MissingBuild(f"cannot put {PACKAGE} at {home}: {error}") from error


def theirs(server: Server, options: Mapping[str, str | None], slot: str = "s") -> list[Row]:
    """What a fresh session is given of the slot, which stays; without the comma that 2.5 writes before a message outside of transactions if the
    transaction before it had several changes, and 2.6 no more."""
    words = [word for option in options.items() for word in option]
    rows: Any = server.sql(
        "SELECT lsn::text, xid::text::bigint, data FROM pg_logical_slot_peek_changes(%s, NULL, NULL, VARIADIC %s::text[])",
        [slot, words],
    )
    return [(lsn, xid, _COMMA.sub(r"\1", text)) for lsn, xid, text in rows]


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
    """To the last byte; else the rows around the first difference."""
    if found == expected:
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
