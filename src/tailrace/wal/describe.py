"""Records in words, in the shape of pg_waldump's lines: whose they are, how long, where, what they say, which blocks they name.

In: bytes of whole records. Out: `Described`. Records of managers that decoding reads print their fields themselves (`desc` of their structs); of the
others only the opcode's number is printed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.model import Locator, Lsn
from tailrace.wal import heap, opcodes, records, smgr, xact
from tailrace.wal.record_header import RecordHeader
from tailrace.wal.record_types import RecordType
from tailrace.wal.records import BLOCK_FIELDS, FIRST_BLOCK, MAIN, MAIN_LENGTH
from tailrace.wal.resource_managers import HEAP, HEAP2, name_of
from tailrace.wal.versions import WalFormat


@dataclass(frozen=True, slots=True)
class Described:
    """One record. `images` are the bytes of its page images, which pg_waldump does not count into a record's own length."""

    manager: int
    xid: int
    lsn: Lsn
    previous: Lsn
    length: int
    images: int
    operation: str
    fields: str
    blocks: tuple[str, ...]
    files: tuple[Locator, ...]

    def __str__(self) -> str:
        said = f"{self.operation} {self.fields}".rstrip() + "".join(f", {block}" for block in self.blocks)
        return (
            f"rmgr: {name_of(self.manager):<11} len (rec/tot): {self.length - self.images:6}/{self.length:6}, tx: {self.xid:10}, "
            f"lsn: {_padded(self.lsn)}, prev {_padded(self.previous)}, desc: {said}"
        )

    def as_dict(self) -> dict[str, Any]:
        """The same as a JSON object; positions and files as PostgreSQL prints them."""
        return {
            "lsn": str(self.lsn), "prev": str(self.previous), "rmgr": name_of(self.manager), "xid": self.xid, "length": self.length,
            "record_length": self.length - self.images, "operation": self.operation, "fields": self.fields,
            "blocks": list(self.blocks), "files": [str(file) for file in self.files],
        }  # fmt: skip


def describe(buf: NDArray[np.uint8], at: int, length: int, lsn: int, form: WalFormat, parsed: NDArray[np.int64]) -> Described:
    """The record `buf[at : at + length]`; `parsed` is room for its headers. Raises CorruptWal if its data are too short for what it is."""
    records.parse(buf, at, length, form.image_compressed, parsed)
    header = RecordHeader.read(buf[at : at + length].tobytes(), form.major)
    kind = opcodes.type_of(form.major, header.manager, header.info)
    name = kind.name if kind else f"0x{opcodes.opcode_of(header.manager, header.info):02X}"
    init = "+INIT" if header.manager in (HEAP, HEAP2) and header.info & heap.INIT_PAGE else ""
    count = int(parsed[records.BLOCKS])
    blocks = [parsed[FIRST_BLOCK + i * BLOCK_FIELDS : FIRST_BLOCK + (i + 1) * BLOCK_FIELDS] for i in range(count)]
    files = tuple(Locator(int(b[records.TABLESPACE]), int(b[records.DATABASE]), int(b[records.NUMBER])) for b in blocks)
    return Described(
        manager=header.manager,
        xid=header.xid,
        lsn=Lsn(lsn),
        previous=header.previous,
        length=length,
        images=sum(int(block[records.IMAGE_LENGTH]) for block in blocks if block[records.IMAGE]),
        operation=name + init,
        fields=_fields(kind, buf, parsed, form) if kind and kind.data else "",
        blocks=tuple(_block(block, file) for block, file in zip(blocks, files, strict=True)),
        files=files,
    )


def _fields(kind: RecordType, buf: NDArray[np.uint8], parsed: NDArray[np.int64], form: WalFormat) -> str:
    if kind.data is xact.End:
        return xact.read_end(buf, parsed, form).desc()
    main = int(parsed[MAIN])
    return kind.data.read(buf[main : main + int(parsed[MAIN_LENGTH])].tobytes(), form.major).desc() + kind.behind


def _block(block: NDArray[np.int64], file: Locator) -> str:
    fork, image = int(block[records.FORK]), " FPW" if block[records.IMAGE] else ""
    named = f"{file} fork {smgr.FORK_NAMES[fork]}" if fork else str(file)
    return f"blkref #{block[records.BLOCK_ID]}: rel {named} blk {block[records.BLOCK]}{image}"


def _padded(lsn: Lsn) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:08X}"
