"""PostgreSQL's subscription suite (src/test/subscription) as a workload: its scripts run as they are, with a slot beside that of each subscription
which nobody reads; afterwards the server and tailrace read it, from the same log, with the options that the subscription asked for.

In: a major. Out: `Counts`. The scripts are Perl and need IPC::Run, which Debian's package brings; `perl/ShadowSlots.pm` makes the slots. Whether a
script finds its own expectations met is counted and no more: a server of another major than the scripts' may differ, and the last steps of a script
may not do with slots around; what counts is what came into the log until then.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

import psycopg

from support.builds import Build, MissingBuild, find_build, unpacked_package
from support.decoding import opened
from support.pgoutput_rows import Row, theirs
from support.postgres_source import test_scripts
from support.reassembly import Event
from support.servers import Server
from support.subscriber import messages_within, put_together
from tailrace.demo.server import SUPERUSER
from tailrace.errors import TailraceError
from tailrace.model import Lsn
from tailrace.plugins.pgoutput import PgOutput

MODULES = Path(__file__).parent / "perl"
_PROGRAMS = ("initdb", "pg_ctl", "postgres", "psql", "pg_dump", "pg_basebackup", "pg_recvlogical")
_SCRIPT_SECONDS, _POLL_SECONDS = 300, 30
_ASKED = re.compile(r'START_REPLICATION SLOT "([^"]+)" LOGICAL [0-9A-F/]+ \((.*)\)$')
_OPTION = re.compile(r"(\w+) '((?:[^']|'')*)'")
_MADE = re.compile(r'CREATE_REPLICATION_SLOT "([^"]+)"')
_SHADOWED = re.compile(r"pg_create_logical_replication_slot\('(shadow_\d+)'")
_ROOM = {"max_replication_slots": 64, "max_connections": 40}
_FIRST_SHOWN = 40
_POWERS_OF_ROWS = 18


@dataclass(frozen=True, slots=True)
class Shadow:
    """A slot that was made beside `slot`; `options` are what its subscription asked for with these publications, one after another."""

    data_dir: Path
    dbname: str
    name: str
    slot: str
    lsn: str
    two_phase: bool
    options: tuple[dict[str, str], ...] = ()


@dataclass
class Counts:
    """`refused`: readings that both ended with the same error."""

    major: int
    scripts_of: int
    scripts: int = 0
    content: int = 0
    slots: int = 0
    readings: int = 0
    messages: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    different: int = 0
    shown: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"PostgreSQL {self.major}, subscription suite of {self.scripts_of}: {self.scripts} scripts ({self.content} content), {self.slots} slots, "
            f"{self.readings} readings ({self.refused.total()} ended by the same error), {self.messages} messages ({self.different} differ)"
        )

    def differ(self, what: str, number: int = 1) -> None:
        self.different += number
        if len(self.shown) < _FIRST_SHOWN:
            self.shown.append(what)


class Suite:
    """The scripts, and what they need of a major. Everything lies below `home`."""

    def __init__(self, major: int, home: Path) -> None:
        self.major, self.home = major, home
        self.sources, self.scripts_of = test_scripts(major)
        if shutil.which("perl") is None:
            raise MissingBuild("perl is missing: the scripts of src/test/subscription are Perl")
        self._ipc_run = unpacked_package("libipc-run-perl") / "usr/share/perl5"
        self._bin = home / "bin"
        self._lay_out(find_build(major))

    def scripts(self) -> list[Path]:
        return sorted((self.sources / "subscription/t").glob("*.pl"))

    def run(self, script: Path) -> tuple[bool, list[Shadow]]:
        """Whether it was content, and the shadows that it left."""
        place = self.home / script.stem
        place.mkdir()
        told, user = place / "shadows", self._user
        if user:
            shutil.chown(place, user)
        environment = {
            "PATH": f"{self._bin}:{os.defpath}",
            "HOME": str(place),
            "TZ": "UTC",
            "PG_REGRESS": str(self._bin / "config_auth"),
            "PG_TEST_NOCLEAN": "1",
            "PG_TEST_TIMEOUT_DEFAULT": str(_POLL_SECONDS),
            "TESTDIR": str(place),
            "SHADOW_SLOTS": str(told),
        }
        words = ["perl", *(f"-I{each}" for each in (MODULES, self._ipc_run, self.sources / "perl")), "-MShadowSlots", str(script)]
        with (place / "said").open("wb") as said, subprocess.Popen(
            words, cwd=place, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, user=user
        ) as process:  # fmt: skip
            try:
                status = process.wait(_SCRIPT_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                status = -1
        for pid_file in place.glob("tmp_check/*_data/pgdata/postmaster.pid"):
            with contextlib.suppress(OSError, ValueError):  # what a script that was cut off has left running
                os.kill(int(pid_file.read_text().split()[0]), signal.SIGQUIT)
        rows = [line.split("\t") for line in told.read_text().splitlines()] if told.exists() else []
        return status == 0, [_shadow(place, *row) for row in rows if row[0]]

    @property
    def _user(self) -> str | None:
        """Nodes' superuser is the system's user, and shadows are read as `postgres`."""
        names = {user.pw_name: user.pw_uid for user in pwd.getpwall()}
        if SUPERUSER not in names or os.geteuid() not in (0, names[SUPERUSER]):
            raise MissingBuild(
                f"the scripts of src/test/subscription are run as {SUPERUSER}, and there is no such user, or we cannot become it"
            )
        return SUPERUSER if os.geteuid() == 0 else None

    def _lay_out(self, build: Build) -> None:
        """The programs of the major in one folder; those that a build lacks, of another; and two that no build has."""
        self._bin.mkdir()
        for name in _PROGRAMS:
            (self._bin / name).symlink_to(build.bin(name).absolute())
        for name, line in (("pg_config", f"echo PostgreSQL {build.version}"), ("config_auth", "exit 0")):
            (self._bin / name).write_text(f"#!/bin/sh\n{line}\n")
            (self._bin / name).chmod(0o755)
        self.home.chmod(0o755)


def _shadow(place: Path, data_dir: str, dbname: str, name: str, slot: str, lsn: str, two_phase: str, publications: str) -> Shadow:
    node = Path(data_dir).parent.name.removesuffix("_data").removeprefix("t_")
    all_asked = _asked_of(place / "tmp_check/log" / f"{node}.log", name, slot)
    asked = tuple(
        each
        for each in all_asked
        if each["publication_names"].replace('"', "") == publications and ("two_phase" in each) == (two_phase == "t")
    )
    return Shadow(Path(data_dir), dbname, name, slot, lsn, two_phase == "t", asked)


def _asked_of(log: Path, name: str, slot: str) -> tuple[dict[str, str], ...]:
    """What walsenders were asked for with the slot, while it was the one that the shadow was made beside: a name may come again."""
    made, mine, asked = 0, -1, list[tuple[int, dict[str, str]]]()
    for line in log.read_text(errors="replace").splitlines():
        if (found := _MADE.search(line)) and found[1] == slot and "received replication command" in line:
            made += 1
        elif (found := _SHADOWED.search(line)) and found[1] == name:
            mine = made
        elif "received replication command" in line and (found := _ASKED.search(line)) and found[1] == slot:
            asked.append((made, {key: value.replace("''", "'") for key, value in _OPTION.findall(found[2])}))
    unlike: list[dict[str, str]] = []
    for number, options in asked:
        if number == mine and options not in unlike:
            unlike.append(options)
    return tuple(unlike)


def compare(major: int, only: str = "", *, keep: Path | None = None) -> Counts:
    """Run the scripts whose names contain `only` on servers of the major, and compare what each shadow has to say."""
    with tempfile.TemporaryDirectory(prefix="tailrace-suite-", ignore_cleanup_errors=True) as name:
        suite = Suite(major, Path(name))
        counts = Counts(major, suite.scripts_of)
        for script in suite.scripts():
            if only not in script.name:
                continue
            content, shadows = suite.run(script)
            counts.scripts += 1
            counts.content += content
            if keep and not content:
                shutil.copy(suite.home / script.stem / "said", keep / f"{major}_{script.stem}.said")
            for data_dir in dict.fromkeys(shadow.data_dir for shadow in shadows):
                _compare_node(major, script.stem, data_dir, [each for each in shadows if each.data_dir == data_dir], counts)
            shutil.rmtree(suite.home / script.stem, ignore_errors=True)
    return counts


def _compare_node(major: int, script: str, data_dir: Path, shadows: list[Shadow], counts: Counts) -> None:
    (data_dir / "postmaster.pid").unlink(missing_ok=True)
    (data_dir / "pg_hba.conf").write_text("host all all 127.0.0.1/32 trust\n")
    with Server(major, _ROOM, data=data_dir) as server:
        work_mem = int(server.value("SELECT setting FROM pg_settings WHERE name = 'logical_decoding_work_mem'")) << 10
        expected = [(shadow, options, _theirs(server, shadow, options)) for shadow in shadows for options in shadow.options]
        server.stop()
        counts.slots += len(shadows)
        for shadow, options, said in expected:
            counts.readings += 1
            found = _ours(server.data_dir, major, shadow, options, work_mem)
            _check(f"{major} {script} {shadow.slot} {options}", options, said, found, counts)


@dataclass(frozen=True, slots=True)
class Said:
    """Rows, and the message of the error behind them. The server's rows are those of whole transactions."""

    rows: list[Row]
    error: str = ""


def _theirs(server: Server, shadow: Shadow, options: Mapping[str, str]) -> Said:
    """What a fresh session is given. Where there is an error there are no rows, so it is asked for as many changes as come without one."""
    server.dbname = shadow.dbname
    try:
        return Said(theirs(server, shadow.name, options))
    except psycopg.Error as error:
        message = str(error.diag.message_primary)
    rows: list[Row] = []
    for power in reversed(range(_POWERS_OF_ROWS)):
        with contextlib.suppress(psycopg.Error):
            rows = theirs(server, shadow.name, options, len(rows) + (1 << power))
    return Said(rows, message)


def _ours(data_dir: Path, major: int, shadow: Shadow, options: Mapping[str, str], work_mem: int) -> Said:
    plugin = PgOutput()
    plugin.context.two_phase, plugin.context.work_mem = shadow.two_phase, work_mem
    rows: list[Row] = []
    try:
        plugin.startup(options, major)
        for lines in opened(data_dir, shadow.dbname, start_lsn=shadow.lsn, demand=plugin.demand).lines(plugin):
            texts = lines.texts.to_bytes()
            rows += [
                (str(Lsn(lsn)), xid, text) for lsn, xid, text in zip(lines.lsn.tolist(), lines.xid.tolist(), texts, strict=True)
            ]
    except TailraceError as error:
        return Said(rows, error.message)
    return Said(rows)


def _check(what: str, options: Mapping[str, str], said: Said, found: Said, counts: Counts) -> None:
    counts.messages += len(said.rows)
    if said.error != found.error:
        counts.differ(f"{what}: PostgreSQL {said.error!r}, tailrace {found.error!r}")
    elif said.error:
        counts.refused[said.error] += 1
    one: list[object] = [*said.rows]
    other: list[object] = [*found.rows]
    if said.error:
        del other[len(one) :]  # what we give of the transaction amid which the error is
    if one != other and options.get("streaming", "off") not in ("off", "false") and not said.error:
        lasting = messages_within(found.rows)
        one, other = (_without_rolled_back(put_together(each.rows, options, lasting)) for each in (said, found))
    unlike = [(a, b) for a, b in zip_longest(one, other) if a != b]
    if unlike:
        told = f"{what}: {len(unlike)} of {len(one)}, {len(other)}: PostgreSQL {_short(unlike[0][0])}, tailrace {_short(unlike[0][1])}"
        counts.differ(told, len(unlike))


def _without_rolled_back(events: Sequence[Event]) -> list[object]:
    """Of what was prepared and rolled back before it is read a server tells what its caches make it tell (docs/fidelity.md): here that it ended."""
    gone = {event[2][0] for event in events if event[0] == "RollbackPrepared"}
    return [event for event in events if not (event[0] in ("prepare", "bare prepare") and event[3][1] in gone)]


def _short(said: object) -> str:
    return str(said)[:400]
