"""One file of a log: where it lies, what its name says, and its bytes, plain or compressed.

In: where it lies, and its name. Out: bytes. What expands them is imported with the first that is compressed: whoever receives a log has none, and
does not wait for it.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tailrace.dataclass import dataclass
from tailrace.errors import CorruptWal
from tailrace.storage.wal_files import PARTIAL, WalFiles

_CHUNK = 1 << 16
_DAMAGED = (EOFError, zlib.error, ValueError, OSError)
"""What gzip and Arrow raise for what they cannot expand: ArrowInvalid is a ValueError, BadGzipFile an OSError."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One file of the log, by its `name` in the place that it `lies_in`; a `partial` one may be shorter than a segment is. `size` is the
    file's when it was listed, None if it is no regular file.

    Of a segment that a server still writes, the spool has the first `settled` bytes, which no longer change; `filling` is the
    page behind them, as it was when it was copied.
    """

    timeline: int
    number: int
    lies_in: WalFiles
    name: str
    compression: str
    partial: bool
    size: int | None
    settled: int | None = None
    filling: bytes = b""

    @property
    def path(self) -> str:
        """As messages have it; of a directory's file its path."""
        return self.lies_in.named(self.name)

    def completed(self) -> Segment:
        """The segment that this partial one became, under the name that it then has."""
        return replace(self, name=self.name.replace(PARTIAL, ""), partial=False)

    def read(self, most: int = -1) -> bytes:
        """Its bytes, or the first so many. Of a compressed partial one, as much as was written; also if it has been completed
        and renamed."""
        try:
            if not self.compression:
                return self.lies_in.head(self.name, most)
            return self._expanded(most)
        except FileNotFoundError:
            if not self.partial:
                raise
            return self.completed().read(most)

    def _expanded(self, most: int) -> bytes:
        packed = self.lies_in.packed(self.name, most)
        parts: list[bytes] = []
        got = 0
        try:
            with _expander(self.compression)(packed) as stream:
                while (got < most or most < 0) and (part := bytes(stream.read(_CHUNK))):
                    parts.append(part)
                    got += len(part)
        except _DAMAGED as error:
            if isinstance(error, FileNotFoundError):
                raise
            if most >= 0 and isinstance(packed, bytes):  # its beginning was not enough, or is not all of it
                return self._expanded(-1)[:most]
            if not self.partial:
                raise CorruptWal(f'could not decompress WAL segment "{self.path}": {error}', file=self.path) from error
        data = b"".join(parts)
        return data if most < 0 else data[:most]


def in_place(listed: Segment, size: int) -> Segment:
    """A segment whose number was read from its name as if of 16 MB, with that of segments of `size`."""
    return replace(listed, number=(listed.number >> 32) * ((1 << 32) // size) + (listed.number & 0xFFFFFFFF))


def segment_name(timeline: int, number: int, size: int) -> str:
    per = (1 << 32) // size
    return f"{timeline:08X}{number // per:08X}{number % per:08X}"


def _expander(compression: str) -> Callable[[str | bytes], Any]:
    """What opens a file that was compressed so, by its path or its bytes."""
    if compression == ".gz":
        import gzip  # noqa: PLC0415 - see the module

        return lambda packed: gzip.open(packed if isinstance(packed, str) else io.BytesIO(packed))
    import pyarrow as pa  # noqa: PLC0415

    codec = {".zst": "zstd", ".lz4": "lz4"}[compression]
    return lambda packed: pa.CompressedInputStream(
        pa.OSFile(packed) if isinstance(packed, str) else pa.BufferReader(packed), codec
    )
