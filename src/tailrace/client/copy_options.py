"""How a server's tables are copied, as whoever begins the copy asks for it."""

from __future__ import annotations

from enum import StrEnum

from tailrace.dataclass import dataclass


class CopyStrategy(StrEnum):
    """By us from the pages of the tables' files, or by the server, row by row; `auto` is pages of what is large, where they can be had."""

    AUTO = "auto"
    PAGES = "pages"
    ROWS = "rows"


@dataclass(frozen=True, slots=True)
class CopyOptions:
    """So many bytes a second are read at most (None: as fast as it goes)."""

    rate: int | None = None
    strategy: CopyStrategy = CopyStrategy.AUTO
