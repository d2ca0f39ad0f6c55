"""Changes that pgoutput cannot send: the error, its SQLSTATE and its CONTEXT, and what is told before it, on live servers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from support.command import Run, run_in
from support.servers import Server

KEYED = "CREATE TABLE t (id int PRIMARY KEY, a int DEFAULT 0, d date)"
OTHER = "CREATE TABLE u (id int PRIMARY KEY)"
FULL = "ALTER TABLE t REPLICA IDENTITY FULL"
OF_T, BOTH = "CREATE PUBLICATION p FOR TABLE t WHERE ({})", "CREATE PUBLICATION p FOR TABLE u, t WHERE ({})"
DIVIDED = "10 / id > 1"


@dataclass(frozen=True, slots=True)
class Story:
    """`tables` and publications, of which `names` are asked for; then statements by connection (a or b), each in a transaction of its own unless it
    says BEGIN. `sqlstate` is what comes of it; empty: all goes well. Of these `majors`, first and last."""

    name: str
    tables: tuple[str, ...]
    work: tuple[tuple[str, str], ...]
    sqlstate: str
    names: str = "p"
    options: tuple[tuple[str, str], ...] = ()
    encoding: str = "UTF8"
    majors: tuple[int, int] = (15, 18)


def _alone(*statements: str) -> tuple[tuple[str, str], ...]:
    return tuple(("a", statement) for statement in statements)


STORIES = (
    Story("division", (KEYED, OTHER, BOTH.format(DIVIDED)), _alone(
        "INSERT INTO u VALUES (1)", "INSERT INTO t VALUES (2), (9)",
        "BEGIN; INSERT INTO u VALUES (2); INSERT INTO t VALUES (3); INSERT INTO t VALUES (4), (0), (5); INSERT INTO t VALUES (-1); COMMIT",
        "INSERT INTO u VALUES (3)"), "22012"),
    Story("range", (KEYED, FULL, OF_T.format("a + 2147483000 > 0")), _alone(
        "INSERT INTO t VALUES (1, 5)", "UPDATE t SET a = 500", "DELETE FROM t", "INSERT INTO t VALUES (2, 648)"), "22003"),
    Story("dates", (KEYED, FULL, OF_T.format("d - date 'infinity' > 3")), _alone(
        "INSERT INTO t (id) VALUES (1)", "UPDATE t SET a = 1", "UPDATE t SET d = 'infinity'"), "22008"),
    Story("old row before the new", (KEYED, FULL, OF_T.format("10 / a > 1 OR a + 2147483647 > 0") + " WITH (publish = 'update')"), _alone(
        "INSERT INTO t VALUES (1, 0), (2, 7)", "UPDATE t SET a = 20 WHERE id = 1"), "22012"),
    Story("first of the first to commit", (KEYED, OTHER, OF_T.format(DIVIDED), "CREATE PUBLICATION q FOR TABLE u WHERE (id + 2147483647 > 0)"), (
        ("a", "BEGIN"), ("a", "INSERT INTO t VALUES (5)"), ("a", "INSERT INTO t VALUES (0)"), ("b", "INSERT INTO u VALUES (-1)"),
        ("b", "INSERT INTO u VALUES (2)"), ("a", "COMMIT")), "22003", "p,q"),
    Story("guarded by another publication", (KEYED, OF_T.format("id = 0"), f"CREATE PUBLICATION q FOR TABLE t WHERE ({DIVIDED})"), _alone(
        "INSERT INTO t VALUES (0), (1)"), "", "p,q"),
    Story("stored out of line", (KEYED, OF_T.format(" OR ".join(f"id = {i * 3 % 9973}" for i in range(400)))), _alone(
        "INSERT INTO t SELECT generate_series(1, 40)"), ""),
    Story("guard comes too late", (KEYED, OF_T.format("id = 0"), f"CREATE PUBLICATION q FOR TABLE t WHERE ({DIVIDED})"), _alone(
        "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (0)"), "22012", "q,p"),
    Story("constant, of an action that does not come", (KEYED, OTHER, BOTH.format("1 / 0 = id") + " WITH (publish = 'delete')"), _alone(
        "INSERT INTO u VALUES (1)", "INSERT INTO t VALUES (1)"), "22012"),
    Story("publication is missing at TRUNCATE", (OTHER,), _alone("TRUNCATE u", "INSERT INTO u VALUES (1)"), "42704", majors=(14, 17)),
    Story("lists that differ at TRUNCATE", (KEYED, "CREATE PUBLICATION p FOR TABLE t (id)", "CREATE PUBLICATION q FOR TABLE t (id, a)"), _alone(
        "TRUNCATE t", "INSERT INTO t VALUES (1)"), "0A000", "p,q"),
    Story("streamed", (KEYED, OTHER, BOTH.format("10 / (id - 3000) <> 7")), (
        ("b", "INSERT INTO u VALUES (1)"), ("a", "BEGIN"), ("a", "INSERT INTO t SELECT generate_series(1, 4000)"), ("b", "INSERT INTO u VALUES (2)"),
        ("a", "COMMIT")), "22012", options=(("proto_version", "2"), ("streaming", "on"))),
    Story("characters", ("CREATE TABLE t (id int PRIMARY KEY, v text)", "CREATE PUBLICATION p FOR TABLE t"), _alone(
        "INSERT INTO t VALUES (1, 'x')", "INSERT INTO t VALUES (2, convert_from('\\xa9a1', 'EUC_JP'))"), "22P05", encoding="EUC_JP", majors=(14, 18)),
)  # fmt: skip
MAJORS = [pytest.param(major, marks=pytest.mark.matrix) for major in (18, 14, 15, 16, 17)]


@pytest.mark.parametrize("major", MAJORS)
def test_what_a_slot_raises(
    major: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run = run_in(monkeypatch, capfd)
    with Server(major, {"logical_decoding_work_mem": "64kB"}, test_decoding=False) as server:
        for number, story in enumerate(STORIES):
            if not story.majors[0] <= major <= story.majors[1]:
                continue
            dbname, state = f"d{number}", tmp_path / str(number)
            server.say(f"CREATE DATABASE {dbname} ENCODING '{story.encoding}' LOCALE 'C' TEMPLATE template0", "CHECKPOINT")
            for statement in story.tables:
                server.sql(statement, dbname=dbname)
            options = [*{"proto_version": "1", "publication_names": story.names, **dict(story.options)}.items()]
            server.sql("SELECT pg_create_logical_replication_slot('s', 'pgoutput')", dbname=dbname)
            words = [word for name, value in options for word in ("-o", f"{name}={value}")]
            run("slot", "create", "s", server.data_dir, "--database", dbname, "--state", state, "--plugin", "pgoutput", *words)
            _work(server, dbname, story)
            expected = _theirs(server, dbname, options)
            words = ["s", "--state", state, "--set", "logical_decoding_work_mem=64kB"]
            found = run("slot", "peek", *words)
            assert (found[0], found[2]) == (int(bool(story.sqlstate)), expected[0]), story.name
            assert expected[1] == story.sqlstate, story.name
            if not story.options:  # blocks of ours are cut elsewhere
                assert found[1] == _before(server, dbname, options, found[1] if story.sqlstate else None), story.name
            # The slot stands where it stood, and comes to the same.
            assert run("slot", "get", *words)[1:] == found[1:], story.name
            if story.sqlstate:
                assert run("slot", "peek", *words) == found, story.name
            if story.name == "division":
                _elsewhere(run, server, dbname, state, expected[0], found[1])
            server.sql("SELECT pg_drop_replication_slot('s')", dbname=dbname)


def _last_error(said: str) -> str:
    return said[said.index("tailrace: error: ") :]


def _elsewhere(run: Run, server: Server, dbname: str, state: Path, error: str, told: str) -> None:
    """Without a slot there is none to name; and what a slot writes into a file ends with what commits before."""
    options = ["-o", "proto_version=1", "-o", "publication_names=p"]
    decoded = run("decode", server.data_dir, "--database", dbname, "--plugin", "pgoutput", *options)
    # What commits before anything is known of tables may be named before.
    assert (decoded[0], decoded[1], _last_error(decoded[2])) == (1, told, error.replace('slot "s", ', ""))
    chosen = run("decode", server.data_dir, "--database", dbname, "--publication", "p")
    assert (chosen[0], _last_error(chosen[2])) == (
        1,
        error.replace('slot "s", output plugin "pgoutput"', 'output plugin "test_decoding"'),
    )
    file = state / "rows"
    end = server.value("SELECT pg_current_wal_flush_lsn()::text")
    received = run("slot", "receive", "s", "--state", state, "-f", file, "--endpos", end)
    assert (received[0], received[2]) == (1, error)
    assert len(file.read_bytes().splitlines()) >= len(told.splitlines()) > 0
    # What the file has is confirmed, and what failed fails again.
    assert run("slot", "peek", "s", "--state", state) == (1, "", error)


def _work(server: Server, dbname: str, story: Story) -> None:
    with server.connect(dbname) as a, server.connect(dbname) as b:
        for which, statement in story.work:
            (a if which == "a" else b).execute(statement.encode())
    server.checkpoint()


def _before(server: Server, dbname: str, options: list[tuple[str, str]], told: str | None) -> str:
    """What the server's slot gives up to where the last of these rows stands; without, all."""
    if told is None:
        return _rows(server, dbname, options, "NULL")
    end = told.splitlines()[-1].split("\t")[0] if told else "0/2"
    return _rows(server, dbname, options, f"'{end}'::pg_lsn - 1")


def _rows(server: Server, dbname: str, options: list[tuple[str, str]], upto: str) -> str:
    """What the server's slot gives before this position, as psql prints it."""
    words = [word for option in options for word in option]
    query = f"SELECT lsn, xid, data FROM pg_logical_slot_peek_binary_changes('s', {upto}, NULL{', %s' * len(words)})"
    rows = server.sql(query, words, dbname=dbname)
    return "".join(f"{lsn}\t{xid}\t\\x{bytes(data).hex()}\n" for lsn, xid, data in rows)


def _theirs(server: Server, dbname: str, options: list[tuple[str, str]]) -> tuple[str, str]:
    """The error that its slot raises, as ours prints errors, and the SQLSTATE; empty if it raises none."""
    try:
        _rows(server, dbname, options, "NULL")
    except psycopg.Error as error:
        said = error.diag
        lines = [f"tailrace: error: {said.message_primary}"]
        for label, text in (("DETAIL", said.message_detail), ("HINT", said.message_hint), ("CONTEXT", said.context)):
            lines += [f"{label}:  {text}"] if text else []
        return "\n".join(lines) + "\n", str(said.sqlstate)
    return "", ""
