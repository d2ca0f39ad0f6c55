"""Sessions of PostgreSQL's own regression scripts of test_decoding, written anew: each call of a slot says what the server says.

The stories in `tests/stories/slots` are named as the scripts are whose subjects they have (`contrib/test_decoding/sql`). Tables are changed by psql;
calls of slots, and what is printed of them, errors included, are psql's on one side and `tailrace sql`'s on the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.both_sides import BothSides, Told, comparable
from support.sampling import some_of
from support.servers import Server
from support.stories import STORIES, parse

pytestmark = pytest.mark.postgres
NAMES = sorted(path.stem for path in (STORIES / "slots").glob("*.sql"))
TOLD = [
    *some_of([pytest.param(16, name) for name in NAMES[1:] + NAMES[:1]], 4),
    *(
        pytest.param(major, name, marks=pytest.mark.matrix)
        for major in (14, 15, 17, 18)
        for name in NAMES[major % 2 :] + NAMES[: major % 2]
    ),
]
"""Rotated, so that of what runs before a change lands one major has some of the stories, and the next the others."""


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server(request.param, {"max_replication_slots": 10}) as made:
        made.sql("CREATE DATABASE other")
        yield made


@pytest.fixture(autouse=True)
def _no_slots_are_left(server: Server) -> Iterator[None]:
    """Or a story that fails would have others fail."""
    yield
    server.sql("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")


@pytest.mark.parametrize(("server", "name"), TOLD, indirect=["server"])
def test_session(name: str, server: Server, tmp_path: Path) -> None:
    with BothSides(server, tmp_path / "state") as sides:
        _compare(name, sides)


@pytest.mark.soak
@pytest.mark.parametrize("server", [16], indirect=True)
def test_in_a_process_of_its_own(server: Server, tmp_path: Path) -> None:
    with BothSides(server, tmp_path / "state", as_command=True) as sides:
        _compare("binary", sides)


def _compare(name: str, sides: BothSides) -> None:
    compared, different = 0, []
    for told in sides.tell(list(parse((STORIES / "slots" / f"{name}.sql").read_text()))):
        step = told.step
        assert told.failed == step.fails, f"{name}:{step.line}: {step.sql}: {told.theirs}"
        if told.ours is None:
            continue
        compared += 1
        if not _is_same(told):
            different.append(f"{name}:{step.line}: {step.sql}\ntheirs: {told.theirs}\nours:   {told.ours}")
    assert different == [], "\n".join(["", *different])
    assert compared > 5


def _is_same(told: Told) -> bool:
    assert told.ours is not None
    if told.step.refused:
        return told.ours.startswith(f"ERROR:  {told.step.refused}: ")
    return comparable(told.step, told.ours) == comparable(told.step, told.theirs)
