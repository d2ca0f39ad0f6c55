"""A log that grows: where it ended before, it goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.servers import Server
from tailrace.model import PAGE_SIZE, Lsn
from tailrace.pipeline import LocalRunner
from tailrace.pipeline.following import FollowedLog
from tailrace.sources.source import Source
from tailrace.storage.segment_files import open_segments
from tailrace.storage.wal_files import PARTIAL
from tailrace.wal.statistics import walk

pytestmark = pytest.mark.postgres
SEGMENT = 1 << 20


@pytest.mark.parametrize("is_switched", [False, True])
def test_a_log_that_ended_with_a_page(is_switched: bool, tmp_path: Path) -> None:
    """In a segment that is zeros from there on: they are not what a switch to another segment leaves, unless there was one."""
    with Server(18, {"wal_keep_size": "64MB"}) as server:
        server.say("CREATE TABLE t (id int, v text)")
        server.say("INSERT INTO t SELECT i, repeat('x', i % 90) FROM generate_series(1, 20000) i")
        server.switch_wal()
        server.say("INSERT INTO t VALUES (0)")
        server.crash()
        segments = open_segments(server.wal_dir)
        lsns = [record.lsn for record in walk(segments, None, None)]
        if is_switched:
            switched = next(
                a for a, b in zip(lsns, lsns[1:], strict=False) if b - a > PAGE_SIZE * 4 and b // SEGMENT > a // SEGMENT
            )
            last, end = switched, Lsn(-(-(switched + 32) // PAGE_SIZE) * PAGE_SIZE)
        else:
            # Behind a record that ends with its page the next one begins behind the next page's short header.
            last, behind = next(
                (a, b) for a, b in zip(lsns, lsns[1:], strict=False) if b % PAGE_SIZE == 24 and b % SEGMENT > PAGE_SIZE
            )
            end = Lsn(behind - 24)
        for number in range(lsns[0] // SEGMENT, end // SEGMENT + 1):
            path = Path(segments.by_number[number].path)
            (tmp_path / path.name).write_bytes(path.read_bytes())
        whole = (tmp_path / path.name).read_bytes()
        following = Path(segments.by_number[number + 1].path)
        partial = tmp_path / (path.name + PARTIAL)
        (tmp_path / path.name).rename(partial)
        partial.write_bytes(whole[: end % SEGMENT].ljust(SEGMENT, b"\0"))
        log = FollowedLog(tmp_path, end, Lsn(lsns[0]), Source.open(tmp_path), last=Lsn(last))
        for _ in range(2):
            found = [part.records for _, part in log.look(LocalRunner(1))]
            assert sum(found) == 0
            assert log.lsn == (Lsn((end // SEGMENT + 1) * SEGMENT) if is_switched else end)
        partial.write_bytes(whole)
        if is_switched:
            partial.rename(tmp_path / path.name)
            (tmp_path / following.name).write_bytes(following.read_bytes())
        assert sum(part.records for _, part in log.look(LocalRunner(1))) == sum(
            lsn > last and lsn // SEGMENT <= (end - 1) // SEGMENT + is_switched for lsn in lsns
        )
