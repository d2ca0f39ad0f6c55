"""Record which callbacks of a plugin in C the server calls: `python tests/record_calls.py [DIRECTORY]` (a C compiler, Debian's headers, npm).

Out: `tests/calls/15.txt` and `15.tar.xz` (:mod:`support.calls` says what they are), or such files in another directory. The plugin is
`tests/calls/trace.c`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg

from record_cases import catalog_files, read_files, state_files
from support.builds import MissingBuild, unpacked_package
from support.calls import FOLDER, Asked, statement, write_asked
from support.cases import DBNAME, write_archive
from support.live import cluster
from support.segments import redo, segments
from support.servers import Server

MAJOR = 15
"""The one that Debian has headers of."""
_PACKAGE = f"postgresql-server-dev-{MAJOR}"
_VARIANTS = {"trace": (), "trace_required": ("-DREQUIRED",), "trace_two_phase": ("-DREQUIRED", "-DTWO_PHASE")}
_SETTINGS = {"wal_recycle": "off", "bgwriter_delay": "10s", "autovacuum": "off"}
_BIG = "INSERT INTO big SELECT i, repeat('x', 1900) FROM generate_series({}, {}) i"
"""Rows of two kB each; 64 kB is what makes a transaction be streamed."""


def main(arguments: list[str]) -> int:
    record(Path(arguments[0]) if arguments else FOLDER)
    return 0


def record(folder: Path) -> None:
    """Tell a server the story, and write down what it called."""
    with tempfile.TemporaryDirectory() as scratch:
        before = cluster(MAJOR, Path(scratch), _SETTINGS, _prepare, wal_segment_mb=1)
        server = Server(MAJOR, _SETTINGS, dbname=DBNAME, data=before)
        _build(server.home)
        server.settings["dynamic_library_path"] = f"$libdir:{server.home}"
        with server:
            names = catalog_files(server)
            told = _Told(server)
            for chapter in (_changes, _limits, _origins, _errors, _two_phases, _streams, _sets_of_callbacks):
                chapter(told)
            server.stop()
            after = read_files(server.data_dir, ["global/pg_control"])
            template = read_files(before, [*names, *state_files(before)])
            since, until = (redo(files["global/pg_control"]) for files in (template, after))
            wal = {f"pg_wal/{path.name}": path.read_bytes() for path in segments(server.wal_dir, since=since, until=until)}
    write_archive(folder / f"{MAJOR}.tar.xz", template | wal)
    write_asked(folder / f"{MAJOR}.txt", told.asked)


def _build(home: Path) -> None:
    """The plugin, in each of its variants, where the server's user can read it."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise MissingBuild("cc is missing: the plugin that is recorded is written in C")
    headers = unpacked_package(_PACKAGE) / "usr" / "include" / "postgresql" / str(MAJOR) / "server"
    for name, macros in _VARIANTS.items():
        words = [compiler, "-shared", "-fPIC", "-O1", f"-I{headers}", *macros, "-o", home / f"{name}.so", FOLDER / "trace.c"]
        subprocess.run(words, check=True)


class _Told:
    """What a server was asked and what it called, from the first on."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.asked: list[Asked] = []
        self._read = 0

    def say(self, *statements: str) -> None:
        self.server.say(*statements)

    def create(self, slot: str, plugin: str, *, two_phase: bool = False) -> None:
        made = "SELECT lsn::text FROM pg_create_logical_replication_slot(%s, %s, false, %s)"
        lsn = self.server.value(made, [slot, plugin, two_phase])
        self._note(Asked("create", slot, plugin, two_phase, end_lsn=lsn))

    def ask(self, what: str, slot: str, options: dict[str, str] | None = None, **more: Any) -> None:
        """The checkpoint has flushed what nobody waits for: a message outside of transactions."""
        self.server.checkpoint()
        each = Asked(what, slot, options=options or {}, end_lsn=self.server.flush_lsn(), **more)
        with self.server.connect() as connection:
            connection.execute(f"SET logical_decoding_work_mem = '{each.work_mem}'".encode())
            try:
                connection.execute(statement(each).encode())
            except psycopg.Error as error:
                each.error = str(error.diag.message_primary)
        self._note(each)

    def _note(self, each: Asked) -> None:
        lines = (self.server.data_dir / "trace").read_text().splitlines()
        new, self._read = [line.rstrip(" ") for line in lines[self._read :]], len(lines)
        each.calls = [line for before, line in pairwise(["", *new]) if line != before or not line.startswith("filter_by_origin")]
        self.asked.append(each)


# -- the story ------------------------------------------------------------------------------------------------------------------------


def _prepare(server: Server) -> None:
    server.say(
        "CREATE TABLE t (id int PRIMARY KEY, v text)",
        "CREATE TABLE whole (id int, v text)",
        "ALTER TABLE whole REPLICA IDENTITY FULL",
        "CREATE TABLE keyless (id int)",
        "CREATE TABLE parent (id serial PRIMARY KEY)",
        "CREATE TABLE child (id int REFERENCES parent)",
        "CREATE TABLE big (id int, v text)",
    )


def _changes(told: _Told) -> None:
    told.create("s", "trace")
    told.say("INSERT INTO t VALUES (1, 'a'), (2, 'b')", "UPDATE t SET v = 'c' WHERE id = 1", "UPDATE t SET id = 3 WHERE id = 1")
    told.say("DELETE FROM t", "INSERT INTO whole VALUES (1, 'a')", "UPDATE whole SET v = 'b'", "DELETE FROM whole")
    told.say("INSERT INTO keyless VALUES (1)", "DELETE FROM keyless")
    told.say("BEGIN", "COMMIT", "SELECT txid_current()", "BEGIN; INSERT INTO t VALUES (4, 'never'); ROLLBACK")
    told.say("CREATE TABLE made (id int)", "ALTER TABLE made ADD v text", "DROP TABLE made")
    told.say(
        "BEGIN", "INSERT INTO t VALUES (5, 'top')", "SAVEPOINT a", "INSERT INTO t VALUES (6, 'sub')", "ROLLBACK TO a",
        "INSERT INTO t VALUES (7, 'after')", "SAVEPOINT b", "UPDATE t SET v = 'sub' WHERE id = 5", "RELEASE b", "COMMIT",
    )  # fmt: skip
    told.say("TRUNCATE t", "TRUNCATE t, whole RESTART IDENTITY", "TRUNCATE parent CASCADE")
    told.say("SELECT pg_logical_emit_message(false, 'outside', 'one')", "SELECT pg_logical_emit_message(true, 'alone', 'two!')")
    told.say(
        "BEGIN", "SELECT pg_logical_emit_message(false, 'before an xid', '')", "INSERT INTO t VALUES (8, 'x')",
        "SELECT pg_logical_emit_message(true, 'within', 'three')", "SELECT pg_logical_emit_message(false, 'at once', 'four')",
        "DELETE FROM t WHERE id = 8", "COMMIT",
    )  # fmt: skip
    told.ask("peek", "s")
    told.ask("get", "s", {"one": "1", "two": ""})
    told.ask("get", "s")


def _limits(told: _Told) -> None:
    for number in range(20, 26):
        told.say(f"INSERT INTO t VALUES ({number}, 'x')")
        if number == 22:
            middle = told.server.flush_lsn()
    told.ask("peek", "s", upto_nchanges=1)
    told.ask("get", "s", upto_nchanges=4)
    told.ask("peek", "s", upto_lsn=middle)
    told.ask("copy", "copied", plugin="trace")
    told.ask("copy", "other", plugin="trace_required")
    told.ask("advance", "copied", upto_lsn=middle)
    told.ask("get", "copied")
    told.ask("get", "s")


def _origins(told: _Told) -> None:
    told.say("SELECT pg_replication_origin_create('elsewhere')", "INSERT INTO t VALUES (30, 'local')")
    told.say(
        "SELECT pg_replication_origin_session_setup('elsewhere')", "INSERT INTO t VALUES (31, 'foreign')", "BEGIN",
        "SELECT pg_replication_origin_xact_setup('0/1234', '2020-01-01 00:00+00')", "INSERT INTO t VALUES (32, 'foreign, too')", "COMMIT",
        "SELECT pg_logical_emit_message(false, 'foreign', '')",
    )  # fmt: skip
    told.say("INSERT INTO t VALUES (33, 'local')")
    told.ask("peek", "s")
    told.ask("get", "s", {"filter_origins": "1"})


def _errors(told: _Told) -> None:
    told.say("INSERT INTO t VALUES (40, 'x'), (41, 'y')", "TRUNCATE keyless", "SELECT pg_logical_emit_message(true, 'm', 'x')")
    told.say("SELECT pg_logical_emit_message(false, 'm', 'x')", "INSERT INTO t VALUES (42, 'z')")
    for callback in ("startup", "begin", "change", "truncate", "commit", "message", "filter_by_origin", "shutdown"):
        told.ask("peek", "s", {"raise": callback})
    told.ask("get", "s")


def _two_phases(told: _Told) -> None:
    told.create("t", "trace", two_phase=True)
    told.say("BEGIN", "INSERT INTO t VALUES (50, 'x')", "PREPARE TRANSACTION 'one'", "INSERT INTO t VALUES (51, 'meanwhile')")
    told.ask("peek", "t")
    told.ask("get", "t")
    told.say("COMMIT PREPARED 'one'")
    told.say("BEGIN", "INSERT INTO t VALUES (52, 'x')", "SAVEPOINT a", "DELETE FROM t WHERE id = 50", "PREPARE TRANSACTION 'two'")
    told.ask("get", "t")
    told.say("ROLLBACK PREPARED 'two'", "BEGIN", "INSERT INTO t VALUES (53, 'x')", "PREPARE TRANSACTION 'plain 1'")
    told.say("BEGIN", "LOCK TABLE child", "PREPARE TRANSACTION 'empty'", "COMMIT PREPARED 'empty'", "COMMIT PREPARED 'plain 1'")
    told.say("BEGIN", "INSERT INTO t VALUES (54, 'x')", "PREPARE TRANSACTION 'three'", "COMMIT PREPARED 'three'")
    told.ask("peek", "t", {"raise": "filter_prepare"})
    told.ask("peek", "t")
    told.ask("get", "t", {"filter_gid": "plain"})
    told.ask("get", "s")


def _streams(told: _Told) -> None:
    small: dict[str, Any] = {"work_mem": "64kB"}
    with told.server.connect(autocommit=False) as writer:
        writer.execute(_BIG.format(1, 50).encode())
        told.say("INSERT INTO t VALUES (60, 'meanwhile')")
        told.ask("get", "s", **small)
        writer.execute("SELECT pg_logical_emit_message(true, 'within', 'x')")
        writer.execute("TRUNCATE keyless")
        writer.execute(_BIG.format(51, 100).encode())
        writer.commit()
        told.ask("get", "s", **small)
        writer.execute(_BIG.format(1, 50).encode())
        writer.execute("SAVEPOINT a")
        writer.execute(_BIG.format(51, 100).encode())
        told.ask("get", "s", **small)
        writer.execute("ROLLBACK TO a")
        writer.execute(_BIG.format(101, 150).encode())
        writer.commit()
        writer.execute(_BIG.format(1, 60).encode())
        told.ask("get", "s", **small)
        writer.rollback()
        told.ask("get", "s", **small)
        told.ask("get", "t")
        writer.execute(_BIG.format(1, 50).encode())
        writer.execute("PREPARE TRANSACTION 'large'")
        told.ask("get", "t", **small)
    told.say("COMMIT PREPARED 'large'")
    told.ask("get", "t", **small)


def _sets_of_callbacks(told: _Told) -> None:
    told.create("r", "trace_required", two_phase=True)
    told.create("q", "trace_two_phase", two_phase=True)
    told.say("INSERT INTO t VALUES (70, 'x')", "TRUNCATE keyless", "SELECT pg_logical_emit_message(true, 'm', 'x')")
    told.say("BEGIN", "INSERT INTO t VALUES (71, 'x')", "PREPARE TRANSACTION 'one'", "COMMIT PREPARED 'one'", _BIG.format(1, 60))
    for slot in ("r", "q", "other"):
        told.ask("get", slot, work_mem="64kB")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
