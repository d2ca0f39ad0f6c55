"""Where the log ends is what the server says, however the log has grown since somebody asked, and is not read again for who asks next."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.servers import Server
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, followed_end
from tailrace.pipeline.followed_end import FollowedEnd

pytestmark = pytest.mark.postgres


def _runner(size: int) -> LocalRunner:
    return LocalRunner(1)


def test_it_is_where_the_server_is(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def counted(segments: object, runner: object, start: Lsn) -> Iterator[object]:
        read.append(start)
        return scanned(segments, runner, start)  # type: ignore[arg-type]

    scanned = followed_end.scanned  # type: ignore[attr-defined]
    monkeypatch.setattr(followed_end, "scanned", counted)
    with Server(18) as server:
        end = FollowedEnd(server.data_dir)

        def check() -> None:
            assert end.find(_runner) == Lsn.parse(server.flush_lsn())

        server.say("CREATE TABLE t (id int, v text)")
        check()
        for statement in (
            "INSERT INTO t VALUES (1, 'x')", "SELECT pg_switch_wal()", "INSERT INTO t VALUES (2, 'y')",
            "INSERT INTO t SELECT i, repeat('z', 500) FROM generate_series(1, 6000) i", "CHECKPOINT",
        ):  # fmt: skip
            server.say(statement)
            check()
        assert sorted(read) == read  # from the last record on that was known
        server.stop()
        stopped = end.find(_runner)
        assert [end.find(_runner) for _ in range(20)] == [stopped] * 20
        assert stopped == FollowedEnd(server.data_dir).find(_runner)
        server.start()
        server.say("INSERT INTO t VALUES (3, 'x')")
        check()
