"""What a resource manager's file says of each of its opcodes, in its RECORD_TYPES: the opcode, what pg_waldump calls it, what such a record means for
decoding, and the struct of its main data, which prints itself as pg_waldump does.

:mod:`tailrace.wal.opcodes` gathers them. Scanning asks it what a record means, and :mod:`tailrace.wal.describe` how it is printed.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any, NamedTuple, Protocol, Self

from tailrace.majors import Capability, supports
from tailrace.model import datetime_of


class Meaning(IntEnum):
    UNKNOWN = 0
    DECODED = 1
    """Read: rows, ends of transactions, messages, and what says where decoding may begin or the log's timeline ends."""
    REPLAYED = 2
    """Read for what it changes of catalogs and their files."""
    PASSED_OVER = 3
    """Nothing that rows or catalogs would say otherwise for; it counts for its xid."""


UNKNOWN, DECODED, REPLAYED, PASSED_OVER = Meaning


class RecordData(Protocol):
    """The main data of a record."""

    @classmethod
    def read(cls, data: bytes, major: int, /) -> Self: ...

    def desc(self) -> str:
        """As pg_waldump prints it (`rm_desc`)."""


class RecordType(NamedTuple):
    """Records of one opcode. `behind` is what pg_waldump prints behind the data. `least` is what kernels ask of the length of main data that they
    read (`records.is_long_enough`); of others the length is checked where they are read. `majors` have the opcode so: 17- since 17, -16 until 16."""

    opcode: int
    name: str
    meaning: Meaning
    data: type[RecordData] | Any = None
    behind: str = ""
    least: int = 0
    majors: str = ""


def types_of(major: int, types: Iterable[RecordType]) -> dict[int, RecordType]:
    """Those that a major has, by opcode."""
    return {each.opcode: each for each in types if supports(major, Capability.of(each.majors))}


# -- how pg_waldump prints -----------------------------------------------------------------------------------------------------------


def desc_time(microseconds: int) -> str:
    return f"{datetime_of(microseconds):%Y-%m-%d %H:%M:%S.%f} UTC"


def desc_name(name: bytes) -> str:
    return name.split(b"\0")[0].decode(errors="replace")


def desc_list(numbers: Iterable[int], between: str = " ") -> str:
    return between.join(map(str, numbers))
