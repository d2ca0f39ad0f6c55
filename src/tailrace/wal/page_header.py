"""The header of a WAL page (`access/xlog_internal.h`), as it is in every major: it tells which one wrote the page.

Kernels take it apart by the offsets below; :mod:`tailrace.wal.framing` judges it.
"""

from __future__ import annotations

from tailrace.dataclass import dataclass
from tailrace.model import Lsn
from tailrace.wal.structs import LSN, U16, U32, U64, Layout

_PAGE = {"magic": U16, "info": U16, "timeline": U32, "address": LSN, "remaining": U32}
_SHORT = Layout(_PAGE, padded=True)
_LONG = Layout(_PAGE | {"system": U64, "segment_size": U32, "block_size": U32})

P_MAGIC = _LONG.at("magic")
P_INFO = _LONG.at("info")
P_ADDRESS = _LONG.at("address")
P_REMAINING = _LONG.at("remaining")
P_SYSTEM = _LONG.at("system")
SHORT_PAGE_HEADER = _SHORT.size
LONG_PAGE_HEADER = _LONG.size
LONG_HEADER = 0x0002
"""xlp_info says so of a page that begins a segment."""


@dataclass(frozen=True, slots=True)
class LongPageHeader:
    """XLogLongPageHeaderData, of the first page of a segment. The page belongs at `address`; of a record that runs into it, `remaining` bytes are
    left."""

    magic: int
    info: int
    timeline: int
    address: Lsn
    remaining: int
    system: int
    segment_size: int
    block_size: int

    @classmethod
    def read(cls, page: bytes) -> LongPageHeader:
        """Raises CorruptWal if the page is too short."""
        return cls(**_LONG.read(page))

    def write(self) -> bytes:
        """The same bytes again."""
        return _LONG.write({name: getattr(self, name) for name in self.__slots__})


def page_address(page: bytes) -> int:
    """Where the page says that it belongs; -1 if this is not even a header."""
    return int(_SHORT.read(page)["address"]) if len(page) >= SHORT_PAGE_HEADER else -1
