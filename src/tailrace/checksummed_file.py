"""Arrays and facts as one file's bytes, both directions: what indexes, catalog states, marks and slots are kept in.

A header, then an Arrow IPC file of one row (none, if there are no arrays). Every array is a binary column with its name; the schema's metadata holds,
under the kind of the file, JSON: the facts, and the dtype of each array. Whoever uses this says what the names mean.

Header, 32 bytes, little-endian:

     0   8  "tailrace"
     8   8  the kind of the file, padded with zeros
    16   4  version of its format
    20   4  CRC-32 (zlib's) of the whole file but for these four bytes
    24   8  length of the whole file

Nothing behind the header is looked at before kind, version, length and checksum are right.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.errors import CorruptFile, UnsupportedFile, UsageError
from tailrace.model import Lsn

_HEADER = struct.Struct("<8s8sIIQ")
_MAGIC = b"tailrace"
_CRC_AT = 20
_BEFORE_HEADERS = b"ARROW1"
"""How files began that versions before this header wrote."""
_LAST_LSN = 2**63 - 1

Dtypes = Mapping[str, np.dtype[Any]]
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class FileKind:
    """`key` marks the files, `noun` names them in errors, `hint` says how to get another; `version` is the only one that is read."""

    key: str
    noun: str
    version: int
    compression: str
    hint: str = ""

    def write(self, facts: Mapping[str, Any], arrays: Mapping[str, NDArray]) -> bytes:
        """`facts` must be JSON; arrays of more than one dimension lose their shape."""
        said = {**facts, "dtypes": {name: array.dtype.str for name, array in arrays.items()}}
        batch = pa.record_batch([_one_value(array.tobytes()) for array in arrays.values()], names=list(arrays))
        batch = batch.replace_schema_metadata({self.key: json.dumps(said)})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=self.compression)) as writer:
            writer.write_batch(batch)
        content = sink.getvalue()
        data = bytearray(_HEADER.pack(_MAGIC, self.key.encode(), self.version, 0, _HEADER.size + len(content)))
        data += content
        struct.pack_into("<I", data, _CRC_AT, _checksum(data))
        return bytes(data)

    def read(self, data: bytes, where: str, dtypes: Dtypes) -> tuple[dict[str, Any], dict[str, NDArray]]:
        """Facts, and arrays of exactly these names and dtypes. Raises UnsupportedFile for other files and other versions, CorruptFile for one of ours
        that is not as it was written; `where` names the file."""
        content = self._checked(data, where)
        try:
            table = pa.ipc.open_file(pa.BufferReader(content)).read_all()
            facts = json.loads((table.schema.metadata or {})[self.key.encode()])
            kinds = {name: np.dtype(kind) for name, kind in facts.pop("dtypes").items()}
            if kinds != dict(dtypes) or len(table) != bool(kinds):
                raise self.unsound(where, "other arrays than expected")
            return facts, {name: np.frombuffer(table.column(name)[0].as_py(), kind).copy() for name, kind in kinds.items()}
        except (pa.ArrowException, AttributeError, KeyError, TypeError, ValueError) as error:
            raise self.unsound(where, str(error)) from error

    def read_as(
        self, data: bytes, where: str, dtypes: Dtypes, make: Callable[[dict[str, Any], dict[str, NDArray]], Made]
    ) -> Made:  # fmt: skip
        """What `make` makes of facts and arrays. Raises as `read` does, and CorruptFile where they do not suit it."""
        facts, arrays = self.read(data, where, dtypes)
        try:
            return make(facts, arrays)
        except (AttributeError, KeyError, TypeError, ValueError, UsageError) as error:
            raise self.unsound(where, str(error)) from error

    def is_kind(self, head: bytes) -> bool:
        """Whether a file that begins so says that it is of this kind."""
        return head[: len(_MAGIC)] == _MAGIC and head[len(_MAGIC) : 16].rstrip(b"\0") == self.key.encode()

    def unsound(self, where: str, why: str) -> CorruptFile:
        """The error for a file whose checksum is right and whose content is not."""
        return CorruptFile(f'"{where}" is no sound {self._name}: {why}', hint=self.hint, file=where)

    @property
    def _name(self) -> str:
        return self.noun.split(" ", 1)[1]

    def _checked(self, data: bytes, where: str) -> memoryview:
        """What stands behind the header, once that and the checksum are right."""
        if data[: len(_BEFORE_HEADERS)] == _BEFORE_HEADERS:
            raise UnsupportedFile(
                f'"{where}" is not {self.noun}, or of a format before {self.version}', hint=self.hint, file=where
            )
        if len(data) < _HEADER.size:
            raise UnsupportedFile(f'"{where}" is not {self.noun}: it has only {len(data)} bytes', hint=self.hint, file=where)
        magic, key, version, crc, length = _HEADER.unpack_from(data)
        if magic != _MAGIC or key.rstrip(b"\0") != self.key.encode():
            raise UnsupportedFile(f'"{where}" is not {self.noun}', hint=self.hint, file=where)
        if version != self.version:
            raise UnsupportedFile(
                f'"{where}" is {self.noun} of format {version}, this version reads {self.version}', hint=self.hint, file=where
            )
        if length != len(data):
            raise CorruptFile(f'{self._name} "{where}" has {len(data)} bytes, expected {length}', hint=self.hint, file=where)
        if _checksum(data) != crc:
            raise CorruptFile(f'incorrect checksum in {self._name} "{where}"', hint=self.hint, file=where)
        return memoryview(data)[_HEADER.size :]


def _one_value(value: bytes) -> pa.Array:
    """`pa.array` would import pandas, where that is installed."""
    buffers = [None, pa.py_buffer(np.array([0, len(value)], np.int64)), pa.py_buffer(value)]
    return pa.Array.from_buffers(pa.large_binary(), 1, buffers)


def fact(value: Any, kind: Any) -> Any:
    """A fact that was read, if it is of this kind: bool, int, str, or Lsn. Raises ValueError if not."""
    if kind is Lsn:
        if type(value) is not int or not 0 <= value <= _LAST_LSN:
            raise ValueError(f"{value!r} is no LSN")
        return Lsn(value)
    if type(value) is not kind:
        raise ValueError(f"{value!r} is no {kind.__name__}")
    return value


def _checksum(data: bytes | bytearray) -> int:
    view = memoryview(data)
    return zlib.crc32(view[_CRC_AT + 4 :], zlib.crc32(view[:_CRC_AT]))
