"""Sessions of PostgreSQL's own regression scripts of test_decoding, written anew: each call of a slot says what the server says.

The stories in `tests/stories/slots` are named as the scripts are whose subjects they have (`contrib/test_decoding/sql`). Tables are changed by psql;
calls of slots, and what is printed of them, errors included, are psql's on one side and `tailrace sql`'s on the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.both_sides import BothSides, Told, comparable
from support.servers import Server
from support.stories import STORIES, parse

pytestmark = pytest.mark.postgres
MAJORS = [pytest.param(16), *(pytest.param(each, marks=pytest.mark.matrix) for each in (14, 15, 17, 18))]
NAMES = sorted(path.stem for path in (STORIES / "slots").glob("*.sql"))


@pytest.fixture(scope="module", params=MAJORS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server(request.param, {"max_replication_slots": 10}) as made:
        made.sql("CREATE DATABASE other")
        yield made


@pytest.mark.parametrize("name", NAMES)
def test_session(name: str, server: Server, tmp_path: Path) -> None:
    steps = list(parse((STORIES / "slots" / f"{name}.sql").read_text()))
    compared, different = 0, []
    with BothSides(server, tmp_path / "state") as sides:
        for told in sides.tell(steps):
            assert told.failed == told.step.fails, f"line {told.step.line}: {told.step.sql}: {told.theirs}"
            if told.ours is None:
                continue
            compared += 1
            if not _is_same(told):
                different.append(f"{name}:{told.step.line}: {told.step.sql}\ntheirs: {told.theirs}\nours:   {told.ours}")
    assert different == [], "\n".join(["", *different])
    assert compared > 3


def _is_same(told: Told) -> bool:
    assert told.ours is not None
    if told.step.refused:
        return told.ours.startswith(f"ERROR:  {told.step.refused}: ")
    return comparable(told.step, told.ours) == comparable(told.step, told.theirs)
