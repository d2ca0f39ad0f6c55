"""A database of 20,000 tables, captured over the connection with each of the privileges that are enough, while tables come and go and catalogs are
rewritten. How long each took is printed (`-s`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.live_capture import GRANT, capture_under_ddl
from support.servers import Server

pytestmark = [pytest.mark.postgres, pytest.mark.marathon]
_TABLES, _AT_ONCE = 20_000, 1000
_ROUNDS = 2
"""How often the catalogs are rewritten, which takes a hundred megabytes of WAL each time, while a state is captured."""
WAYS = {
    "a superuser": ("postgres", ()),
    "REPLICATION, and the grant": ("reader", (GRANT,)),
    "REPLICATION alone": ("reader", (GRANT.replace("GRANT", "REVOKE").replace(" TO ", " FROM "),)),
    "REPLICATION, and no SQL": ("reader", ("REVOKE CONNECT ON DATABASE app FROM PUBLIC",)),
}


def test_with_each_of_the_privileges(tmp_path: Path) -> None:
    with Server(18, {"max_locks_per_transaction": 1024}, dbname="app") as server:
        server.say("CREATE ROLE reader LOGIN REPLICATION", "CREATE SCHEMA many")
        for first in range(0, _TABLES, _AT_ONCE):
            server.say(
                f"DO $$ BEGIN FOR i IN {first}..{first + _AT_ONCE - 1} LOOP "
                "EXECUTE format('CREATE TABLE many.t%s (id int PRIMARY KEY, v text, d date)', i); END LOOP; END $$"
            )
        for number, (way, (role, statements)) in enumerate(WAYS.items()):
            server.say(*statements)
            (home := tmp_path / str(number)).mkdir()
            print(f"{way}: ", end="")
            said = capture_under_ddl(server, f"{server.dsn()} user={role}", home, _ROUNDS)
            assert any("base backup" in line for line in said) is (number >= 2)
            server.say("SELECT pg_drop_replication_slot('theirs')", "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
