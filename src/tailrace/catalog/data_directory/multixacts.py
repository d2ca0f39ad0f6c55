"""pg_multixact: which member of a multixact updated the row (`access/multixact_internal.h`).

The xmax of a row that one transaction updates while others hold key locks on it is a MultiXactId, which stands for all of them. Where that was before
the WAL at hand, only pg_multixact tells which member updated the row.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from tailrace.wal.structs import read_u32s

OFFSETS, MEMBERS = "offsets", "members"
ReadFile = Callable[[str, int], bytes]
"""A file of pg_multixact, by folder and number; empty if it is not there."""

_PAGE = 8192
_PAGES_PER_FILE = 32
_OFFSETS_PER_PAGE = _PAGE // 4
_GROUP = 20  # four bytes of status, four xids
_GROUPS_PER_PAGE = _PAGE // _GROUP
_MEMBERS_PER_PAGE = 4 * _GROUPS_PER_PAGE
_MOST_MEMBERS = 10_000
_UPDATES = frozenset({4, 5})  # MultiXactStatusNoKeyUpdate, MultiXactStatusUpdate


class Multixacts:
    """The multixacts of a data directory. Files are read when they are first asked for."""

    def __init__(self, read: ReadFile) -> None:
        self._read = cache(read)

    def updater_of(self, multixact: int) -> int | None:
        """The xid of the member that updated or deleted; 0 if all members only locked; None if the files do not have the multixact."""
        first = self.first_member(multixact)
        if first is None:
            return None
        following = self.first_member(multixact % 0xFFFFFFFF + 1)
        count = (following - first) % 2**32 if following is not None else _MOST_MEMBERS
        for member in range(first, first + min(count, _MOST_MEMBERS)):
            status, xid = self._member(member % 2**32)
            if xid == 0:
                if member == first:
                    return None
                break
            if status in _UPDATES:
                return xid
        return 0

    def first_member(self, multixact: int) -> int | None:
        """The number of its first member; None if the files do not have the multixact."""
        page, place = divmod(multixact, _OFFSETS_PER_PAGE)
        return self._word(OFFSETS, page, 4 * place) or None

    def _member(self, number: int) -> tuple[int, int]:
        """A member's status (MultiXactStatus) and xid."""
        page, place = divmod(number, _MEMBERS_PER_PAGE)
        group, within = divmod(place, 4)
        status = self._word(MEMBERS, page, _GROUP * group) >> (8 * within) & 0xFF
        return status, self._word(MEMBERS, page, _GROUP * group + 4 + 4 * within)

    def _word(self, folder: str, page: int, at: int) -> int:
        """A uint32 of a page, 0 if the file ends before it."""
        file, page_there = divmod(page, _PAGES_PER_FILE)
        data = self._read(folder, file)
        at += page_there * _PAGE
        return int(read_u32s(data, at, 1)[0]) if at + 4 <= len(data) else 0
