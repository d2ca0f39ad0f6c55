"""Processes that put objects into one store at the same moment. Each function is for a process pool, whose processes begin each round together."""

from __future__ import annotations

import os
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path

from tailrace.storage.local_store import LocalStore
from tailrace.storage.store import ObjectChanged, Store

_together: list[Barrier] = []


def begin(barrier: Barrier) -> None:
    """Of each process, once."""
    _together.append(barrier)


def put_new(store: Store, rounds: int) -> list[bool]:
    """Whether this process won, of each round."""
    won = []
    for number in range(rounds):
        _together[0].wait(30)
        try:
            store.put_new(f"new/{number}", str(os.getpid()).encode())
            won.append(True)
        except FileExistsError:
            won.append(False)
    return won


def put_over(store: Store, rounds: int) -> list[tuple[bool, str]]:
    """The same for one object, which all have read; and the tag that it got, or had."""
    won = []
    for number in range(rounds):
        _together[0].wait(30)
        _, tag = store.read_tagged("mark")
        _together[0].wait(30)
        try:
            won.append((True, store.put_over("mark", f"{os.getpid()} {number}".encode(), tag)))
        except ObjectChanged:
            won.append((False, tag))
    return won


def count_up(store: Store, times: int) -> None:
    """Add one to a number so many times, with everybody else at it."""
    _together[0].wait(30)
    for _ in range(times):
        while True:
            data, tag = store.read_tagged("count")
            try:
                store.put_over("count", str(int(data) + 1).encode(), tag)
                break
            except ObjectChanged:
                time.sleep(0.001)


def write_for_ever(folder: Path, size: int) -> None:
    """Objects of one letter each, new and in place of others."""
    store, number = LocalStore(folder), 0
    while True:
        data = bytes([97 + number % 26]) * size
        store.put("same", data)
        store.put_new(f"new-{number}", data)
        number += 1
