"""pgoutput's messages of generated workloads, byte for byte what the server's plugin makes of them; of streamed ones, what a subscriber makes of
them. There are publications of all kinds, drawn as well, and prepared transactions. What publications that are defined here make of the log is what
the server makes of its own."""

from __future__ import annotations

import random
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import psycopg
import pytest

from support.cases import DBNAME
from support.drawn_publications import FIRST_WITH_FILTERS, DrawnPublication
from support.pgoutput_rows import PUBLICATION, Row, check_same, ours, theirs
from support.published_schedule import PublishedWorkload, make_published_workload
from support.sampling import some_of
from support.schedule import run_schedule
from support.servers import Server
from support.subscriber import messages_within, put_together, understood
from tailrace.errors import TailraceError
from tailrace.majors import MAJORS
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner
from tailrace.pipeline.open_snapshot import define, open_snapshot
from tailrace.publications.commands.statements import parse_statement
from tailrace.publications.publishing.entry_timeline import Definitions
from tailrace.storage.publication_files import PublicationFiles

pytestmark = [pytest.mark.matrix, pytest.mark.postgres]
TRANSACTIONS = 100
SEEDS = (20261122, 7, 8)
SETTINGS: dict[str, str | int] = {"autovacuum": "off", "logical_decoding_work_mem": "64kB"}
TWO_PHASE = {"proto_version": "3", "two_phase": "on"}
PLAIN = (
    (14, {"proto_version": "1"}),
    (14, {"proto_version": "1", "binary": "true"}),
    (14, {"proto_version": "1", "messages": "true"}),
    (15, TWO_PHASE),
)
STREAMED = (
    (14, {"proto_version": "2", "streaming": "on", "messages": "true"}),
    (15, {**TWO_PHASE, "streaming": "on"}),
    (16, {"proto_version": "4", "streaming": "parallel"}),
    (16, {"proto_version": "4", "streaming": "parallel", "two_phase": "on"}),
)
"""Options, and since which major there are these."""
FIRST_AT_ONCE = 16
"""Since then a server can be told to stream every change at once; before, only what does not fit in 64 kB is."""

Result = TypeVar("Result")
Refused = tuple[str, str]
"""SQLSTATE and message."""


@dataclass(frozen=True, slots=True)
class Asked:
    """For which publications, and how."""

    names: str
    options: dict[str, str]

    @property
    def two_phase(self) -> bool:
        return "two_phase" in self.options

    @property
    def streamed(self) -> bool:
        return "streaming" in self.options

    @property
    def all_options(self) -> dict[str, str]:
        return {"publication_names": self.names, **self.options}


def _asked(major: int, publications: Sequence[DrawnPublication], dice: random.Random) -> Iterator[Asked]:
    """All tables in every way; each publication, and some together, in one way or another."""
    plain, streamed = ([options for since, options in each if since <= major] for each in (PLAIN, STREAMED))
    yield from (Asked(PUBLICATION, options) for options in (*plain, *streamed))
    names = [publication.name for publication in publications if major >= FIRST_WITH_FILTERS or not publication.needs_filters]
    together = [",".join(dice.sample(names, dice.randint(2, 3))) for _ in range(3)]
    for number, each in enumerate((*names, *together)):
        yield Asked(each, plain[number % len(plain)])
    yield Asked(dice.choice(names), dice.choice(streamed))


@pytest.mark.parametrize(
    ("major", "seed"), some_of([pytest.param(major, seed, id=f"{major}-{seed}") for seed in SEEDS for major in MAJORS], 4)
)
def test_generated(major: int, seed: int, tmp_path: Path) -> None:
    """On 14 no partition is attached or detached, which that server does not notice once it has told a change of it."""
    has_filters = major >= FIRST_WITH_FILTERS
    workload = make_published_workload(seed + major, TRANSACTIONS, filters=has_filters, leaving=has_filters)
    asked = list(_asked(major, workload.publications, random.Random(seed)))
    with Server(major, SETTINGS, dbname=DBNAME, test_decoding=False) as server:
        start = _told(server, workload)
        expected = [(each, _theirs(server, each)) for each in asked if not each.streamed]
        if major >= FIRST_AT_ONCE:
            server.say("ALTER SYSTEM SET debug_logical_replication_streaming = 'immediate'", "SELECT pg_reload_conf()")
        expected += [(each, _theirs(server, each)) for each in asked if each.streamed]
        server.stop()
        lasting = _messages(expected)
        for each, rows in expected:
            _check(server, each, rows, start, f"seed {seed}, {each}", lasting=lasting)
        defined = _defined(server.data_dir, start, workload.publications, tmp_path) if has_filters else ()
        for each, rows in expected:
            if defined and each.names.startswith("fixed") and "," not in each.names:
                here = replace(each, names=each.names.replace("fixed", "here"))
                _check(server, here, rows, start, f"seed {seed}, {here}", defined, lasting)
    _check_worth(major, expected, workload)


def _told(server: Server, workload: PublishedWorkload) -> str:
    """The workload done; where the slots began."""
    filters = server.major >= FIRST_WITH_FILTERS
    run_schedule(server, workload.setup)
    server.say(f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES")
    server.say(
        *(each.create(filters=filters) for each in workload.publications if filters or not each.needs_filters), "CHECKPOINT"
    )
    start = str(server.value("SELECT lsn FROM pg_create_logical_replication_slot('s', 'pgoutput')"))
    server.sql("SELECT pg_create_logical_replication_slot('t', 'pgoutput', false, true)")
    run_schedule(server, workload.work)
    return start


def _theirs(server: Server, asked: Asked) -> list[Row] | Refused:
    return _or_refused(lambda: theirs(server, "t" if asked.two_phase else "s", asked.all_options))


def _or_refused(work: Callable[[], Result]) -> Result | Refused:
    try:
        return work()
    except psycopg.Error as error:
        return str(error.sqlstate), str(error.diag.message_primary)
    except TailraceError as error:
        return error.sqlstate, error.message


def _messages(expected: Sequence[tuple[Asked, list[Row] | Refused]]) -> frozenset[int]:
    """Where those are that are part of transactions, and were not rolled back with a subtransaction."""
    whole = (rows for asked, rows in expected if not asked.streamed and "messages" in asked.options)
    return frozenset().union(*(messages_within(rows) for rows in whole if isinstance(rows, list)))


def _check(
    server: Server, asked: Asked, expected: list[Row] | Refused, start: str, what: str, definitions: Definitions = (),
    lasting: Container[int] | None = None,
) -> None:  # fmt: skip
    more = {"work_mem": 0} if asked.streamed else {}
    found = _or_refused(
        lambda: ours(
            server.data_dir,
            asked.all_options,
            start_lsn=start,
            two_phase=asked.two_phase,
            major=server.major,
            definitions=definitions,
            **more,
        )
    )
    if isinstance(found, tuple) or isinstance(expected, tuple):
        assert found == expected, what
    elif asked.streamed:
        assert any(data[:1] == b"S" for _, _, data in found), what
        assert server.major < FIRST_AT_ONCE or any(data[:1] == b"S" for _, _, data in expected), what
        assert put_together(found, asked.options) == put_together(expected, asked.options, lasting), what
    else:
        check_same(found, expected, what)


def _defined(data_dir: Path, at: str, publications: Sequence[DrawnPublication], directory: Path) -> Definitions:
    """Those that stay as they are, defined here under other names."""
    here = open_snapshot(data_dir, DBNAME, LocalRunner(1), at=Lsn.parse(at))
    files = PublicationFiles(directory / "publications")
    for publication in publications:
        if publication.name.startswith("fixed"):
            text = publication.create(name=publication.name.replace("fixed", "here"))
            define(files, here, parse_statement(text), text)
    return files.read(here.system, here.database_oid, here.database).in_order


def _check_worth(major: int, expected: Sequence[tuple[Asked, list[Row] | Refused]], workload: PublishedWorkload) -> None:
    """That there was something to compare."""
    sent = [rows for _, rows in expected if isinstance(rows, list)]
    assert len(sent) > len(expected) * 3 / 4
    assert len(sent[0]) > TRANSACTIONS
    assert sum(len(rows) > TRANSACTIONS / 3 for rows in sent) > len(sent) / 2
    said = [statement.sql for statement in workload.work]
    assert any("DETACH" in sql for sql in said) == (major >= FIRST_WITH_FILTERS)
    for what in ("ALTER PUBLICATION", "PREPARE TRANSACTION", "TRUNCATE"):
        assert any(sql.startswith(what) for sql in said), what
    assert workload.left


@pytest.mark.parametrize("major", some_of([pytest.param(major, id=str(major)) for major in (15, 16, 17, 18)], 4))
def test_filters_defined_here_of_a_server_without(major: int, tmp_path: Path) -> None:
    """What 14 does not know, defined here of its log, against what a later major sends that was told the same workload."""
    seed = SEEDS[0]
    sent: dict[str, list[Row]] = {}
    with Server(major, SETTINGS, dbname=DBNAME, test_decoding=False) as server:
        workload = make_published_workload(seed, TRANSACTIONS, filters=True)
        _told(server, workload)
        fixed = [each.name for each in workload.publications if each.name.startswith("fixed")]
        for names in (*fixed, ",".join(fixed[:2]), ",".join(fixed[2:])):
            sent[names] = theirs(server, "s", {"proto_version": "1", "publication_names": names})
    with Server(14, SETTINGS, dbname=DBNAME, test_decoding=False) as server:
        start = _told(server, make_published_workload(seed, TRANSACTIONS, filters=False))
        server.stop()
        definitions = _defined(server.data_dir, start, workload.publications, tmp_path)
        compared = 0
        for names, rows in sent.items():
            options = {"proto_version": "1", "publication_names": names.replace("fixed", "here")}
            found = understood(ours(server.data_dir, options, start_lsn=start, major=14, definitions=definitions))
            expected = understood(rows)
            compared += len(expected)
            for number, (mine, other) in enumerate(zip(found, expected, strict=True)):
                assert mine == other, f"seed {seed}, {names}, transaction {number}"
    assert compared > TRANSACTIONS
