"""Errors under Spark: our message is what stands first, and no traceback."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

from support.cases import open_case
from support.command import Run

pytestmark = pytest.mark.spark
_TRACE = "Traceback"


def _message_of(action: Any) -> str:
    with pytest.raises(Exception, match=r"tailrace\.errors\.") as raised:
        action()
    return str(raised.value)


def _stands_first(text: str, message: str) -> None:
    assert _TRACE not in text
    assert "site-packages" not in text
    before, found, _ = text.partition(message)
    assert found, text
    assert len(before.splitlines()) <= 3, text


def test_where_a_read_is_planned(spark: Any, tmp_path: Path) -> None:
    case = open_case("xact", 16, "with_slot", tmp_path / "case")
    read = spark.read.format("tailrace").option("source", str(case.data_dir)).option("database", "app")
    _stands_first(_message_of(read.load), 'option "table" missing')
    _stands_first(_message_of(read.option("table", "public.nothing").load), 'relation "public.nothing" does not exist')


def test_where_a_task_decodes(spark: Any, tmp_path: Path) -> None:
    """The segment is gone once the read has been planned."""
    case = open_case("xact", 16, "with_slot", tmp_path / "case")
    frame = spark.read.format("tailrace").options(source=str(case.data_dir), database="app", table="public.a").load()
    assert frame.schema
    for path in case.wal_dir.iterdir():
        if path.is_file():
            path.write_bytes(b"\x01" * path.stat().st_size)
    _stands_first(_message_of(frame.collect), "invalid magic number")


def test_where_a_stream_looks_for_news(spark: Any, tmp_path: Path, tailrace: Run) -> None:
    case = open_case("xact", 16, "with_slot", tmp_path / "case")
    state = tmp_path / "state"
    assert tailrace("slot", "create", "s", case.data_dir, "--database", "app", "--state", state, "--on", "local") == (0, ANY, "")
    stream = spark.readStream.format("tailrace").options(state=str(state), slot="s", tables="public.a").load()
    for path in case.wal_dir.iterdir():
        if path.is_file():
            path.unlink()

    def run() -> None:
        query = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "at")).start()
        try:
            query.awaitTermination(120)
        finally:
            query.stop()

    _stands_first(_message_of(run), "no WAL segments in")
