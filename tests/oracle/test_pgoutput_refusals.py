"""Options that pgoutput refuses when it is started up: in the server's words, and where it says that it was."""

from __future__ import annotations

import pytest

from support.cases import DBNAME
from support.pgoutput_rows import PLAIN, PUBLICATION, check_same, ours, their_error, theirs
from support.sampling import some_of
from support.servers import Server
from tailrace.errors import TailraceError
from tailrace.model import Lsn
from tailrace.plugins.failures import start_up
from tailrace.plugins.pgoutput import PgOutput

pytestmark = [pytest.mark.matrix, pytest.mark.postgres]
REFUSED: tuple[dict[str, str], ...] = (
    {}, {"proto_version": "1"}, {"publication_names": "p"}, {**PLAIN, "proto_version": "one"}, {**PLAIN, "proto_version": "0"},
    {**PLAIN, "proto_version": "9"}, {**PLAIN, "nonsense": "1"}, {**PLAIN, "binary": "perhaps"}, {**PLAIN, "streaming": "on"},
    {**PLAIN, "publication_names": "a b"}, {**PLAIN, "streaming": "sideways"}, {**PLAIN, "origin": "here"}, {**PLAIN, "two_phase": "on"},
)  # fmt: skip


@pytest.mark.parametrize("major", some_of([pytest.param(major, id=str(major)) for major in (18, 14, 15, 16, 17)], 3))
def test_what_the_startup_callback_refuses(major: int) -> None:
    with Server(major, dbname=DBNAME, test_decoding=False) as server:
        server.sql("SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
        for options in REFUSED:
            plugin = PgOutput()
            plugin.context.slot = "s"
            with pytest.raises(TailraceError) as raised:
                start_up(plugin, options, major)
            error = raised.value
            assert (error.sqlstate, error.message, error.context) == their_error(server, "s", options), options


@pytest.mark.parametrize("major", some_of([pytest.param(major, id=str(major)) for major in (18, 14, 16)], 3))
def test_a_type_without_a_send_function_is_refused_at_its_first_value(major: int) -> None:
    """An array has one, whatever its element has; of NULLs nobody asks the element's."""
    options = {**PLAIN, "binary": "on"}
    with Server(major, dbname=DBNAME, test_decoding=False) as server:
        server.say(
            "CREATE TYPE pair AS (a int, b aclitem)",
            "CREATE TABLE t (id int, acl aclitem[], twin pair)",
            f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES",
            "CHECKPOINT",
        )
        start = str(server.value("SELECT lsn FROM pg_create_logical_replication_slot('s', 'pgoutput')"))
        server.say("INSERT INTO t VALUES (1, NULL, NULL), (2, NULL, (1, NULL))")
        told = theirs(server, "s", options)
        upto = server.flush_lsn()
        server.say("INSERT INTO t VALUES (3, NULL, NULL), (4, '{NULL}', NULL)")
        refused = their_error(server, "s", options)
        server.stop()
        check_same(ours(server.data_dir, options, start_lsn=start, upto_lsn=Lsn.parse(upto), major=major), told, f"{major}")
        with pytest.raises(TailraceError) as raised:
            ours(server.data_dir, options, start_lsn=start, major=major)
    assert (raised.value.sqlstate, raised.value.message) == refused[:2]
