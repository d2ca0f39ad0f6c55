"""A store has objects by name, below a prefix: a directory, or a bucket of S3 and its like.

In: names, which are relative and have `/` between their parts, and bytes. Out: bytes, and tags by which an object is known to be unchanged. No store
can rename, so nothing here does: what must be all there or not at all is one object, put at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

import pyarrow as pa

from tailrace.dataclass import dataclass


class ObjectChanged(Exception):  # said to who compares and swaps, never to a user
    """The object is another than the one with the tag that was given, or there is none any more."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """`size` in bytes; `modified` in seconds of Unix's clock, as the store has it."""

    name: str
    size: int
    modified: float
    tag: str


class Store(Protocol):
    """Workers get a store by pickle, credentials included; `url` has none, and is what messages say."""

    @property
    def url(self) -> str: ...

    def below(self, prefix: str) -> Store:
        """The same store, with names that are relative to `prefix`."""
        ...

    def read(self, name: str) -> bytes:
        """Raises FileNotFoundError."""
        ...

    def read_tagged(self, name: str) -> tuple[bytes, str]:
        """The object and its tag. Raises FileNotFoundError."""
        ...

    def read_range(self, name: str, start: int, length: int) -> bytes:
        """Fewer bytes where the object ends. Raises FileNotFoundError."""
        ...

    def open(self, name: str) -> pa.NativeFile:
        """To be read at any place, as Parquet files are. Raises FileNotFoundError."""
        ...

    def put(self, name: str, data: bytes) -> str:
        """Whatever was there; the new tag. It is durable when this returns, as with the other ways to put."""
        ...

    def put_file(self, name: str, path: Path) -> None:
        """The content of a local file, in parts where it is large."""
        ...

    def put_written(self, name: str, write: Callable[[BinaryIO], object]) -> int:
        """What `write` writes, from front to back, and how many bytes that is. Where the store can, it does not stand in memory."""
        ...

    def put_new(self, name: str, data: bytes) -> str:
        """Raises FileExistsError where there is such an object; of those who put it at once, exactly one does not get that."""
        ...

    def put_over(self, name: str, data: bytes, tag: str) -> str:
        """In place of the object with this tag. Raises ObjectChanged where it is another; of those who put at once, all but one get that. `data` is
        to differ from what is there: in S3 the tag is a checksum, and the same content is the same object."""
        ...

    def list(self, prefix: str = "", after: str = "") -> Iterator[StoredObject]:
        """Objects whose names begin with `prefix`, in the order of their names' bytes, those behind the name `after`."""
        ...

    def folders(self, prefix: str = "") -> Sequence[str]:
        """The first parts, behind `prefix` (empty, or ending in `/`), of names that have more than one. A server that keeps
        folders may name one whose objects were deleted."""
        ...

    def delete(self, names: Iterable[str]) -> None:
        """What is not there is passed over."""
        ...
