"""Publications choose what `decode` and slots give: ours, of a server that knows nothing of row filters; and those that are not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.command import Run
from support.servers import Server
from tailrace.logicalproto.message import Delete, Insert, Update
from tailrace.logicalproto.message_flow import MessageReader

pytestmark = pytest.mark.postgres


@pytest.mark.matrix
def test_a_filter_on_14(tailrace: Run, tmp_path: Path) -> None:
    state = ("--state", tmp_path / "state")
    options = ("-o", "proto_version=1", "-o", "publication_names=p")
    with Server(14) as server:
        server.say("CREATE TABLE t (a int PRIMARY KEY, b text)", "CHECKPOINT")
        source = (server.data_dir, "--database", server.dbname)
        assert tailrace("slot", "create", "s", *source, *state, "--plugin", "pgoutput", *options)[0] == 0
        assert tailrace("publication", "create", "p FOR TABLE t (a) WHERE (a > 5)", *source, *state)[0] == 0
        server.say(
            "INSERT INTO t VALUES (1, 'one'), (6, 'six')", "UPDATE t SET a = 10 WHERE a = 1", "UPDATE t SET a = 2 WHERE a = 6",
            "INSERT INTO t VALUES (3, 'not shown')", "DELETE FROM t WHERE a = 10",
        )  # fmt: skip
        status, told, _ = tailrace("slot", "get", "s", *state)
        assert status == 0
        reader = MessageReader(1, "off")
        messages = [reader.read(bytes.fromhex(line.split("\t")[2].removeprefix("\\x"))) for line in told.splitlines()]
        changes = [message for message in messages if isinstance(message, Insert | Update | Delete)]
        assert [type(change).__name__ for change in changes] == ["Insert", "Insert", "Delete", "Delete"]
        shown = [change.old if isinstance(change, Delete) else change.new for change in changes]
        assert [[column.value for column in tuple_data.columns] for tuple_data in shown] == [[b"6"], [b"10"], [b"6"], [b"10"]]

        status, text, _ = tailrace(
            "decode", *source, *state, "--publication", "p", "-o", "skip-empty-xacts", "-o", "include-xids=0"
        )
        assert status == 0
        rows = [line.split("\t")[2] for line in text.splitlines()]
        assert [row for row in rows if row.startswith("table")] == [
            "table public.t: INSERT: a[integer]:6",
            "table public.t: INSERT: a[integer]:10",
            "table public.t: DELETE: a[integer]:6",
            "table public.t: DELETE: a[integer]:10",
        ]


def test_a_publication_that_is_not_there(tailrace: Run) -> None:
    """18 goes on without it, and says so once."""
    with Server(18) as server:
        server.say(
            "CREATE TABLE t (a int PRIMARY KEY)", "CREATE PUBLICATION p FOR TABLE t", "INSERT INTO t VALUES (1)", "CHECKPOINT"
        )
        command = ("decode", server.data_dir, "--database", server.dbname, "--publication", "p", "--publication", "nope")
        status, told, said = tailrace(*command)
    assert status == 0
    assert "table public.t: INSERT: a[integer]:1" in told
    warning = [line for line in said.splitlines() if "warning" in line or line.startswith(("DETAIL", "HINT"))]
    assert warning == [
        'tailrace: warning: skipped loading publication "nope"',
        "DETAIL:  The publication does not exist at this point in the WAL.",
        "HINT:  Create the publication if it does not exist.",
    ]
