"""Streams of one kind are sent what one of them had decoded: the same as each would be sent alone."""

from __future__ import annotations

import asyncio
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from support.raw_client import RawClient
from support.raw_stream import WHO, RawStream
from support.served import Served
from support.servers import Server
from tailrace.errors import UsageError
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner
from tailrace.plugins import printing
from tailrace.plugins.output_plugin import PluginWarning
from tailrace.plugins.test_decoding import TestDecoding
from tailrace.replication.slot_location import SlotLocation
from tailrace.server import shared_windows
from tailrace.server.instance import Instance
from tailrace.server.plugin_warnings import tell_warnings
from tailrace.server.server import SlotServer
from tailrace.server.settings import ServerSettings
from tailrace.server.shared_windows import Begin, Frame, SharedWindow, SharedWindows
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


def _frames(count: int, made: list[int], size: int = 10, *, fails: bool = False, warns: int = -1) -> Iterator[Frame]:
    for number in range(count):
        made.append(number)
        yield memoryview(bytes(size)), Lsn(number)
        if number == warns:
            warnings.warn("a column is left out", PluginWarning, stacklevel=1)
    if fails:
        raise UsageError("a change cannot be printed")


def _begin(*given: Any, **how: Any) -> Begin:
    return lambda: (TestDecoding(), _frames(*given, **how))


def test_it_is_made_once_whoever_is_slow() -> None:
    async def run() -> None:
        made: list[int] = []
        windows = SharedWindows(_in_thread)
        opened = [windows.open("a", _begin(50, made)) for _ in range(3)]
        assert opened[0] is opened[1] is opened[2]
        slow = asyncio.create_task(_read(opened[0], 0.01))
        quick = await asyncio.gather(_read(opened[1]), _read(opened[2]))
        assert not slow.done()
        assert quick[0] == quick[1] == await slow
        assert made == list(range(50))
        assert opened[0].is_whole
        assert windows.open("a", _begin(1, made)) is opened[0]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("most", "frames", "how"),
    [(100, 11, {}), (1000, 20, {"fails": True}), (1000, 6, {"warns": 4})],
    ids=["large", "fails", "warns"],
)
def test_what_cannot_be_shared_says_so(most: int, frames: int, how: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_windows, "MOST_OF_A_WINDOW", most)

    async def run() -> None:
        window = SharedWindows(_in_thread).open("a", _begin(20, [], **how))
        assert len(await _read(window)) == frames
        assert (window.is_ended, window.is_whole) == (True, False)

    with warnings.catch_warnings():
        tell_warnings()
        asyncio.run(run())


def test_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_windows, "MOST_BYTES", 250)

    async def run() -> None:
        made: list[int] = []
        windows = SharedWindows(_in_thread)
        for key in "abc":
            await _read(windows.open(key, _begin(10, made)))
        await asyncio.sleep(0.05)
        await _read(windows.open("a", _begin(10, made)))
        assert len(made) == 40
        await _read(windows.open("c", _begin(10, made)))
        assert len(made) == 40

    asyncio.run(run())


class _Here:
    """A server in a thread of this process, whose modules a test may change."""

    def __init__(self, source: Path, state: Path) -> None:
        self._instance = Instance(ServerSettings(source=source, state=state, port=0), lambda _: LocalRunner(1))
        SlotLocation.open_or_create(state, self._instance.system)
        self._started, self._loop = threading.Event(), asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))

    async def _serve(self) -> None:
        server, self._ends = SlotServer(self._instance), asyncio.Event()
        await server.start()
        self.port = server.port
        self._started.set()
        await self._ends.wait()
        assert await server.stop()

    def kinds(self) -> list[str]:
        """Of the streams that there are."""
        return [client.kind for client in self._instance.clients if client.stream is not None]

    def __enter__(self) -> _Here:
        self._thread.start()
        assert self._started.wait(20)
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._ends.set)
        self._thread.join(30)
        self._loop.close()


@pytest.mark.postgres
@pytest.mark.parametrize("most", [0, 30_000, 1 << 30])
def test_a_window_that_is_too_large_is_told_to_its_end(most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its second part as the first: what a plugin remembers of what others made is none of its own."""
    monkeypatch.setattr(shared_windows, "MOST_OF_A_WINDOW", most)
    monkeypatch.setattr(printing, "_PRINTED_AT_ONCE", 2000)
    options = " (proto_version '1', publication_names 'p')"
    tables = [f"t{number}" for number in range(6)]
    with Server(18) as server, warnings.catch_warnings(), _Here(server.data_dir, tmp_path / "state") as here:
        server.say(*(f"CREATE TABLE {table} (id int PRIMARY KEY)" for table in tables), "CREATE PUBLICATION p FOR ALL TABLES")
        with RawClient(here.port, **WHO) as client:
            for number in range(4):
                client.query(f"CREATE_REPLICATION_SLOT s{number} LOGICAL pgoutput (SNAPSHOT 'nothing')")
        inserts = "; ".join(f"INSERT INTO {table} SELECT generate_series(1, 300)" for table in tables)
        server.say(f"BEGIN; {inserts}; COMMIT")
        count = 2 + len(tables) * 301  # Begin, Commit; and of each table a Relation, and its rows
        told: list[list[bytes]] = [[] for _ in range(4)]

        def read(numbers: Sequence[int]) -> None:
            with ExitStack() as held:  # streams that wait for each other to be there
                streams = [held.enter_context(RawStream(here, f"s{number}", plugin_options=options)) for number in numbers]
                for number, stream in zip(numbers, streams, strict=True):
                    told[number] = [each.payload for each in stream.data(count)]

        read([0])
        read([1, 2, 3])
    assert [len(each) for each in told] == [count] * 4
    assert told[0] == told[1] == told[2] == told[3]


@pytest.mark.postgres
def test_slots_that_began_apart_share(tmp_path: Path) -> None:
    """As those of subscriptions do: each has confirmed something else, and all may be sent the same frames."""
    options = " (proto_version '4', streaming 'parallel', publication_names 'p')"
    with Server(18) as server, _Here(server.data_dir, tmp_path / "state") as here:
        server.say("CREATE TABLE t (id int PRIMARY KEY)", "CREATE PUBLICATION p FOR ALL TABLES")
        with RawClient(here.port, **WHO) as client:
            for number in range(3):
                client.query(f"CREATE_REPLICATION_SLOT s{number} LOGICAL pgoutput (SNAPSHOT 'nothing')")
                server.say("CREATE TABLE u (); DROP TABLE u")
        with ExitStack() as held:
            streams = [held.enter_context(RawStream(here, f"s{number}", plugin_options=options)) for number in range(3)]
            server.say("INSERT INTO t SELECT generate_series(1, 300)")
            told = [[each.payload for each in stream.data(303)] for stream in streams]
            kinds = here.kinds()
    assert told[0] == told[1] == told[2]
    assert len(kinds) == 3
    assert len(set(kinds)) == 1
    assert kinds[0]


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
