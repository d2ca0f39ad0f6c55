"""A log that somebody receives while it is read: it is gone over twice, and is the same both times."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.decoding import text_of
from support.load import loaded
from support.servers import Server
from support.waiting import until
from tailrace.client.receiver import Receiver, received_upto
from tailrace.client.reception import receiving
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, open_pipeline
from tailrace.pipeline.capture_live import capture_live
from tailrace.storage.begun_segment import as_written
from tailrace.storage.segment_files import arrange
from tailrace.storage.segments import segment_name

pytestmark = pytest.mark.postgres


def test_what_comes_meanwhile_is_left_for_another_time(tmp_path: Path) -> None:
    with Server(18, {"wal_keep_size": "200MB"}, dbname="app") as server:
        server.say("CREATE TABLE t (id serial PRIMARY KEY, v text)", "CHECKPOINT")
        with receiving(Receiver(server.dsn(), tmp_path, begin=Lsn.parse(server.flush_lsn()))), loaded(server):
            until(lambda: bool(received_upto(tmp_path)))
            server.checkpoint()
            state, _ = capture_live(server.dsn(), "app", tmp_path, LocalRunner(1), print)
            shown = [text_of(open_pipeline(tmp_path, "app", catalog=state), {}) for _ in range(5)]
        for before, after in zip(shown, shown[1:], strict=False):
            assert after.startswith(before)
        assert len(shown[0]) < len(shown[-1])


def test_a_segment_that_becomes_whole_meanwhile(tmp_path: Path) -> None:
    with Server(18, {"wal_keep_size": "200MB"}) as server:
        server.say("CREATE TABLE t AS SELECT 1 AS id")
        end = Lsn.parse(server.flush_lsn())
        Receiver(server.dsn(), tmp_path, begin=end, upto=end, retries=False).run()
        listed = arrange(tmp_path)
        number = end // listed.segment_size
        then = as_written(listed)
        begun = tmp_path / f"{segment_name(1, number, listed.segment_size)}.partial"
        content = bytearray(begun.read_bytes())
        content[end % listed.segment_size :] = b"\xff" * (listed.segment_size - end % listed.segment_size)
        begun.write_bytes(content)
        begun.rename(begun.with_suffix(""))
        seen = then.read(number * listed.segment_size, then.stop_lsn)
        assert seen.base + seen.raw <= end + 8192
        assert not seen.buf[end % listed.segment_size : seen.raw].any()
        assert not as_written(listed).by_number[number].partial


def test_what_was_committed_before_the_capture_nobody_misses(tmp_path: Path) -> None:
    """Though it lies in the stretch with which reading begins."""
    with Server(18, {"wal_keep_size": "200MB"}, dbname="app") as server:
        server.say("CREATE TABLE t (id int)")
        with receiving(Receiver(server.dsn(), tmp_path, begin=Lsn.parse(server.flush_lsn()))) as reception:
            reception.wait(Lsn.parse(server.flush_lsn()))
            server.say("CHECKPOINT", "INSERT INTO t VALUES (1)")
            state, _ = capture_live(server.dsn(), "app", tmp_path, LocalRunner(1), print)
            server.say("INSERT INTO t VALUES (2)")
            reception.wait(Lsn.parse(server.flush_lsn()))
        pipeline = open_pipeline(tmp_path, "app", catalog=state)
        assert ("id[integer]:2" in text_of(pipeline, {}), pipeline.warning) == (True, "")
