"""A live walsender, read as a subscriber reads it while transactions are open: what it streamed is, put together, what our plugin makes of that log.

Each major has several sessions at once, one for each version of the protocol with all that it can ask for. The log goes on step by step, and after
each every session reads as far as the server has flushed: so blocks, aborts and prepared transactions come when they happen, and not after the fact.
So does a slot of ours, which follows the same server.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

from support.acquired import acquired, looked
from support.cases import DBNAME
from support.live import SLOT
from support.message_sessions import check
from support.pgoutput_rows import PUBLICATION, ours
from support.reassembly import Event, Subscriber, reassembled
from support.servers import Server
from support.walsender import LogicalStream, Received
from tailrace.cli.verbs.slot import create
from tailrace.logicalproto import message as m
from tailrace.logicalproto.change_columns import change_batches
from tailrace.logicalproto.change_reader import ChangeReader
from tailrace.logicalproto.message_flow import MessageReader, MessageWriter
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner
from tailrace.plugins.pgoutput import PgOutput
from tailrace.replication.acquired_slot import AcquiredSlot
from tailrace.replication.slot_location import SlotLocation
from tailrace.types.values import Texts

pytestmark = pytest.mark.postgres
MAJORS = [pytest.param(each, marks=pytest.mark.matrix) for each in (18, 14, 15, 16, 17)]
TWO_PHASE_SINCE, PARALLEL_SINCE = 15, 16
SETTINGS = {"logical_decoding_work_mem": "64kB", "autovacuum": "off", "log_replication_commands": "on"}

SETUP = (
    "CREATE TYPE mood AS ENUM ('sad', 'ok')", "CREATE DOMAIN small AS int2",
    "CREATE TABLE a (id int PRIMARY KEY, v text)", "CREATE TABLE b (id int, m mood, s small, big text)",
    "ALTER TABLE b REPLICA IDENTITY FULL", "ALTER TABLE b ALTER big SET STORAGE EXTERNAL",
    "CREATE TABLE c (id int PRIMARY KEY, big text NOT NULL, n numeric)", "ALTER TABLE c ALTER big SET STORAGE EXTERNAL",
    "CREATE TABLE p (id int PRIMARY KEY, v int) PARTITION BY RANGE (id)", "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (1000)",
    "CREATE TABLE p2 PARTITION OF p DEFAULT", "CREATE TABLE flushed (n int)",
    f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES", "SELECT pg_replication_origin_create('elsewhere')", "CHECKPOINT",
)  # fmt: skip
ROWS_OF_A = "INSERT INTO a SELECT i, repeat('x', 90) || i FROM generate_series({}, {}) i"
ROWS_OF_B = "INSERT INTO b SELECT i, 'ok', i % 9, repeat('y', 3000) FROM generate_series({}, {}) i"
ROWS_OF_C = "INSERT INTO c SELECT i, repeat('z', 3000), i / 4.0 FROM generate_series({}, {}) i"


@dataclass
class Session:
    """What one subscriber asks for, and what it was sent."""

    slot: str
    options: dict[str, str]
    two_phase: bool
    received: list[Received] = field(default_factory=list)

    @property
    def of_reader(self) -> tuple[int, str]:
        return int(self.options["proto_version"]), self.options["streaming"]


def sessions_of(major: int) -> list[Session]:
    def session(version: int, streaming: str, **more: str) -> Session:
        options = {"proto_version": str(version), "publication_names": PUBLICATION, "streaming": streaming, **more}
        return Session(f"v{version}_{'_'.join([streaming, *more])}", options, "two_phase" in more)

    sessions = [session(2, "on", messages="on")]
    if major >= TWO_PHASE_SINCE:
        sessions.append(session(3, "on", two_phase="on", messages="on"))
    if major >= PARALLEL_SINCE:
        sessions.append(session(4, "parallel", two_phase="on", messages="on", binary="on"))
        sessions.append(session(4, "parallel", origin="none"))
    return sessions


Step = Iterator[None]
"""Work on a server. Where it yields, sessions read what was done so far."""


def aborted_subtransactions(server: Server) -> Step:
    """A transaction streamed in many blocks, some of it rolled back after it was sent; others commit meanwhile."""
    with server.connect(autocommit=False) as writer:
        writer.execute(ROWS_OF_A.format(1, 700))
        yield
        writer.execute("SAVEPOINT one")
        writer.execute(ROWS_OF_A.format(1501, 2100))
        writer.execute("SELECT pg_logical_emit_message(true, 'in', 'rolled back')")
        yield
        server.say("INSERT INTO p VALUES (1, 1), (1001, 2)", "UPDATE p SET id = id + 999 WHERE id = 1")
        writer.execute("SAVEPOINT two; INSERT INTO a VALUES (5000, 'nested'); RELEASE two; SAVEPOINT three")
        writer.execute("TRUNCATE c")
        writer.execute(ROWS_OF_B.format(1, 60))
        yield
        writer.execute("ROLLBACK TO three")
        writer.execute(ROWS_OF_A.format(2601, 3000))
        yield
        writer.execute("ROLLBACK TO one")
        writer.execute("SELECT pg_logical_emit_message(false, 'outside', 'stays'), pg_logical_emit_message(true, 'in', 'stays')")
        writer.execute("UPDATE a SET v = 'updated' WHERE id <= 500; DELETE FROM a WHERE id > 650")
        yield
        writer.execute("SAVEPOINT four")
        writer.execute(ROWS_OF_A.format(10001, 10600))
        yield
        writer.execute("RELEASE four; INSERT INTO a VALUES (1, 'again') ON CONFLICT (id) DO UPDATE SET v = 'upserted'")
        writer.commit()
    yield


def rolled_back(server: Server) -> Step:
    """Whole transactions that were streamed and come to nothing, and one that comes to nothing before anybody was told."""
    for rows in (ROWS_OF_A.format(20000, 20600), ROWS_OF_B.format(100, 140)):
        with server.connect(autocommit=False) as writer:
            writer.execute(rows)
            writer.execute("SAVEPOINT s")
            writer.execute(ROWS_OF_A.format(22000, 22600))
            yield
            writer.rollback()
    with server.connect(autocommit=False) as writer:
        writer.execute("INSERT INTO a VALUES (30000, 'never')")
        writer.rollback()
    yield


def interleaved(server: Server) -> Step:
    """Two large transactions at once, of which the later one commits first; and one that is small."""
    with server.connect(autocommit=False) as first, server.connect(autocommit=False) as second:
        for i in range(4):
            first.execute(ROWS_OF_A.format(40000 + 1000 * i, 40400 + 1000 * i))
            second.execute(ROWS_OF_C.format(100 * i, 100 * i + 30))
            server.say(f"INSERT INTO p VALUES ({10 + i}, {i})")
            yield
        second.execute("UPDATE c SET n = 1 WHERE id < 20")
        second.execute("UPDATE c SET id = -id, big = big WHERE id BETWEEN 100 AND 110")
        second.execute("DELETE FROM c WHERE id > 310")
        second.commit()
        yield
        first.execute("UPDATE b SET s = 1, m = 'sad' WHERE id < 5")
        first.commit()
    server.say(
        "UPDATE c SET n = 2 WHERE id = 5",
        "UPDATE b SET big = big || 'longer' WHERE id = 1",
        "TRUNCATE a, b RESTART IDENTITY CASCADE",
    )
    yield


def prepared(server: Server) -> Step:
    """Large and small transactions in two phases, committed and rolled back, after all have heard of them."""
    for gid, rows in (
        ("large", 600),
        ("small", 3),
        ("large to nothing", 600),
        ("small to ''nothing''", 3),
        ("rolled back within", 700),
    ):
        with server.connect(autocommit=False) as writer:
            writer.execute("INSERT INTO p VALUES (%s, 1)", [hash(rows) % 7 + 2000 + len(gid)])
            writer.execute("SAVEPOINT s")
            writer.execute(ROWS_OF_A.format(100_000, 100_000 + rows))
            yield
            if gid == "rolled back within":
                writer.execute("ROLLBACK TO s")
            writer.execute(f"PREPARE TRANSACTION '{gid}'")
        yield
        server.say("INSERT INTO p VALUES (3000, 1)", "DELETE FROM p WHERE id = 3000")
        server.say(f"{'ROLLBACK' if 'nothing' in gid else 'COMMIT'} PREPARED '{gid}'", "DELETE FROM a")
        yield


def redefined(server: Server) -> Step:
    """Tables change in a transaction that is streamed, and some of that is rolled back: what they are is told again."""
    with server.connect(autocommit=False) as writer:
        writer.execute("ALTER TABLE a ADD COLUMN w mood DEFAULT 'ok'")
        writer.execute("INSERT INTO a SELECT i, repeat('w', 90) FROM generate_series(1, 600) i")
        yield
        writer.execute("ALTER TABLE a ADD COLUMN x int; INSERT INTO a SELECT i, 'x', 'ok', i FROM generate_series(1201, 1300) i")
        yield
        writer.execute("ALTER TABLE a DROP COLUMN x; INSERT INTO a SELECT i, 'y' FROM generate_series(1301, 1400) i")
        writer.execute("SAVEPOINT s; ALTER TABLE a DROP COLUMN v; CREATE TABLE made (id int PRIMARY KEY, s small)")
        writer.execute("INSERT INTO a SELECT i FROM generate_series(2001, 3000) i")
        writer.execute("INSERT INTO made SELECT i, 1 FROM generate_series(1, 500) i")
        yield
        writer.execute("ROLLBACK TO s; INSERT INTO a SELECT i, repeat('v', 90), 'sad' FROM generate_series(5001, 5500) i")
        server.say("INSERT INTO b VALUES (1, 'ok', 2, 'three')")
        yield
        writer.execute("CREATE TABLE made (id int PRIMARY KEY, m mood[]); INSERT INTO made VALUES (1, '{ok,sad}')")
        writer.commit()
    server.say(
        "INSERT INTO a VALUES (0, 'v', 'ok')", "ALTER TABLE a DROP COLUMN w", "INSERT INTO a VALUES (-1, 'v')", "DROP TABLE made"
    )
    yield


def from_elsewhere(server: Server) -> Step:
    """Transactions of another server, which a session may refuse."""
    with server.connect() as writer:
        writer.execute("SELECT pg_replication_origin_session_setup('elsewhere')")
        for rows in (3, 600):
            writer.execute("BEGIN; SELECT pg_replication_origin_xact_setup('1/2345', '2020-02-03 04:05:06+00')")
            writer.execute(ROWS_OF_A.format(200_000 + rows, 200_000 + 2 * rows))
            yield
            writer.execute("COMMIT")
    yield


class Follower:
    """A consumer of our slot with the plugin, which remembers what it was given before."""

    def __init__(self, consumer: AcquiredSlot, options: dict[str, str]) -> None:
        self._consumer, self._plugin = consumer, PgOutput()
        self._plugin.context.work_mem = 64 << 10
        self._plugin.context.two_phase, self._plugin.context.two_phase_since = (
            consumer.slot.two_phase,
            int(consumer.slot.two_phase_at),
        )
        self._plugin.startup(options, consumer.major)
        self.received: list[Received] = []

    def read(self) -> None:
        """All that is new, which is then confirmed."""
        for window in looked(self._consumer, self._plugin.demand):
            for lines in window.lines(self._plugin):
                self.received += zip(lines.lsn.tolist(), lines.texts.to_bytes(), strict=True)
        self._consumer.confirm(self._consumer.read_upto)


STORY: tuple[Callable[[Server], Step], ...] = (
    aborted_subtransactions, rolled_back, interleaved, prepared, redefined, from_elsewhere,
)  # fmt: skip


@pytest.mark.parametrize("major", MAJORS)
def test_a_live_walsender(major: int, tmp_path: Path) -> None:
    sessions = sessions_of(major)
    followed = next(each for each in reversed(sessions) if "messages" in each.options)
    with Server(major, SETTINGS, dbname=DBNAME, test_decoding=False) as server:
        server.say(*SETUP)
        made = "SELECT lsn FROM pg_create_logical_replication_slot(%s, 'pgoutput', false, %s)"
        starts = [str(server.value(made, [session.slot, session.two_phase])) for session in sessions]
        options = [f"{name}={value}" for name, value in followed.options.items()]
        create(SLOT, server.data_dir, tmp_path, DBNAME, "pgoutput", options, two_phase=followed.two_phase)
        with ExitStack() as stack:
            consumer = stack.enter_context(acquired(SlotLocation.open(tmp_path), SLOT, LocalRunner(1)))
            follower = Follower(consumer, followed.options)
            streams = [stack.enter_context(LogicalStream(server, session.slot, session.options)) for session in sessions]
            for chapter in STORY:
                for _ in chapter(server):
                    server.say("INSERT INTO flushed VALUES (1)")  # what others wrote before is flushed with it
                    flushed = server.flush_lsn()
                    for session, stream in zip(sessions, streams, strict=True):
                        session.received += stream.read_to(flushed)
                    follower.read()
            confirmed = dict(
                server.sql("SELECT slot_name, confirmed_flush_lsn >= %s::pg_lsn FROM pg_replication_slots", [flushed])
            )
            assert confirmed == {session.slot: True for session in sessions}
            assert [stream.end() for stream in streams] == [["COPY 0", "START_REPLICATION"]] * len(streams)
        server.stop()
        for session, start in zip(sessions, starts, strict=True):
            live = _as_read(session)
            if session is followed:
                assert Counter(data[:1] for _, data in follower.received)[b"A"] > 8
                assert check([payload for _, payload in follower.received], *session.of_reader) == ""
                _check_same(reassembled(follower.received, *session.of_reader), live, f"{major}, {session.options}, followed")
            plain = {**session.options, "streaming": "off"}
            for options in (session.options, plain):
                rows = ours(server.data_dir, options, start_lsn=start, two_phase=session.two_phase, major=major, work_mem=0)
                found = reassembled(
                    [(int(Lsn.parse(lsn)), data) for lsn, _, data in rows], session.of_reader[0], options["streaming"]
                )
                _check_same(found, live, f"{major}, {options}")


def _as_read(session: Session) -> list[Event]:
    """What the session comes to, after all that must hold of its messages themselves."""
    payloads = [payload for _, payload in session.received]
    reader, writer = MessageReader(*session.of_reader), MessageWriter(*session.of_reader)
    messages = [reader.read(payload) for payload in payloads]
    assert [writer.write(message) for message in messages] == payloads
    assert check(payloads, *session.of_reader, cut=len(payloads) // 2) == ""
    kinds = Counter(type(message) for message in messages)
    assert kinds[m.StreamStart] > 20
    assert kinds[m.StreamAbort] > 8
    assert kinds[m.StreamCommit] >= 4
    if session.two_phase:
        assert (kinds[m.StreamPrepare], kinds[m.Prepare], kinds[m.CommitPrepared], kinds[m.RollbackPrepared]) == (3, 2, 3, 2)
    aborts = [message for message in messages if isinstance(message, m.StreamAbort)]
    assert {message.xid == message.subxid for message in aborts} == {True, False}
    assert all((message.abort_lsn is not None) == (session.options["streaming"] == "parallel") for message in aborts)
    subscriber = Subscriber()
    for (lsn, _), message in zip(session.received, messages, strict=True):
        subscriber.take(lsn, message)
    live = subscriber.did
    _check_columns(payloads, session, live)
    return live


def _check_columns(payloads: list[bytes], session: Session, live: list[Event]) -> None:
    """As columns there are the same rows: those of transactions that committed, by table, kind and xid."""
    texts = Texts.of(payloads)
    scanned = ChangeReader(*session.of_reader).read(texts.data, texts.offsets)
    found: Counter[Any] = Counter()
    for relation, batch in change_batches(scanned):
        committed = batch.filter(batch.column("commit_lsn").is_valid())
        pairs = zip(committed.column("xid").to_pylist(), committed.column("kind").to_pylist(), strict=True)
        found.update((relation.name, xid, kind) for xid, kind in pairs)
    gone = {event[2][-1] for event in live if event[0] == "RollbackPrepared"}
    expected: Counter[Any] = Counter()
    for event in live:
        if event[0] == "commit" or (event[0] == "prepare" and event[3][-1] not in gone):
            rows = [change for change in event[5] if change[1] in ("Insert", "Update", "Delete")]
            expected.update((change[2][0].name, event[2], change[1].lower()) for change in rows)
    assert found == expected


def _check_same(found: list[Event], live: list[Event], what: str) -> None:
    """To the last value; else the first transaction that differs, and where."""
    for number, (mine, theirs) in enumerate(zip(found, live, strict=False)):
        if mine != theirs:
            at = next((i for i, pair in enumerate(zip(mine[-1], theirs[-1], strict=False)) if pair[0] != pair[1]), -1)
            shown = [f"{each[:-1]} {each[-1][at] if at >= 0 else each[-1]}"[:600] for each in (mine, theirs)]
            pytest.fail("\n".join([f"{what}: {number} of {len(live)}, at {at}", *shown]), pytrace=False)
    assert len(found) == len(live), what


@pytest.mark.parametrize("major", MAJORS)
def test_refused(major: int) -> None:
    """What cannot start says why."""
    options = {"proto_version": "1", "publication_names": PUBLICATION}
    missing = pytest.raises(psycopg.OperationalError, match='replication slot "none" does not exist')
    with Server(major, dbname=DBNAME, test_decoding=False) as server, missing:
        LogicalStream(server, "none", options)
