"""Deletion vectors: which rows of a data file are deleted, by their positions in it, in the log or in a file of many.

In and out: positions as a sorted array of int64, and the descriptor that the log has of them (`DeletionVector`). The bitmap is pyroaring's, in the
portable format of 64 bits; what is Delta's own is what stands around it: a magic number, and in a file, per vector, size and checksum. PROTOCOL.md,
"Deletion Vector Format". Of bytes that come from outside, nothing is believed before sizes, checksum and cardinality are right.
"""

from __future__ import annotations

import array
import struct
import uuid
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap64

from tailrace.dataclass import dataclass
from tailrace.delta_log.z85 import format_z85, parse_z85
from tailrace.errors import CorruptFile, UnsupportedFile

Positions = NDArray[np.int64]

_MAGIC = struct.pack("<I", 1681511377)
_VERSION = b"\x01"
_SIZE = _CHECKSUM = struct.Struct(">I")
_INLINE, _IN_FILE, _ABSOLUTE = "i", "u", "p"
_UUID_DIGITS = 20
_MOST_POSITIONS = 2**31 << 32
"""Keys of buckets, the upper halves of positions, are positive as Java sees them."""


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """The descriptor in the log. `offset` is None for a vector that is in the log itself."""

    storage_type: str
    path_or_inline: str
    size_in_bytes: int
    cardinality: int
    offset: int | None = None

    @property
    def unique_id(self) -> str:
        """What tells a file with these rows deleted from the same with others."""
        return f"{self.storage_type}{self.path_or_inline}" + ("" if self.offset is None else f"@{self.offset}")

    @property
    def file_name(self) -> str | None:
        """The file that it lies in, relative to the table; None if it is in the log. Raises UnsupportedFile for one that lies elsewhere, CorruptFile
        if there is no name in it."""
        if self.storage_type == _INLINE:
            return None
        if self.storage_type == _ABSOLUTE:
            raise UnsupportedFile(f'deletion vector "{self.path_or_inline}" does not lie in the table\'s folder')
        prefix, digits = self.path_or_inline[:-_UUID_DIGITS], self.path_or_inline[-_UUID_DIGITS:]
        try:
            return _file_name(prefix, uuid.UUID(bytes=parse_z85(digits)))
        except ValueError:
            raise _invalid(self.path_or_inline, "it names no file") from None

    @property
    def place(self) -> tuple[int, int]:
        """Where it begins in its file, with its size before it, and how many bytes it has there, with its checksum behind it."""
        return self.offset or 0, _SIZE.size + self.size_in_bytes + _CHECKSUM.size

    def positions(self, stored: bytes = b"") -> Positions:
        """The rows that are deleted; `stored` are the bytes at `place`, of a vector that has one. Raises CorruptFile."""
        data = _inline_bytes(self) if self.storage_type == _INLINE else _stored_bytes(self, stored)
        return read_bitmap(data, self.cardinality, self.path_or_inline)

    def as_json(self) -> dict[str, Any]:
        offset = {} if self.offset is None else {"offset": self.offset}
        return {
            "storageType": self.storage_type, "pathOrInlineDv": self.path_or_inline, **offset,
            "sizeInBytes": self.size_in_bytes, "cardinality": self.cardinality,
        }  # fmt: skip

    @classmethod
    def of_json(cls, said: Mapping[str, Any]) -> DeletionVector:
        """Raises KeyError and TypeError for what is none."""
        offset, storage = said.get("offset"), said["storageType"]
        vector = cls(storage, said["pathOrInlineDv"], said["sizeInBytes"], said["cardinality"], offset)
        numbers = (vector.size_in_bytes, vector.cardinality, 0 if offset is None else offset)
        if storage not in (_INLINE, _IN_FILE, _ABSOLUTE) or any(type(number) is not int or number < 0 for number in numbers):
            raise TypeError("deletionVector")
        return vector


def inline_vector(positions: Positions) -> DeletionVector:
    """A vector that stands in the log itself: for few positions, since every reader of the log reads it."""
    data = write_bitmap(positions)
    return DeletionVector(_INLINE, format_z85(data), len(data), len(positions))


def write_vectors(vectors: Iterable[Positions], name: uuid.UUID, prefix: str = "") -> tuple[str, bytes, list[DeletionVector]]:
    """A file of vectors, in their order: its name relative to the table, in the folder `prefix`, its bytes, and what the log says of each."""
    parts, at, described = [_VERSION], len(_VERSION), []
    path = prefix + format_z85(name.bytes)
    for positions in vectors:
        data = write_bitmap(positions)
        described.append(DeletionVector(_IN_FILE, path, len(data), len(positions), at))
        parts += [_SIZE.pack(len(data)), data, _CHECKSUM.pack(zlib.crc32(data))]
        at += _SIZE.size + len(data) + _CHECKSUM.size
    return _file_name(prefix, name), b"".join(parts), described


def read_bitmap(data: bytes, cardinality: int, where: str = "") -> Positions:
    """The positions in a bitmap behind its magic number, so many of them. Raises CorruptFile, with `where` in it."""
    if data[: len(_MAGIC)] != _MAGIC:
        raise _invalid(where, "its magic number is another")
    try:
        # What comes from it is checked by pyroaring: lengths, the order of buckets, containers and values, and how many of each there are.
        bitmap = BitMap64.deserialize(data[len(_MAGIC) :])
    except (ValueError, RuntimeError, MemoryError) as error:
        raise _invalid(where, str(error)) from error
    if len(bitmap) != cardinality:  # which is asked before room is made for them: a run of a few bytes may be 65536 positions
        raise _invalid(where, f"it has {len(bitmap)} positions, and should have {cardinality}")
    if not cardinality:
        return np.empty(0, np.int64)
    if bitmap.max() >= _MOST_POSITIONS:
        raise _invalid(where, f"it has position {bitmap.max()}")
    return np.frombuffer(bitmap.to_array(), np.int64)


def write_bitmap(positions: Positions) -> bytes:
    """The bitmap of sorted, distinct positions, behind its magic number."""
    bitmap = BitMap64(array.array("Q", np.ascontiguousarray(positions, np.int64).tobytes()))
    bitmap.run_optimize()
    return _MAGIC + bitmap.serialize()


def union(first: Positions, second: Positions) -> Positions:
    """The positions that are in one of them, or in both; each of them is ascending. NumPy's own puts them into a hash table, which takes twenty times
    as long."""
    if not len(first) or not len(second):
        return second if not len(first) else first
    both = np.concatenate([first, second])
    both.sort(kind="stable")
    return both[np.concatenate([[True], both[1:] != both[:-1]])]


def kept_rows(first: int, count: int, deleted: Positions) -> NDArray[np.bool_]:
    """Which rows there still are, of `count` from position `first` on."""
    kept = np.ones(count, np.bool_)
    low, high = np.searchsorted(deleted, (first, first + count))
    kept[deleted[low:high] - first] = False
    return kept


def _inline_bytes(vector: DeletionVector) -> bytes:
    try:
        data = parse_z85(vector.path_or_inline)
    except ValueError:
        raise _invalid(vector.path_or_inline, "it is no Z85") from None
    if not 0 <= len(data) - vector.size_in_bytes < 4:
        raise _invalid(vector.path_or_inline, f"it has {len(data)} bytes, and should have {vector.size_in_bytes}")
    return data[: vector.size_in_bytes]


def _stored_bytes(vector: DeletionVector, stored: bytes) -> bytes:
    where, size = vector.path_or_inline, vector.size_in_bytes
    if len(stored) < vector.place[1]:
        raise _invalid(where, f"its file ends behind {len(stored)} of {vector.place[1]} bytes")
    data, (said,) = stored[_SIZE.size : _SIZE.size + size], _SIZE.unpack_from(stored)
    if said != size:
        raise _invalid(where, f"it has {said} bytes, and should have {size}")
    if _CHECKSUM.unpack_from(stored, _SIZE.size + size)[0] != zlib.crc32(data):
        raise _invalid(where, "its checksum is wrong")
    return data


def check_file_version(first_byte: bytes, where: str) -> None:
    """Raises UnsupportedFile if a file of vectors that begins so is of a format that nobody knows."""
    if first_byte != _VERSION:
        raise UnsupportedFile(f'file "{where}" is none of deletion vectors, or of another version', file=where)


def _file_name(prefix: str, name: uuid.UUID) -> str:
    return f"{prefix}/deletion_vector_{name}.bin" if prefix else f"deletion_vector_{name}.bin"


def _invalid(where: str, detail: str) -> CorruptFile:
    return CorruptFile(f'invalid deletion vector "{where[:60]}"', detail=detail[:1].upper() + detail[1:] + ".", file=where)
