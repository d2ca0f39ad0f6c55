"""Transactions that are open, or prepared, where the WAL at hand begins: what is read whole, and what is refused. PostgreSQL's slot is the oracle."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cases import DBNAME
from support.decoding import opened, rows_of, text_of
from support.live import Slot
from support.segments import forget_other_segments, forget_segments_before
from support.servers import Server
from tailrace.errors import MissingHistory
from tailrace.majors import MAJORS
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, Source, capture

pytestmark = [pytest.mark.matrix, pytest.mark.postgres]


@pytest.mark.parametrize("major", MAJORS)
def test_transactions_open_where_we_begin(major: int, tmp_path: Path) -> None:
    """Of those that began before a running server's last checkpoint, a captured state knows where; without the WAL from there they are refused."""
    with Server(major, dbname=DBNAME) as server:
        server.checkpoint()
        slot = Slot.on(server)
        server.say("CREATE TABLE t (id int PRIMARY KEY, v text)")
        began = [server.connect(autocommit=False) for _ in range(3)]
        for number, connection in enumerate(began):
            connection.execute(f"INSERT INTO t VALUES ({number}, 'before')")
        began[2].execute("PREPARE TRANSACTION 'p'")
        server.switch_wal()
        server.checkpoint()
        began[0].execute("INSERT INTO t VALUES (10, 'between')")
        server.switch_wal()
        state = capture(Source.open(server.data_dir), LocalRunner(1), DBNAME)
        began[0].execute("INSERT INTO t VALUES (20, 'after')")
        began[0].commit()
        first_end = Lsn.parse(server.flush_lsn())
        began[1].commit()
        second_end = Lsn.parse(server.flush_lsn())
        server.say("COMMIT PREPARED 'p'", "INSERT INTO t VALUES (3, 'all of it')")
        case = slot.stopped(tmp_path)
    assert len(state.xids_open) == 3
    text = rows_of(case.data_dir, catalog=state)
    assert text.count("INSERT") == 6
    assert case.expected.endswith(text)

    forget_segments_before(case.data_dir, state.lsn - 1)  # the state lies where a segment ends
    for start in (state.lsn, first_end, second_end):
        with pytest.raises(MissingHistory, match="began before"):
            opened(case.data_dir, start_lsn=start)
    text = rows_of(case.data_dir)
    assert text.count("INSERT") == 1
    assert case.expected.endswith(text)


@pytest.mark.parametrize("major", MAJORS)
def test_transactions_open_at_a_redo_pointer(major: int, tmp_path: Path) -> None:
    """The WAL at hand begins with a RUNNING_XACTS that knows of none: they begin behind it, but before the catalogs are known."""
    with Server(major, dbname=DBNAME) as server:
        server.checkpoint()
        slot = Slot.on(server)
        server.say("CREATE TABLE t (id int PRIMARY KEY, v text)", "CHECKPOINT")
        server.switch_wal()
        begins = Lsn.parse(server.flush_lsn())
        Slot.on(server, "another")
        plain, nested = (server.connect(autocommit=False) for _ in range(2))
        plain.execute("INSERT INTO t VALUES (1, 'before')")
        nested.execute("SAVEPOINT a; CREATE TABLE n (id int); INSERT INTO n VALUES (1); RELEASE a")
        server.checkpoint()
        start = Lsn.parse(server.flush_lsn())
        server.say("INSERT INTO t VALUES (2, 'meanwhile')")
        plain.commit()
        plain_ends = Lsn.parse(server.flush_lsn())
        nested.execute("INSERT INTO n VALUES (2)")
        nested.commit()
        nested_ends = Lsn.parse(server.flush_lsn())
        server.say("INSERT INTO t VALUES (3, 'all of it')")
        case = slot.stopped(tmp_path)
    forget_segments_before(case.data_dir, begins)
    pipeline = opened(case.data_dir)
    text = text_of(pipeline, {})
    assert text.count("INSERT") == 1
    assert case.expected.endswith(text)
    assert pipeline.warning.startswith("left out are 3 transactions with 4 rows at hand, which commit from")
    for position in (start, plain_ends):
        with pytest.raises(MissingHistory, match=r"what tables were is known from .* began before that"):
            opened(case.data_dir, start_lsn=position)
    assert rows_of(case.data_dir, start_lsn=nested_ends) == text


@pytest.mark.parametrize("major", MAJORS)
def test_messages_while_an_older_transaction_is_open(major: int, tmp_path: Path) -> None:
    """It is rolled back, so that the start may lie before its end; what needs no commit is told from there on."""
    with Server(major, dbname=DBNAME) as server:
        server.checkpoint()
        slot = Slot.on(server)
        server.say("CREATE TABLE t (id int PRIMARY KEY)")
        assert slot.get()
        older = server.connect(autocommit=False)
        older.execute("INSERT INTO t VALUES (1)")
        server.switch_wal()
        server.checkpoint()
        start = Lsn.parse(server.flush_lsn())
        server.say("SELECT pg_logical_emit_message(false, 'while', 'it is open')", "INSERT INTO t VALUES (2)")
        older.rollback()
        server.say("SELECT pg_logical_emit_message(false, 'after', 'its end')", "INSERT INTO t VALUES (3)")
        case = slot.stopped(tmp_path)
    forget_segments_before(case.data_dir, start)
    assert rows_of(case.data_dir, start_lsn=start) == case.expected
    assert "id[integer]:3" in case.expected


@pytest.mark.parametrize("major", MAJORS)
def test_transactions_prepared_before_a_restart(major: int) -> None:
    """A shutdown checkpoint is where nothing runs, but for them."""
    with Server(major, dbname=DBNAME) as server:
        server.say("CREATE TABLE t (id int)", "BEGIN", "INSERT INTO t VALUES (1)", "PREPARE TRANSACTION 'p'")
        _forget_what_was(server)
        server.start()
        start = Lsn.parse(server.flush_lsn())
        server.say("INSERT INTO t VALUES (2)", "COMMIT PREPARED 'p'", "INSERT INTO t VALUES (3)")
        server.stop()
        with pytest.raises(MissingHistory, match="began before the WAL at hand"):
            opened(server.data_dir, start_lsn=start)
        text = rows_of(server.data_dir)
    assert text.count("INSERT") == 1
    assert "id[integer]:3" in text


@pytest.mark.parametrize("major", [14, 18])
@pytest.mark.parametrize("at_hand", [False, True])
def test_state_captured_with_a_prepared_transaction(major: int, *, at_hand: bool) -> None:
    """The stopped directory names it; whether its rows can be shown depends on the WAL."""
    with Server(major, dbname=DBNAME) as server:
        slot = Slot.on(server)
        begun = ("BEGIN", "INSERT INTO t VALUES (1)", "SAVEPOINT a", "INSERT INTO t VALUES (2)", "PREPARE TRANSACTION 'p'")
        server.say("CREATE TABLE t (id int)", *begun)
        server.stop()
        if not at_hand:
            _forget_what_was(server)
        state = capture(Source.open(server.data_dir), LocalRunner(1), DBNAME)
        server.start()
        server.say("INSERT INTO t VALUES (3)", "COMMIT PREPARED 'p'", "INSERT INTO t VALUES (4)")
        expected = slot.get() if at_hand else ""
        server.stop()
        if at_hand:
            text = rows_of(server.data_dir, catalog=state, start_lsn=state.lsn)
            assert text.count("INSERT") == 4
            assert expected.endswith(text)
        else:
            with pytest.raises(MissingHistory, match="began before the WAL at hand"):
                opened(server.data_dir, catalog=state, start_lsn=state.lsn)
            assert rows_of(server.data_dir, catalog=state).count("INSERT") == 1


def _forget_what_was(server: Server) -> None:
    """Stop it, with no WAL but that of its last checkpoint, and that in a segment of its own."""
    server.stop()
    forget_other_segments(server.data_dir)
    server.start()
    server.switch_wal()
    server.stop()
    forget_other_segments(server.data_dir)
