"""C structs of PostgreSQL as tables: their fields by name, in the header's order, and the bytes that they are, both ways.

A struct lies in the log as the compiler of a 64-bit little-endian machine lays it out: every field at a multiple of its own size. So the order of
the fields tells their offsets, which kernels ask for by name (`Layout.at`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from struct import Struct as Packing
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, Self, get_origin, get_type_hints

from tailrace.errors import CorruptWal
from tailrace.majors import Compared
from tailrace.model import Locator, Lsn

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray


class CType(NamedTuple):
    """A type of C: its letter in Python's `struct`, its size and alignment in bytes; what its values are here, and how they are for `struct`."""

    letter: str
    size: int
    align: int
    value: Callable[[Any], Any] = int
    stored: Callable[[Any], Any] = int


BOOL = CType("?", 1, 1, bool, bool)
U8 = CType("B", 1, 1)
U16 = CType("H", 2, 2)
U32 = CType("I", 4, 4)
U64 = CType("Q", 8, 8)
I32 = CType("i", 4, 4)
I64 = CType("q", 8, 8)
F64 = CType("d", 8, 8, float, float)
LSN = CType("Q", 8, 8, Lsn)
_LOCATOR = Packing("<3I")
LOCATOR = CType("12s", 12, 4, lambda data: Locator(*_LOCATOR.unpack(data)), lambda locator: _LOCATOR.pack(*locator))


Bool = Annotated[bool, BOOL]
Uint8 = Annotated[int, U8]
Uint16 = Annotated[int, U16]
Uint32 = Annotated[int, U32]
Int32 = Annotated[int, I32]
Int64 = Annotated[int, I64]
XLogRecPtr = Annotated[Lsn, LSN]
RelFileLocator = Annotated[Locator, LOCATOR]


def chars(count: int) -> CType:
    """`char[count]`, as bytes."""
    return CType(f"{count}s", count, 1, bytes, bytes)


class Layout:
    """The fields of a struct, and how many bytes it takes: with the padding that C puts behind the last field if `padded` (`sizeof`), else without
    (PostgreSQL's `SizeOf…` macros)."""

    def __init__(self, types: Mapping[str, CType], *, padded: bool = False) -> None:
        letters = ["<"]
        self._types = types
        self._offsets: dict[str, int] = {}
        self.size = 0
        for name, kind in types.items():
            offset = _aligned(self.size, kind.align)
            letters.append(f"{offset - self.size}x{kind.letter}")
            self._offsets[name] = offset
            self.size = offset + kind.size
        if padded:
            whole = _aligned(self.size, max(kind.align for kind in types.values()))
            letters.append(f"{whole - self.size}x")
            self.size = whole
        self._packing = Packing("".join(letters))

    def at(self, field: str) -> int:
        """The offset of a field from where the struct begins."""
        return self._offsets[field]

    def read(self, data: bytes, at: int = 0) -> dict[str, Any]:
        """The struct at `data[at]`. Raises CorruptWal if it does not end within `data`."""
        check_length(data, at + self.size)
        values = self._packing.unpack_from(data, at)
        return {name: kind.value(value) for (name, kind), value in zip(self._types.items(), values, strict=True)}

    def write(self, values: Mapping[str, Any]) -> bytes:
        """The struct's bytes, padding zero. `values` may hold more than its fields."""
        return self._packing.pack(*(kind.stored(values[name]) for name, kind in self._types.items()))


def _aligned(size: int, align: int) -> int:
    return (size + align - 1) // align * align


def check_length(data: bytes, size: int) -> None:
    """Raise CorruptWal unless there are `size` bytes of `data`."""
    if len(data) < size:
        raise CorruptWal(f"invalid length of record data: expected at least {size}, got {len(data)}")


class Struct:
    """Base of records whose data are one struct: dataclasses with the fields that any major has. Those that one has not are None.

    Of a struct that all majors have alike, annotations of the fields are its layout: it says with what it was `compared`. Others have LAYOUTS.
    """

    __slots__ = ()
    LAYOUTS: ClassVar[Mapping[int, Layout]]

    def __init_subclass__(cls, compared: Compared | None = None, *, padded: bool = False) -> None:
        if compared is not None:
            hints = get_type_hints(cls, include_extras=True)
            types = {name: hint.__metadata__[0] for name, hint in hints.items() if get_origin(hint) is Annotated}
            cls.LAYOUTS = compared.always(Layout(types, padded=padded))

    @classmethod
    def read(cls, data: bytes, major: int) -> Self:
        """The record's data, as they lie in the WAL of `major`. Raises CorruptWal if they are too short."""
        return cls(**cls.LAYOUTS[major].read(data))

    def write(self, major: int) -> bytes:
        """The same bytes again."""
        return self.LAYOUTS[major].write({field.name: getattr(self, field.name) for field in fields(self)})  # type: ignore[arg-type]


def read_u32s(data: bytes, at: int, count: int) -> NDArray[np.uint32]:
    """`uint32[count]` at `data[at]`. Raises CorruptWal if it does not end within `data`."""
    check_length(data, at + 4 * count)
    import numpy as np  # noqa: PLC0415 - whoever receives a log reads page headers, and has no arrays

    return np.frombuffer(data, "<u4", count, at)


def write_u32s(numbers: ArrayLike) -> bytes:
    """The same bytes again."""
    import numpy as np  # noqa: PLC0415

    return np.asarray(numbers, "<u4").tobytes()
