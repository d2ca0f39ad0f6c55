"""Records of the LOGICALMSG resource manager (`replication/message.h`), both ways: what pg_logical_emit_message() wrote."""

from __future__ import annotations

from typing import ClassVar

from tailrace.dataclass import dataclass
from tailrace.kernels import inner_kernel
from tailrace.majors import Compared
from tailrace.wal.record_types import DECODED, RecordType, desc_name
from tailrace.wal.records import INFO, MANAGER
from tailrace.wal.resource_managers import LOGICALMSG
from tailrace.wal.structs import BOOL, U32, U64, Layout, check_length

COMPARED = Compared(__name__, "replication/message.h", upto=18)
MESSAGE = 0x00
OPCODE = 0xF0


@dataclass(frozen=True, slots=True)
class MessageRecord:
    """xl_logical_message. `prefix`, without the zero that ends it, and `content` are in the database's encoding."""

    LAYOUT: ClassVar = Layout({"database": U32, "transactional": BOOL, "prefix_size": U64, "message_size": U64})

    database: int
    transactional: bool
    prefix: bytes
    content: bytes

    @classmethod
    def read(cls, data: bytes, major: int) -> MessageRecord:
        """Raises CorruptWal if the data are too short."""
        COMPARED.check(major)
        head = cls.LAYOUT.read(data)
        start = cls.LAYOUT.size
        middle = start + head["prefix_size"]
        stop = middle + head["message_size"]
        check_length(data, stop)
        return cls(head["database"], head["transactional"], data[start : middle - 1], data[middle:stop])

    def write(self, major: int) -> bytes:
        """The same bytes again."""
        COMPARED.check(major)
        sizes = {"prefix_size": len(self.prefix) + 1, "message_size": len(self.content)}
        head = self.LAYOUT.write({"database": self.database, "transactional": self.transactional, **sizes})
        return head + self.prefix + b"\0" + self.content

    def desc(self) -> str:
        kind = "transactional" if self.transactional else "non-transactional"
        return f'{kind}, prefix "{desc_name(self.prefix)}"; payload ({len(self.content)} bytes), database {self.database}'


# What kernels read of a record: offsets within the main data
DATABASE = MessageRecord.LAYOUT.at("database")
TRANSACTIONAL = MessageRecord.LAYOUT.at("transactional")
RECORD_TYPES = (RecordType(MESSAGE, "MESSAGE", DECODED, MessageRecord, least=MessageRecord.LAYOUT.size),)


@inner_kernel
def is_message(parsed):  # type: ignore[no-untyped-def]
    return parsed[MANAGER] == LOGICALMSG and parsed[INFO] & OPCODE == MESSAGE
