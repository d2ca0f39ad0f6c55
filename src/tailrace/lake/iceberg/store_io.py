"""Files of an Iceberg table by their locations, as its metadata names them, and as pyiceberg writes manifests and lists of them.

A location is the URL of the table's folder, and the file's name in it. Each file is read and written as a whole: they are small.
"""

from __future__ import annotations

import io
from types import TracebackType

from pyiceberg.io import InputFile, OutputFile, OutputStream

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


def read_file(store: Store, location: str) -> bytes:
    """Raises CorruptFile where it is not there."""
    name = name_in(store, location)
    try:
        return store.read(name)
    except FileNotFoundError:
        raise CorruptFile(
            f'file "{location}" of an Iceberg table cannot be read', detail="It is not there.", file=location
        ) from None


class NewFiles:
    """Files that are written for one version of a table."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._written: list[str] = []

    def output(self, location: str) -> OutputFile:
        return _StoredOutput(self.store, self._written, location)

    def abandon(self) -> None:
        """Remove what was written: it is not committed."""
        self.store.delete(self._written)
        self._written.clear()


class _StoredOutput(OutputFile):
    """`written` gets its name in the store."""

    def __init__(self, store: Store, written: list[str], location: str) -> None:
        super().__init__(location)
        self._store, self._written, self._size = store, written, 0

    def __len__(self) -> int:
        return self._size

    def exists(self) -> bool:
        return False  # names are never given twice

    def to_input_file(self) -> InputFile:
        raise NotImplementedError  # nobody reads what is being written

    def create(self, overwrite: bool = False) -> OutputStream:
        return _Written(self)

    def put(self, data: bytes) -> None:
        name = name_in(self._store, self.location)
        self._written.append(name)
        self._store.put(name, data)
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
