"""What a runner has in hand at once."""

from __future__ import annotations

import threading
import time

import pytest

from tailrace.pipeline.runner import HEAVY_WORKERS, LocalRunner


@pytest.mark.parametrize(("workers", "heavy", "most"), [(2, True, 3), (64, True, HEAVY_WORKERS + 1), (64, False, 65)])
def test_results_in_hand_are_few(workers: int, heavy: bool, most: int) -> None:
    """While nobody takes them: on a machine of many cores too."""
    lock, made = threading.Lock(), [0]

    def work(item: int) -> int:
        with lock:
            made[0] += 1
        return item

    results = LocalRunner(workers).run(work, range(200), heavy=heavy)
    assert next(results) == 0
    time.sleep(0.2)
    assert made[0] <= most
    assert list(results) == list(range(1, 200))


@pytest.mark.parametrize(
    ("workers", "log", "stretch"),
    [(2, 1 << 20, 4 << 20), (2, 66 << 20, 8 << 20), (2, 430 << 20, 32 << 20), (2, 2 << 30, 32 << 20), (64, 430 << 20, 4 << 20)],
)
def test_stretches_are_small_enough_that_every_thread_has_some(workers: int, log: int, stretch: int) -> None:
    assert LocalRunner(workers).stretch_bytes(log) == stretch
