"""What all clients of a server share."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tailrace.server.instance import Instance


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("failover slots are not supported", "failover slots are not supported"),
        ('state location "slots" is served already', 'state location "the state location" is served already'),
        ('could not open "slots/marks/1"', 'could not open "marks/1"'),
        (f"could not open {Path.cwd()}/slots/marks/1", "could not open marks/1"),
        ('could not open directory "/data/app"', 'could not open directory "the source"'),
    ],
)
def test_a_client_does_not_learn_where_files_are(said: str, told: str) -> None:
    """And a word of a message is no path, though the state location has that name."""
    server: Any = SimpleNamespace(settings=SimpleNamespace(source="/data/app", state=Path("slots")))
    assert Instance.without_paths(server, {"M": said}) == {"M": told}
