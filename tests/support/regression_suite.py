"""PostgreSQL's regression suite (src/test/regress) as a workload: run on a server, and what its slots say of it compared with what tailrace makes of
the same log, line by line and message by message.

In: a major. Out: `Counts`. Scripts are run by psql, one after another, in the order of the schedule; what they print is not looked at, and what needs
the suite's own library in C fails, as does what another major's server does not know: what counts is what comes into the log.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from support.pgoutput_rows import IDENTITY_FOR_ALL, PLAIN, PUBLICATION
from support.postgres_source import test_scripts
from support.servers import Server

DBNAME = "regression"
SETTINGS = {"max_connections": 30, "max_prepared_transactions": 10, "min_wal_size": "32MB", "autovacuum": "off"}
_SCRIPT_SECONDS = 600
_FIRST_SHOWN = 5
_SESSION = {"PGTZ": "PST8PDT", "PGDATESTYLE": "Postgres, MDY", "PGOPTIONS": "-c intervalstyle=postgres_verbose"}
_PLAIN = ("-o", "proto_version=1", "-o", f"publication_names={PUBLICATION}")


@dataclass
class Compared:
    """Lines of both sides, and the first that differ."""

    lines: int
    different: int
    shown: list[str]


@dataclass
class Counts:
    major: int
    scripts_of: int
    scripts: int
    test_decoding: Compared
    pgoutput: Compared

    def __str__(self) -> str:
        return (
            f"PostgreSQL {self.major}, regression suite of {self.scripts_of}: {self.scripts} scripts, {self.test_decoding.formatter} lines of "
            f"test_decoding ({self.test_decoding.different} differ), {self.pgoutput.lines} messages of pgoutput ({self.pgoutput.different} differ)"
        )


def compare(major: int, directory: Path, python: str) -> Counts:
    """Run the suite on a server of the major, and compare; `python` runs tailrace."""
    scripts, scripts_of = test_scripts(major)
    with Server(major, SETTINGS, wal_segment_mb=16) as server:
        home = _laid_out(server, scripts / "regress")
        server.say(f"CREATE DATABASE {DBNAME} TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C' ENCODING 'UTF8'", "CHECKPOINT")
        server.dbname = DBNAME
        for setting in ("lc_messages = 'C'", "timezone_abbreviations = 'Default'"):
            server.say(f"ALTER DATABASE {DBNAME} SET {setting}")
        starts = {
            plugin: str(server.value("SELECT lsn FROM pg_create_logical_replication_slot(%s, %s)", [f"of_{plugin}", plugin]))
            for plugin in ("test_decoding", "pgoutput")
        }
        server.say(IDENTITY_FOR_ALL, f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES")
        names = schedule(home / "parallel_schedule")
        for name in names:
            _run_script(server, home, name)
        theirs = {}
        for plugin, options in (("test_decoding", {}), ("pgoutput", PLAIN)):
            how = "peek_binary" if plugin == "pgoutput" else "peek"
            words = "".join(f", '{word}'" for option in options.items() for word in option)
            query = f"SELECT lsn, xid, data FROM pg_logical_slot_{how}_changes('of_{plugin}', NULL, NULL{words})"
            theirs[plugin] = _printed_by_server(server, query, directory / f"{plugin}.theirs")
        server.stop()
        mine = {}
        for plugin, more in (("test_decoding", ()), ("pgoutput", ("--plugin", "pgoutput", *_PLAIN))):
            mine[plugin] = directory / f"{plugin}.ours"
            words = [
                python,
                "-m",
                "tailrace",
                "decode",
                str(server.data_dir),
                "--database",
                DBNAME,
                "--start-lsn",
                starts[plugin],
                "--on",
                "local",
                *more,
            ]
            with mine[plugin].open("wb") as out, (directory / f"{plugin}.ours.errors").open("wb") as errors:
                subprocess.run(words, stdout=out, stderr=errors, check=False)
    found = [compared(theirs[plugin], mine[plugin]) for plugin in ("test_decoding", "pgoutput")]
    return Counts(major, scripts_of, len(names), *found)


def schedule(path: Path) -> list[str]:
    """The scripts in the order in which groups of them are run."""
    return [
        name for line in path.read_text().splitlines() if line.startswith("test:") for name in line.removeprefix("test:").split()
    ]


def _laid_out(server: Server, scripts: Path) -> Path:
    """A copy that the server's user may read, and write results into."""
    home = server.home / "regress"
    shutil.copytree(scripts, home)
    for folder in ("results", "testtablespace"):
        (home / folder).mkdir(exist_ok=True)
    server._give_away()
    return home


def _run_script(server: Server, home: Path, name: str) -> None:
    places = {"PG_ABS_SRCDIR": home, "PG_ABS_BUILDDIR": home, "PG_LIBDIR": home, "PG_DLSUFFIX": ".so"}
    environment = {**os.environ, **_SESSION, **{key: str(value) for key, value in places.items()}, "LC_ALL": "C"}
    words = [str(server.bin("psql")), "-X", "-a", "-q", server.dsn(), "-v", "HIDE_TABLEAM=on", "-v", "HIDE_TOAST_COMPRESSION=on"]
    with (home / "sql" / f"{name}.sql").open("rb") as script, (home / "results" / f"{name}.out").open("wb") as out:
        subprocess.run(
            words,
            stdin=script,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=home,
            timeout=_SCRIPT_SECONDS,
            check=False,
        )


def _printed_by_server(server: Server, query: str, path: Path) -> Path:
    """As psql prints it, in the session that `tailrace decode` assumes; with the error behind it, if there was one."""
    words = [
        str(server.bin("psql")),
        "-X",
        "-At",
        "-F",
        "\t",
        "-v",
        "FETCH_COUNT=10000",
        f"{server.dsn()} options='-c timezone=UTC'",
        "-c",
        query,
    ]
    with path.open("wb") as out, Path(f"{path}.errors").open("wb") as errors:
        subprocess.run(words, stdout=out, stderr=errors, check=False)
    return path


def compared(theirs: Path, ours: Path) -> Compared:
    """Line by line; and what either said of an error, up to which all must be equal."""
    lines, different, shown = 0, 0, []
    with theirs.open("rb") as one, ours.open("rb") as other:
        for expected, found in zip_longest(one, other):
            lines += 1
            if expected != found:
                different += 1
                if len(shown) < _FIRST_SHOWN:
                    shown.append(f"line {lines}: PostgreSQL {_cut(expected)}\n          tailrace {_cut(found)}")
    said = [_message(Path(f"{path}.errors")) for path in (theirs, ours)]
    if said[0] != said[1]:
        different += 1
        shown.append(f"errors: PostgreSQL {said[0]!r}, tailrace {said[1]!r}")
    return Compared(lines, different, shown)


def _message(path: Path) -> str:
    """The message of an error that was printed, without where it was."""
    found = re.search(r"(?:ERROR|error):\s+(.*)", path.read_text(errors="replace"))
    return found[1] if found else ""


def _cut(line: bytes | None, most: int = 600) -> Sequence[str] | str:
    return "nothing" if line is None else line[:most].decode(errors="replace")
