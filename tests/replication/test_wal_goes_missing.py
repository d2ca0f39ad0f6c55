"""WAL that goes missing while a window of it is written, as when somebody cleans up an archive: no line comes twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.acquired import acquired
from support.archives import create_on_archive, receiving, switch_until_whole
from support.decoding import check_equal
from support.servers import Server
from support.slots import theirs
from tailrace.errors import MissingHistory
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner
from tailrace.plugins.test_decoding import TestDecoding
from tailrace.replication.output_file import output_to
from tailrace.replication.receiving import receive_into
from tailrace.replication.slot_location import SlotLocation
from tailrace.replication.waiting import Waiter

pytestmark = pytest.mark.postgres


def test_amid_a_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive, state, file = tmp_path / "archive", tmp_path / "state", tmp_path / "rows"
    with Server(16) as server, receiving(server, archive):
        server.say("CREATE TABLE t (id serial PRIMARY KEY, v text)")
        create_on_archive(server, archive, state)
        for _ in range(8):
            server.say("INSERT INTO t (v) SELECT repeat('x', 80) FROM generate_series(1, 5000)")
        upto = Lsn.parse(switch_until_whole(server, archive))
        expected = "".join(row.split("\t", 2)[2] for row in theirs(server).splitlines(keepends=True))
        away = tmp_path / "away"
        away.mkdir()

        def take_away() -> None:
            for segment in sorted(archive.iterdir())[-6:]:
                segment.rename(away / segment.name)

        def give_back(*_: object) -> None:
            for segment in away.iterdir():
                segment.rename(archive / segment.name)

        monkeypatch.setattr(Waiter, "sleep", give_back)
        with pytest.raises(MissingHistory):
            _receive(state, file, upto, take_away)
        give_back()
        _receive(state, file, upto, lambda: None)
        check_equal(file.read_text(), expected)


def _receive(state: Path, file: Path, upto: Lsn, at_first: Any) -> None:
    with acquired(SlotLocation.open(state), "mine", LocalRunner(1)) as consumer:
        plugin = TestDecoding()
        plugin.startup({}, consumer.major)
        with output_to(str(file), consumer.slot) as writer:
            write, calls = writer.write, [at_first]

            def written(rows: Any) -> None:
                write(rows)
                if calls:
                    calls.pop()()

            writer.write = written  # type: ignore[method-assign]
            receive_into(consumer, plugin, writer, upto=upto)
