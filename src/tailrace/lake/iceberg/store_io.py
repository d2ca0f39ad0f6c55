"""A store as pyiceberg reads and writes files: its manifests and lists of them, by their locations.

A location is the URL of the table's folder, and the file's name in it. Each file is read and written as a whole: they are small.
"""

from __future__ import annotations

import io
from types import TracebackType

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream

from tailrace.errors import CorruptFile, UnsupportedFile
from tailrace.storage.store import Store


def location_of(store: Store, name: str) -> str:
    return f"{store.url}/{name}"


def name_in(store: Store, location: str) -> str:
    """The name of a file in the table's folder. Raises UnsupportedFile for one that lies elsewhere."""
    plain = location.removeprefix("file://") if store.url.startswith("/") else location
    if not plain.startswith(f"{store.url}/"):
        raise UnsupportedFile(
            f'file "{location}" of an Iceberg table does not lie in its folder "{store.url}"',
            hint="A table that was copied or moved still names its files where they were.", file=location,
        )  # fmt: skip
    return plain.removeprefix(f"{store.url}/")


class StoreIO(FileIO):
    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store
        self.written: list[str] = []
        """Names of what was written by this, to be removed where it is not committed."""

    def new_input(self, location: str) -> InputFile:
        return _StoredInput(self.store, location)

    def new_output(self, location: str) -> OutputFile:
        return _StoredOutput(self, location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self.store.delete([name_in(self.store, location if isinstance(location, str) else location.location)])

    def abandon(self) -> None:
        self.store.delete(self.written)
        self.written.clear()


class _StoredInput(InputFile):
    def __init__(self, store: Store, location: str) -> None:
        super().__init__(location)
        self._store = store

    def __len__(self) -> int:
        return len(self._read())

    def exists(self) -> bool:
        try:
            self._read()
        except CorruptFile:
            return False
        return True

    def open(self, seekable: bool = True) -> InputStream:
        return io.BytesIO(self._read())

    def _read(self) -> bytes:
        name = name_in(self._store, self.location)
        try:
            return self._store.read(name)
        except FileNotFoundError:
            raise CorruptFile(
                f'file "{self.location}" of an Iceberg table cannot be read', detail="It is not there.", file=self.location
            ) from None


class _StoredOutput(OutputFile):
    def __init__(self, of: StoreIO, location: str) -> None:
        super().__init__(location)
        self._of, self._size = of, 0

    def __len__(self) -> int:
        return self._size

    def exists(self) -> bool:
        return False  # names are never given twice

    def to_input_file(self) -> InputFile:
        return _StoredInput(self._of.store, self.location)

    def create(self, overwrite: bool = False) -> OutputStream:
        return _Written(self)

    def put(self, data: bytes) -> None:
        name = name_in(self._of.store, self.location)
        self._of.written.append(name)
        self._of.store.put(name, data)
        self._size = len(data)


class _Written(io.BytesIO):
    """What is written to a file, which is there once this is closed."""

    def __init__(self, output: _StoredOutput) -> None:
        super().__init__()
        self._output = output

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.close()

    def close(self) -> None:
        if not self.closed:
            self._output.put(self.getvalue())
        super().close()
