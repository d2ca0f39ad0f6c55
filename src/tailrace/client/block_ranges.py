"""Parts of a table that can be read apart from each other: ranges of its blocks. From 14 on a server scans no more of the table than such a range."""

from __future__ import annotations

from tailrace.dataclass import dataclass

_BLOCK = 8192


@dataclass(frozen=True, slots=True)
class BlockRange:
    """From block `first` on, before block `behind` (None: to the end)."""

    first: int
    behind: int | None

    def where(self, condition: str | None) -> str:
        """The WHERE clause of those of its rows that meet the condition, if there is one; empty where all rows of the table do."""
        parts = [f"({condition})"] if condition else []
        parts += [f"ctid >= '({self.first},0)'::tid"] if self.first else []
        parts += [f"ctid < '({self.behind},0)'::tid"] if self.behind is not None else []
        return f" WHERE {' AND '.join(parts)}" if parts else ""


def block_ranges(size: int, part: int) -> list[BlockRange]:
    """Of a table of so many bytes, each of so many; one of a table that is empty."""
    blocks, most = -(-size // _BLOCK), part // _BLOCK
    firsts = list(range(0, max(1, blocks), most))
    return [BlockRange(first, behind) for first, behind in zip(firsts, [*firsts[1:], None], strict=True)]
