"""A subscriber with origin = none is warned of a publisher that has its tables from others, as it would be of that server itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import psycopg
import pytest

from server.test_initial_copies import MAJORS
from support.served import Served
from support.servers import Server

pytestmark = pytest.mark.postgres
PAIRS = [
    pytest.param(subscriber, source, marks=[] if source == 18 else pytest.mark.matrix)
    for subscriber in MAJORS
    for source in MAJORS
    if subscriber > 15
]
TABLES = (
    "CREATE TABLE own (id int PRIMARY KEY)", "CREATE TABLE foreign_rows (id int PRIMARY KEY)",
    "CREATE TABLE part (id int PRIMARY KEY) PARTITION BY RANGE (id)", "CREATE TABLE part1 PARTITION OF part FOR VALUES FROM (0) TO (10)",
    "CREATE TABLE leaf (id int PRIMARY KEY) PARTITION BY RANGE (id)", "CREATE TABLE leaf1 PARTITION OF leaf FOR VALUES FROM (0) TO (10)",
)  # fmt: skip
PUBLICATIONS = (
    "CREATE PUBLICATION own FOR TABLE own", "CREATE PUBLICATION rows FOR TABLE own, foreign_rows",
    "CREATE PUBLICATION root FOR TABLE part WITH (publish_via_partition_root)", "CREATE PUBLICATION leaves FOR TABLE leaf",
    "CREATE PUBLICATION from_elsewhere FOR TABLE foreign_rows, part1, leaf WITH (publish_via_partition_root)",
)  # fmt: skip
ELSEWHERE = "CREATE SUBSCRIPTION elsewhere CONNECTION '{}' PUBLICATION from_elsewhere WITH (create_slot = false, enabled = false, slot_name = NONE)"
"""It begins nothing, and its tables are known: the publisher may be the subscriber itself."""


@pytest.mark.parametrize(("of_subscriber", "of_source"), PAIRS)
def test_a_publisher_that_subscribes(of_subscriber: int, of_source: int, tmp_path: Path) -> None:
    with Server(of_source) as source, Server(of_subscriber) as subscriber:
        source.say(*TABLES, *PUBLICATIONS)
        with Served(source.dsn(), tmp_path / "state") as served:
            told = {}
            for name, publisher in (("ours", served.dsn()), ("theirs", source.dsn())):
                subscriber.say(f"CREATE DATABASE {name}")
                with psycopg.connect(subscriber.dsn(), dbname=name, autocommit=True) as there:
                    told[name] = _warned(there, source, publisher)
            assert told["ours"] == told["theirs"]
            assert len(told["ours"]) == 3
            assert all("is not tracked" not in line for line in (subscriber.home / "server.log").read_text().splitlines())


def _warned(there: psycopg.Connection[Any], source: Server, publisher: str) -> list[tuple[str | None, ...]]:
    """Of what the subscriber is warned."""
    told: list[tuple[str | None, ...]] = []
    there.add_notice_handler(
        lambda notice: told.append((notice.sqlstate, notice.message_primary, notice.message_detail, notice.message_hint))
    )
    for statement in TABLES:
        there.execute(statement.encode())
    name = there.info.dbname
    create = f"CREATE SUBSCRIPTION {name} CONNECTION '{publisher}' PUBLICATION {{}} WITH (origin = none)"
    there.execute(create.format("own, rows, root, leaves").encode())  # nobody else has them yet
    there.execute(f"DROP SUBSCRIPTION {name}".encode())
    source.say(ELSEWHERE.format(source.dsn()))
    for publications in ("own", "own, rows, root, leaves"):
        there.execute(create.format(publications).encode())
        there.execute(f"DROP SUBSCRIPTION {name}".encode())
    there.execute(create.format("own").encode())
    there.execute(f"ALTER SUBSCRIPTION {name} SET PUBLICATION own, rows".encode())
    there.execute(f"ALTER SUBSCRIPTION {name} ADD PUBLICATION root".encode())  # what it has already is not warned of again
    there.execute(f"DROP SUBSCRIPTION {name}".encode())
    source.say("DROP SUBSCRIPTION elsewhere")
    return [tuple(text and _in_order(text.replace(name, "s")) for text in texts) for state, *texts in told if state != "00000"]


def _in_order(text: str) -> str:
    """Publications that DISTINCT gives in any order."""
    return re.sub(r"\(.*\)", lambda found: str(sorted(found[0][1:-1].split(", "))), text)


def test_what_is_known_of_the_past(tmp_path: Path) -> None:
    """Of what is now the server is asked; what was then nobody has kept."""
    with Server(18) as source:
        source.say(*TABLES, *PUBLICATIONS, ELSEWHERE.format(source.dsn()))
        query = b"SELECT srrelid::regclass::text, srsubstate::text, srsublsn FROM pg_subscription_rel ORDER BY 1"
        with Served(source.dsn(), tmp_path / "state") as served, served.connect() as here, source.connect() as there:
            told: list[str | None] = []
            here.add_notice_handler(lambda notice: told.append(notice.message_primary))
            rows = here.execute(query).fetchall()
            assert rows == there.execute(query).fetchall()
            assert len(rows) == 3
            assert told == []
            here.execute(f"SET tailrace.as_of = '{source.value('SELECT pg_current_wal_lsn()')}'".encode())
            assert here.execute(query).fetchall() == []
            assert told == ["pg_subscription_rel is not tracked: no rows of it are known here"]
