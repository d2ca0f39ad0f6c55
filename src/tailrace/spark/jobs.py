"""The stages as Spark jobs: a `Runner`.

A stage is a pure function over items (paths, ranges, plans: never bytes). Items are shared out among the partitions of a Python data source made
for this job, whose reader calls the function and hands its result back as one binary cell: large cells cross Python and JVM at over a gigabyte a
second, single rows do not. Errors travel back as themselves.
"""

from __future__ import annotations

import pickle
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from itertools import count
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.functions import spark_partition_id

from tailrace.dataclass import dataclass
from tailrace.model import STRETCH_BYTES
from tailrace.spark.pickling import pack, unpack
from tailrace.spark.workers import settle
from tailrace.threads import Threads
from tailrace.window import WindowSize

Item = TypeVar("Item")
Result = TypeVar("Result")

_SCHEMA = "item int, part int, unpacked long, payload binary"
_ARROW_SCHEMA = pa.schema([("item", pa.int32()), ("part", pa.int32()), ("unpacked", pa.int64()), ("payload", pa.binary())])
_CELL = 64 << 20
_LARGE = 1 << 18
_MANY = 1 << 20
HEAVY_WAVE = 4
TASKS_PER_CORE = 3
"""Enough to even out what items take. A task costs some 20 ms of CPU whatever it does, so one item a task would be waste on few cores."""


class _Share(InputPartition):
    """What one task does: packed items, the first of which has this number."""

    def __init__(self, first: int, items: Sequence[bytes]) -> None:
        self.first = first
        self.items = items


class StageReader(DataSourceReader):
    """Runs `work` on each item."""

    def __init__(self, work: bytes, shares: Sequence[_Share]) -> None:
        self._work = work
        self._shares = shares

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_shares": ()}

    def partitions(self) -> Sequence[InputPartition]:
        return self._shares

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        for number, item in enumerate(partition.items, partition.first):
            yield from run_item(self._work, number, item)


class _StageNames:
    """Of stages that run beside each other each has a name of its own: by it Spark finds what was registered last. State: the numbers in use."""

    def __init__(self) -> None:
        self._used, self._lock = set[int](), threading.Lock()

    @contextmanager
    def one(self) -> Iterator[str]:
        with self._lock:
            number = next(each for each in count(1) if each not in self._used)
            self._used.add(number)
        try:
            yield f"tailrace_stage_{number}"
        finally:
            with self._lock:
                self._used.remove(number)


_stage_names = _StageNames()


def _stage_source(named: str, work: bytes, all_shares: Sequence[_Share]) -> type[DataSource]:
    """A data source for one job. The class travels by value, with all that it holds.

    Once a reader is made of it, Spark sends source and reader along with every task; by then neither must hold what others do.
    """

    class Stage(DataSource):
        shares = all_shares

        @classmethod
        def name(cls) -> str:
            return named

        def schema(self) -> str:
            from tailrace.spark.workers import settle  # noqa: PLC0415 - by name

            settle()
            return _SCHEMA

        def reader(self, schema: Any) -> DataSourceReader:
            from tailrace.spark.jobs import StageReader  # noqa: PLC0415 - by name, or it would travel by value as well
            from tailrace.spark.workers import settle  # noqa: PLC0415

            settle()
            shares, type(self).shares = type(self).shares, ()
            return StageReader(work, shares)

    return Stage


def run_item(work: bytes, number: int, item: bytes) -> Iterator[pa.RecordBatch]:
    """One item in a worker: its result (or the error), pickled, in cells that Arrow can carry.

    Between a worker and the driver a byte is copied half a dozen times, so large results are compressed: LZ4 takes less time than the copies.
    """
    try:
        outcome = (True, unpack(work)(unpack(item)))
    except Exception as error:
        outcome = (False, error)
    payload = memoryview(pickle.dumps(outcome, protocol=5))
    del outcome
    settle()
    for part, start in enumerate(range(0, len(payload), _CELL)):
        cell = payload[start : start + _CELL]
        is_large = len(cell) > _LARGE
        packed = pa.compress(cell, codec="lz4_raw") if is_large else pa.py_buffer(cell)
        cells = [
            pa.array([number], pa.int32()),
            pa.array([part], pa.int32()),
            pa.array([len(cell) if is_large else 0], pa.int64()),
            pa.Array.from_buffers(pa.binary(), 1, [None, pa.py_buffer(np.array([0, len(packed)], np.int32)), packed]),
        ]
        yield pa.RecordBatch.from_arrays(cells, schema=_ARROW_SCHEMA)


@dataclass(slots=True)
class SparkRunner:
    """Runs stages on a session, a wave of items a job. While the results of one wave are used, the next is on its way. `known_cores` are those of a
    Connect server, 0 if it has not been asked.

    Waves of `heavy` results are as wide as the cluster or HEAVY_WAVE, whichever is less, so that the driver holds few; other waves are wide, since
    each costs a job.
    """

    spark: SparkSession
    window: WindowSize = field(default_factory=lambda: WindowSize(wal_bytes=1 << 30))
    known_cores: int = 0

    @property
    def cores(self) -> int:
        """How many tasks run at a time, for now: a cluster's executors come after the session has begun, and may come and go.

        A client of Spark Connect has no context to ask. There a range comes in a partition a core, which costs a job, so it is asked once.
        """
        context = getattr(self.spark, "sparkContext", None)
        if context is not None:
            return int(context.defaultParallelism)
        self.known_cores = self.known_cores or _partitions(self.spark.range(_MANY))
        return self.known_cores

    @property
    def workers(self) -> int:
        return self.cores

    @property
    def works_elsewhere(self) -> bool:
        return True

    def stretch_bytes(self, size: int) -> int:
        """Large, whatever the log, since each task costs; still, every core has one."""
        return STRETCH_BYTES

    def run(self, work: Callable[[Item], Result], items: Sequence[Item], *, heavy: bool = False) -> Iterator[Result]:
        wide = self.cores
        wave = min(wide, HEAVY_WAVE) if heavy else max(64, 4 * wide)
        packed = pack(work)
        waves = [items[start : start + wave] for start in range(0, len(items), wave)]
        if not waves:
            return
        with _stage_names.one() as name, Threads(1) as ahead:
            coming = ahead.submit(self._wave, name, packed, waves[0])
            for following in [*waves[1:], None]:
                results = coming.result()
                if following is not None:
                    coming = ahead.submit(self._wave, name, packed, following)
                while results:
                    yield _outcome(results.popleft())

    def _wave(self, name: str, work: bytes, items: Sequence[Any]) -> deque[list[_Cell]]:
        """The cells of each item's result, in the order of the items."""
        share = -(-len(items) // (TASKS_PER_CORE * self.cores))
        packed = [pack(item) for item in items]
        shares = [_Share(first, packed[first : first + share]) for first in range(0, len(items), share)]
        source = _stage_source(name, work, shares)
        self.spark.dataSource.register(source)
        table = self.spark.read.format(source.name()).load().toArrow()
        cells: dict[int, list[_Cell]] = {}
        for item, part, unpacked, payload in zip(*table.columns, strict=True):
            cells.setdefault(item.as_py(), []).append(_Cell(part.as_py(), unpacked.as_py(), payload.as_buffer()))
        return deque(sorted(cells[number], key=lambda cell: cell.part) for number in range(len(items)))


def _partitions(table: Any) -> int:
    return int(table.select(spark_partition_id()).distinct().count())


@dataclass(slots=True)
class _Cell:
    """A part of a pickled result; `unpacked` is its size before compression, 0 if there is none."""

    part: int
    unpacked: int
    payload: pa.Buffer

    def content(self) -> pa.Buffer:
        return pa.decompress(self.payload, self.unpacked, codec="lz4_raw") if self.unpacked else self.payload


def _outcome(cells: list[_Cell]) -> Any:
    """What `run_item` pickled; an error is raised here as it was there."""
    parts = [cell.content() for cell in cells]
    fine, outcome = pickle.loads(parts[0] if len(parts) == 1 else b"".join(parts))
    if not fine:
        raise outcome
    return outcome
