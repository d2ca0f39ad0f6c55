"""What a piece of work takes: wall and CPU seconds of every process involved, and the peak memory of each kind of process."""

from __future__ import annotations

import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import psutil

_EVERY = 0.05


class Counted(NamedTuple):
    """What was counted, and the CPU seconds of a part of the work, where that part is what is asked about."""

    count: int
    part: float


@dataclass(slots=True)
class Measure:
    """Seconds, peak resident bytes by kind of process (driver, jvm, worker, server, client), what was counted, and `part` as in `Counted`."""

    wall: float
    cpu: float
    peak: dict[str, int]
    count: int = 0
    part: float = 0.0


class Watch:
    """Samples process trees while work runs. Processes that end keep their last reading."""

    def __init__(self, roots: Sequence[int], kind_of: Callable[[psutil.Process], str], *, children: bool = True) -> None:
        self._roots = roots
        self._children = children
        self._kind_of = kind_of
        self._begin: dict[int, float] = {}
        self._cpu: dict[int, float] = {}
        self._kinds: dict[tuple[int, str], str] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self.peak: dict[str, int] = {}

    def __enter__(self) -> Watch:
        self._sample(first=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._sample()

    @property
    def cpu(self) -> float:
        return sum(last - self._begin.get(pid, 0.0) for pid, last in self._cpu.items())

    def _loop(self) -> None:
        while not self._stop.wait(_EVERY):
            self._sample()

    def _sample(self, *, first: bool = False) -> None:
        for process in self._processes():
            try:
                times, memory = process.cpu_times(), process.memory_info().rss
                # A process that a shell starts is a shell first.
                known = process.pid, process.name()
                kind = self._kinds.get(known) or self._kinds.setdefault(known, self._kind_of(process))
            except psutil.Error:
                continue
            self.peak[kind] = max(self.peak.get(kind, 0), memory)
            self._cpu[process.pid] = times.user + times.system
            if first:
                self._begin[process.pid] = self._cpu[process.pid]

    def _processes(self) -> list[psutil.Process]:
        found = []
        for root in self._roots:
            try:
                process = psutil.Process(root)
                found += [process, *(process.children(recursive=True) if self._children else ())]
            except psutil.Error:
                continue
        return found


def measured(
    work: Callable[[], int | Counted], roots: Sequence[int], kind_of: Callable[[psutil.Process], str], *, children: bool = True
) -> Measure:
    """Run it once."""
    with Watch(roots, kind_of, children=children) as watch:
        started = time.monotonic()
        found = work()
        wall = time.monotonic() - started
    counted = found if isinstance(found, Counted) else Counted(found, 0.0)
    return Measure(wall, watch.cpu, watch.peak, *counted)


def median(measures: Sequence[Measure]) -> Measure:
    """Medians of the seconds, the largest of the memory."""
    kinds = {kind for each in measures for kind in each.peak}
    return Measure(
        statistics.median(each.wall for each in measures),
        statistics.median(each.cpu for each in measures),
        {kind: max(each.peak.get(kind, 0) for each in measures) for kind in kinds},
        measures[0].count,
        statistics.median(each.part for each in measures),
    )


@dataclass(slots=True)
class Row:
    """A line of the table: who did what where on which workload. `against` is the measure to compare with, `error` why there is none."""

    workload: str
    size: str
    what: str
    where: str
    megabytes: float
    measure: Measure | None
    noun: str = "rows"
    against: Measure | None = None
    error: str = ""
    ours: bool = field(default=True)

    @property
    def ratio(self) -> float | None:
        return self.against.wall / self.measure.wall if self.against and self.measure and not self.measure.part else None

    @property
    def share(self) -> float | None:
        """Of the CPU seconds of what it is compared with, those of the part that was asked about."""
        return self.measure.part / self.against.cpu if self.against and self.measure and self.measure.part else None


def peaks_of(process: subprocess.Popen[Any]) -> dict[int, int]:
    """The most memory that each of its processes has had, in bytes, once it has ended."""
    peaks: dict[int, int] = {}
    while process.poll() is None:
        try:
            for pid in (process.pid, *(child.pid for child in psutil.Process(process.pid).children(recursive=True))):
                lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
                if "VmHWM" in lines:
                    peaks[pid] = int(lines["VmHWM"].split()[0]) << 10
        except (psutil.NoSuchProcess, OSError):
            pass
        time.sleep(0.1)
    return peaks


def children_cpu() -> float:
    """CPU seconds of the processes that this one has started and that have ended."""
    times = psutil.Process().cpu_times()
    return times.children_user + times.children_system
