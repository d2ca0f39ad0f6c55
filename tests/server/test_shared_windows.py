"""Streams of one kind are sent what one of them had decoded: the same as each would be sent alone."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.raw_stream import RawStream
from support.served import Served
from support.servers import Server
from tailrace.errors import UsageError
from tailrace.model import Lsn
from tailrace.plugins.test_decoding import TestDecoding
from tailrace.server import shared_windows
from tailrace.server.shared_windows import Frame, SharedWindow, SharedWindows
from tailrace.wire.stream import XLogData

ROWS = 6_000


async def _in_thread(work: Callable[..., Any], *arguments: Any) -> Any:
    return await asyncio.to_thread(work, *arguments)


async def _read(window: SharedWindow, pause: float = 0) -> list[Frame]:
    found = []
    async for frame in window.read():
        found.append(frame)
        await asyncio.sleep(pause)
    return found


def _frames(count: int, made: list[int], size: int = 10, fails: bool = False) -> Iterator[Frame]:
    for number in range(count):
        made.append(number)
        yield [memoryview(bytes(size))], Lsn(number)
    if fails:
        raise UsageError("a change cannot be printed")


def test_it_is_made_once_whoever_is_slow() -> None:
    async def run() -> None:
        made: list[int] = []
        windows = SharedWindows(_in_thread)
        opened = [windows.open("a", TestDecoding(), _frames(50, made)) for _ in range(3)]
        assert opened[0] is opened[1] is opened[2]
        began = time.monotonic()
        slow = asyncio.create_task(_read(opened[0], 0.01))
        quick = await asyncio.gather(_read(opened[1]), _read(opened[2]))
        assert time.monotonic() - began < 0.4
        assert quick[0] == quick[1] == await slow
        assert made == list(range(50))
        assert opened[0].is_whole
        assert windows.open("a", TestDecoding(), _frames(1, made)) is opened[0]

    asyncio.run(run())


@pytest.mark.parametrize("fails", [False, True])
def test_what_cannot_be_shared_says_so(fails: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_windows, "MOST_OF_A_WINDOW", 1000 if fails else 100)

    async def run() -> None:
        window = SharedWindows(_in_thread).open("a", TestDecoding(), _frames(20, [], fails=fails))
        assert len(await _read(window)) == (20 if fails else 11)
        assert (window.is_ended, window.is_whole) == (True, False)

    asyncio.run(run())


def test_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_windows, "MOST_BYTES", 250)

    async def run() -> None:
        made: list[int] = []
        windows = SharedWindows(_in_thread)
        for key in "abc":
            await _read(windows.open(key, TestDecoding(), _frames(10, made)))
        await asyncio.sleep(0.05)
        await _read(windows.open("a", TestDecoding(), _frames(10, made)))
        assert len(made) == 40
        await _read(windows.open("c", TestDecoding(), _frames(10, made)))
        assert len(made) == 40

    asyncio.run(run())


@pytest.mark.postgres
@pytest.mark.parametrize("plugin", ["pgoutput", pytest.param("test_decoding", marks=pytest.mark.marathon)])
def test_each_is_sent_what_it_would_be_sent_alone(plugin: str, tmp_path: Path) -> None:
    options = " (proto_version '2', publication_names 'p', messages 'on', streaming 'on')" if plugin == "pgoutput" else ""
    with Server(18) as server, Served(server.data_dir, tmp_path / "state") as served:
        server.say(
            "CREATE TABLE t (id int PRIMARY KEY, v text)",
            "CREATE TABLE u (LIKE t INCLUDING ALL)",
            "CREATE PUBLICATION p FOR ALL TABLES",
        )
        with served.connect(replication="database") as client:
            for number in range(5):
                client.execute(f"CREATE_REPLICATION_SLOT s{number} LOGICAL {plugin} (SNAPSHOT 'nothing')".encode())
        server.say(
            f"INSERT INTO t SELECT i, repeat('x', 100) FROM generate_series(1, {ROWS}) i", "ALTER TABLE t ADD w int",
            *(f"INSERT INTO {table} VALUES ({ROWS + number}, 'y')" for number in range(1, 50) for table in "tu"),
        )  # fmt: skip
        results: list[list[tuple[int, bytes]]] = [[] for _ in range(5)]
        later = threading.Event()

        def read(number: int) -> None:
            with RawStream(served, f"s{number}", plugin_options=options) as stream:
                while not results[number] or not _is_last(results[number][-1][1]):
                    message = stream.next()
                    if isinstance(message, XLogData):
                        results[number].append((int(message.start), message.payload))
                    if len(results[number]) > ROWS // 2 and number == 1 and not later.is_set():
                        time.sleep(0.3)  # one that is slow for a while
                        later.set()

        threads = [threading.Thread(target=read, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        server.say("UPDATE t SET v = 'z' WHERE id = 1", "INSERT INTO u VALUES (-1, 'the last')")
        for thread in threads:
            thread.join(60)
        read(4)
        assert len(results[4]) > ROWS
        assert all(result == results[4] for result in results)


def _is_last(payload: bytes) -> bool:
    return b"the last" in payload
