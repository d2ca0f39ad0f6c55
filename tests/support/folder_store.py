"""A store that is a folder, as small as tests of Delta's log need it: the real ones are tested in `tests/storage`."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from tailrace.storage.store import ObjectChanged, StoredObject


@dataclass(frozen=True)
class FolderStore:
    """Counts nothing, keeps nothing: files are where their names say."""

    folder: Path

    @property
    def url(self) -> str:
        return self.folder.name

    def below(self, prefix: str) -> FolderStore:
        return FolderStore(self.folder / prefix)

    def read(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()

    def read_tagged(self, name: str) -> tuple[bytes, str]:
        return self.read(name), self._tag(name)

    def read_range(self, name: str, start: int, length: int) -> bytes:
        with open(self.folder / name, "rb") as file:
            file.seek(start)
            return file.read(length)

    def open(self, name: str) -> pa.NativeFile:
        return pa.OSFile(str(self.folder / name))

    def put(self, name: str, data: bytes) -> str:
        path = self._room(name)
        path.write_bytes(data)
        return self._tag(name)

    def put_file(self, name: str, path: Path) -> None:
        self.put(name, path.read_bytes())

    def put_written(self, name: str, write: Callable[[BinaryIO], object]) -> int:
        with self._room(name).open("wb") as file:
            write(file)
            return file.tell()

    def put_new(self, name: str, data: bytes) -> str:
        path = self._room(name)
        new = path.with_name(f".{uuid.uuid4().hex}")
        new.write_bytes(data)
        try:
            os.link(new, path)
        finally:
            new.unlink()
        return self._tag(name)

    def put_over(self, name: str, data: bytes, tag: str) -> str:
        if self._tag(name) != tag:
            raise ObjectChanged(name)
        return self.put(name, data)

    def list(self, prefix: str = "", after: str = "") -> Iterator[StoredObject]:
        there = (path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*") if path.is_file())
        for name in sorted(there, key=str.encode):
            if name.startswith(prefix) and name.encode() > after.encode():
                status = (self.folder / name).stat()
                yield StoredObject(name, status.st_size, status.st_mtime, self._tag(name))

    def folders(self, prefix: str = "") -> list[str]:
        names = {each.name[len(prefix) :] for each in self.list(prefix)}
        return sorted({name.split("/")[0] for name in names if "/" in name})

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            (self.folder / name).unlink(missing_ok=True)

    def _room(self, name: str) -> Path:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        return self.folder / name

    def _tag(self, name: str) -> str:
        status = (self.folder / name).stat()
        return f"{status.st_ino}-{status.st_mtime_ns}"
