"""An object of an object store as a file that Arrow reads at any place, by ranges.

The first request brings the end of the object, where Parquet has its footer, and says how long the object is; a small one is there with it. What is
read next is read ahead of, since the chunks of neighbouring columns lie side by side; long stretches come in parts, several at once.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import Any

import obstore
from obstore import exceptions

from tailrace.storage.waited import waited

_END = 1 << 18
_AHEAD = 1 << 20
_PART = 1 << 22
"""Bytes: of the end that come at once, that are read at least, and of a part of a long stretch."""

_ANSWERS_OF_EMPTY = ("status code: 416", "Received non-partial response")
"""What a range of an object without bytes comes to, by server."""


class ObjectFile(io.RawIOBase):
    """State: where the next read begins, and the stretch of the object that was read last, beside its end."""

    def __init__(self, client: Any, path: str, failed: Callable[[Exception], BaseException]) -> None:
        """`failed` makes the error to raise of one of obstore's."""
        super().__init__()
        self._client, self._path, self._failed = client, path, failed
        self._at = 0
        self._length, self._end = self._asked(self._read_end)
        self._ahead: tuple[int, memoryview] = (0, memoryview(b""))

    def size(self) -> int:
        return self._length

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._length}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        rest = max(0, self._length - self._at)
        length = rest if size is None or size < 0 else min(size, rest)
        found = self._stretch(self._at, length)
        self._at += length
        return bytes(found)

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: Any) -> int:
        found = self.read(len(buffer))
        buffer[: len(found)] = found
        return len(found)

    def _stretch(self, start: int, length: int) -> memoryview | bytes:
        for begin, data in (self._ahead, self._end):
            if begin <= start and start + length <= begin + len(data):
                return data[start - begin : start - begin + length]
        if length >= _AHEAD:
            return self._asked(lambda: self._read_long(start, start + length))
        stop = min(self._length, start + _AHEAD)
        data = self._asked(lambda: obstore.get_range(self._client, self._path, start=start, end=stop))
        self._ahead = start, memoryview(data)
        return self._ahead[1][:length]

    def _read_long(self, start: int, stop: int) -> bytes:
        starts = list(range(start, stop, _PART))
        ends = [*starts[1:], stop]
        return b"".join(obstore.get_ranges(self._client, self._path, starts=starts, ends=ends, coalesce=0))

    def _read_end(self) -> tuple[int, tuple[int, memoryview]]:
        try:
            found = obstore.get(self._client, self._path, options={"range": {"suffix": _END}})
            length, (begin, _) = found.meta["size"], found.range
            return length, (begin, memoryview(found.bytes()))
        except (exceptions.BaseError, NotImplementedError) as error:
            has_no_such_ranges = isinstance(error, exceptions.NotSupportedError | NotImplementedError)  # Azure
            if not has_no_such_ranges and not any(each in str(error) for each in _ANSWERS_OF_EMPTY):
                raise
            length = obstore.head(self._client, self._path)["size"]
            begin = max(0, length - _END)
            data = obstore.get_range(self._client, self._path, start=begin, end=length) if length else b""
            return length, (begin, memoryview(data))

    def _asked(self, ask: Callable[[], Any]) -> Any:
        try:
            return waited(ask)
        except (exceptions.BaseError, OSError, NotImplementedError, ValueError) as error:
            raise self._failed(error) from None
