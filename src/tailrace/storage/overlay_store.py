"""A store over another, which stays as it is: what is put goes into one of its own, and is what is read from then on.

In: the store that is not to be touched, and one that is empty. Out: a `Store` as if objects had been put, replaced and deleted in the first. So a
lake can be brought along aside, while others write to it: a folder has those objects that it had when it was listed first. It is for one process:
nobody else sees what is put.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from heapq import merge
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from tailrace.dataclass import dataclass
from tailrace.storage.object_names import name_key
from tailrace.storage.store import ObjectChanged, Store, StoredObject


@dataclass(frozen=True, slots=True)
class OverlayStore:
    """`deleted` are names, from the root on, of objects in `under` that count as gone; `listed` are folders, by their names from there, as they
    were listed. `at` is the prefix of this one, empty or ending in `/`."""

    under: Store
    over: Store
    deleted: set[str] = field(default_factory=set)
    listed: dict[str, list[StoredObject]] = field(default_factory=dict)
    at: str = ""

    @property
    def url(self) -> str:
        return self.under.url

    def below(self, prefix: str) -> OverlayStore:
        if not prefix:
            return self
        name = prefix.removesuffix("/")
        return OverlayStore(self.under.below(name), self.over.below(name), self.deleted, self.listed, f"{self.at}{name}/")

    def read(self, name: str) -> bytes:
        return self.read_tagged(name)[0]

    def read_tagged(self, name: str) -> tuple[bytes, str]:
        try:
            return self.over.read_tagged(name)
        except FileNotFoundError:
            return self._there(name).read_tagged(name)

    def read_range(self, name: str, start: int, length: int) -> bytes:
        try:
            return self.over.read_range(name, start, length)
        except FileNotFoundError:
            return self._there(name).read_range(name, start, length)

    def open(self, name: str) -> pa.NativeFile:
        try:
            return self.over.open(name)
        except FileNotFoundError:
            return self._there(name).open(name)

    def put(self, name: str, data: bytes) -> str:
        self.deleted.discard(self.at + name)
        return self.over.put(name, data)

    def put_file(self, name: str, path: Path) -> None:
        self.deleted.discard(self.at + name)
        self.over.put_file(name, path)

    def put_written(self, name: str, write: Callable[[BinaryIO], object]) -> int:
        self.deleted.discard(self.at + name)
        return self.over.put_written(name, write)

    def put_new(self, name: str, data: bytes) -> str:
        if self._has(name):
            raise FileExistsError(name)
        return self.put(name, data)

    def put_over(self, name: str, data: bytes, tag: str) -> str:
        try:
            if self.read_tagged(name)[1] == tag:
                return self.put(name, data)
        except FileNotFoundError:
            pass
        raise ObjectChanged(f"{self.url}/{name} is another than it was")

    def list(self, prefix: str = "", after: str = "") -> Iterator[StoredObject]:
        stored = merge(self.over.list(prefix, after), self._listed(prefix, after), key=lambda each: name_key(each.name))
        last = None
        for each in stored:  # of two with one name, the first is that of `over`
            if each.name != last and self.at + each.name not in self.deleted:
                yield each
            last = each.name

    def folders(self, prefix: str = "") -> Sequence[str]:
        return sorted({*self.over.folders(prefix), *self.under.folders(prefix)}, key=name_key)

    def delete(self, names: Iterable[str]) -> None:
        gone = list(names)
        self.over.delete(gone)
        self.deleted.update(self.at + name for name in gone)

    def _listed(self, prefix: str, after: str) -> Iterator[StoredObject]:
        """What `under` has, in a folder what it had."""
        folder, slash, _ = prefix.rpartition("/")
        if not slash:
            return self.under.list(prefix, after)
        if self.at + folder not in self.listed:
            self.listed[self.at + folder] = list(self.under.list(folder + slash))
        wanted, behind = name_key(prefix), name_key(after)
        there = self.listed[self.at + folder]
        return (each for each in there if name_key(each.name).startswith(wanted) and name_key(each.name) > behind)

    def _has(self, name: str) -> bool:
        return any(each.name == name for each in self.list(name))

    def _there(self, name: str) -> Store:
        if self.at + name in self.deleted:
            raise FileNotFoundError(f"{self.url}/{name}")
        return self.under
