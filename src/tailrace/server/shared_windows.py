"""Windows that several streams are given: one of them has a window decoded, and the others send the same frames.

Streams of one database with the same plugin, options and parameters, which stand at the same position and remember the same, are sent the same.
So a window is decoded once, whole, into memory that is bounded, and each stream takes it from there at its own pace: who is slow holds back
nobody, and who comes later finds it for a while. It is made by a plugin of its own, so that the streams' stay as they were. Where it cannot be
shared, since it is too large, or a change of it fails or is warned of, each stream decodes for itself what it has not been given yet: errors and
warnings are each client's own.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any

import numpy as np

from tailrace.errors import TailraceError
from tailrace.model import Lsn
from tailrace.pipeline.pipeline import Pipeline
from tailrace.plugins.output_plugin import OutputPlugin
from tailrace.plugins.registry import OURS
from tailrace.server.plugin_warnings import HEARS
from tailrace.slots.slot import Slot

MOST_BYTES, MOST_OF_A_WINDOW = 256 << 20, 48 << 20
"""How much is kept, of all windows and of one. A frame may be as large as its row."""
Frame = tuple[memoryview, Lsn]
"""CopyData messages, some MB of them, and where a client is that has them."""
Begin = Callable[[], tuple[OutputPlugin, Iterator[Frame]]]
"""Gives a plugin that nobody else has, which remembers what those of the streams do, and the frames that it makes of a window."""
InThread = Callable[..., Awaitable[Any]]
BEGINS = "begins"
"""The kind of a stream of which nobody knows it yet: it may be that of any."""


class SharedWindow:
    """State: the frames so far; whether all are there (`is_whole`), or there will be no more (`is_ended`)."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.size = 0
        self.is_whole = self.is_ended = False
        self.memory: Mapping[str, Any] = {}
        """What the plugin remembers behind it."""
        self.readers = 0
        self._changed = asyncio.Event()

    def add(self, frame: Frame) -> None:
        self.frames.append(frame)
        self.size += len(frame[0])
        self._tell()

    def end(self, memory: Mapping[str, Any] | None) -> None:
        """No more comes; with a memory it is whole."""
        self.is_ended, self.is_whole = True, memory is not None
        self.memory = memory or {}
        self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def read(self) -> AsyncIterator[Frame]:
        """As they come."""
        at = 0
        self.readers += 1
        try:
            while True:
                while at < len(self.frames):
                    at += 1
                    yield self.frames[at - 1]
                if self.is_ended:
                    return
                await self._changed.wait()
        finally:
            self.readers -= 1


class SharedWindows:
    """Those of a server, by what decides what is in them."""

    def __init__(self, in_thread: InThread) -> None:
        self._in_thread = in_thread
        self._windows: OrderedDict[str, SharedWindow] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()

    def open(self, key: str, begin: Begin) -> SharedWindow:
        """The window; if nobody has opened it yet, its frames are made from now on."""
        if (found := self._windows.get(key)) is not None:
            self._windows.move_to_end(key)
            return found
        window = self._windows[key] = SharedWindow()
        task = asyncio.create_task(self._make(window, begin))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return window

    async def _make(self, window: SharedWindow, begin: Begin) -> None:
        warned: list[str] = []
        HEARS.set(warned.append)
        memory = None
        try:
            plugin, frames = await self._in_thread(begin)
            while (frame := await self._in_thread(next, frames, None)) is not None:
                window.add(frame)
                if warned or window.size > MOST_OF_A_WINDOW:
                    return
            memory = None if warned else dict(plugin.memory)
        except (TailraceError, OSError):  # each stream will meet it, and say so of its own slot
            return
        finally:
            window.end(memory)
            self.forget(MOST_BYTES)

    def forget(self, most: int = 0) -> None:
        """The oldest that nobody reads, while there is more than may be kept."""
        total = sum(each.size for each in self._windows.values())
        for key, each in list(self._windows.items()):
            if total <= most:
                return
            if each.is_ended and not each.readers:
                total -= each.size
                del self._windows[key]


def kind_of_stream(slot: Slot, plugin: OutputPlugin, options: Mapping[str, str | None]) -> str:
    """Equal for streams that may be sent the same; empty for one that may not, since what its plugin remembers is its own, or what is published is
    said in the state location and may change."""
    if plugin.name not in OURS or plugin.context.definitions:
        return ""
    context = plugin.context
    facts = [
        slot.database_oid, plugin.name, sorted({**slot.options, **options}.items()), repr(context.style), context.work_mem,
        context.two_phase and context.two_phase_since,  # a slot has the latter in any case
    ]  # fmt: skip
    return json.dumps(facts)


def key_of_window(kind: str, window: Pipeline, plugin: OutputPlugin) -> str:
    """Equal for windows in which streams of one kind are sent the same: the same transactions and messages, whatever each has confirmed before."""
    plan = window.plan
    commits = hashlib.sha256(np.ascontiguousarray(plan.transactions.commit_lsn[plan.shown]).tobytes()).hexdigest()
    messages = [int(message.lsn) for message in plan.messages]
    return json.dumps([kind, int(window.log.end), commits, messages, plugin.memory], sort_keys=True)
