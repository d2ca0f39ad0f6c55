"""Of a DataFrame, a plugin is started up and shut down where it is called: where the windows are planned, and in each window's worker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Lock

import pytest
from pyspark.sql.types import StructType

from support.cases import open_case
from support.tracing import CALLS, TracingRequired
from tailrace.plugins.callbacks import Context, OutputOptions
from tailrace.plugins.registry import register_plugin
from tailrace.spark.datasource import PrintedReader, TailraceSource


class Opening(TracingRequired):
    """Has something that cannot be sent anywhere."""

    def startup(self, ctx: Context, options: OutputOptions, is_init: bool) -> None:
        super().startup(ctx, options, is_init)
        self.opened = Lock()


@pytest.fixture
def read(tmp_path: Path) -> Iterator[tuple[PrintedReader, list[str]]]:
    """A reader of small windows, and what was called where it was planned."""
    register_plugin("opening", Opening)
    case = open_case("xact", 18, "with_slot", tmp_path)
    wanted = {"source": str(case.data_dir), "database": "app", "startLsn": case.meta["start_lsn"], "window": "16kB"}
    CALLS.clear()
    reader = TailraceSource({**wanted, "plugin": "opening", "plugin.a": "1"}).reader(StructType())
    assert isinstance(reader, PrintedReader)
    planned = list(CALLS)
    CALLS.clear()
    yield reader, planned
    CALLS.clear()


STARTUP = "startup is_init=false options: a=1"


def test_each_window_is_one_life_of_the_plugin(read: tuple[PrintedReader, list[str]]) -> None:
    reader, planned = read
    assert planned == [STARTUP, "shutdown"]
    partitions = reader.partitions()
    assert len(partitions) > 1
    for partition in partitions:
        CALLS.clear()
        rows = [data for batch in reader.read(partition) for data in batch.column("data").to_pylist()]
        assert [STARTUP, *rows, "shutdown"] == CALLS


def test_so_is_one_of_which_not_all_is_asked_for(read: tuple[PrintedReader, list[str]]) -> None:
    reader, _ = read
    partition = next(each for each in reader.partitions() if any(len(batch) for batch in reader.read(each)))
    CALLS.clear()
    rows = reader.read(partition)
    assert isinstance(rows, Iterator)
    next(rows)
    rows.close()  # type: ignore[attr-defined]
    assert (CALLS[0], CALLS[-1]) == (STARTUP, "shutdown")
