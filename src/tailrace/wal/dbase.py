"""Records of the DBASE resource manager (`commands/dbcommands_xlog.h`), both ways: databases created and dropped."""

from __future__ import annotations

from typing import ClassVar

from tailrace.dataclass import dataclass
from tailrace.majors import Compared
from tailrace.wal.record_types import REPLAYED, RecordType
from tailrace.wal.structs import U32, Layout, Struct, Uint32, read_u32s, write_u32s

COMPARED = Compared(__name__, "commands/dbcommands_xlog.h", upto=18)
OPCODE = 0xF0
DROP = COMPARED.table({14: 0x10, 15: 0x20})


@dataclass(frozen=True, slots=True)
class CreateDatabaseFileCopy(Struct, compared=COMPARED):
    """xl_dbase_create_file_copy_rec (xl_dbase_create_rec of 14): the files of another database are copied."""

    database: Uint32
    tablespace: Uint32
    source_database: Uint32
    source_tablespace: Uint32

    def desc(self) -> str:
        return f"copy dir {self.source_tablespace}/{self.source_database} to {self.tablespace}/{self.database}"


@dataclass(frozen=True, slots=True)
class CreateDatabaseWalLog(Struct, compared=COMPARED):
    """xl_dbase_create_wal_log_rec: what the database has from its template follows in the log, block by block."""

    database: Uint32
    tablespace: Uint32

    def desc(self) -> str:
        return f"create dir {self.tablespace}/{self.database}"


@dataclass(frozen=True, slots=True)
class DropDatabase:
    """xl_dbase_drop_rec: in each of these tablespaces."""

    LAYOUT: ClassVar = Layout({"database": U32, "count": U32})

    database: int
    tablespaces: tuple[int, ...]

    @classmethod
    def read(cls, data: bytes, major: int) -> DropDatabase:
        """Raises CorruptWal if the data are too short."""
        COMPARED.check(major)
        head = cls.LAYOUT.read(data)
        return cls(head["database"], tuple(read_u32s(data, cls.LAYOUT.size, head["count"]).tolist()))

    def write(self, major: int) -> bytes:
        """The same bytes again."""
        COMPARED.check(major)
        return self.LAYOUT.write({"database": self.database, "count": len(self.tablespaces)}) + write_u32s(self.tablespaces)

    def desc(self) -> str:
        return f"dir of database {self.database}"


RECORD_TYPES = (
    RecordType(0x00, "CREATE", REPLAYED, CreateDatabaseFileCopy, majors="-14"),
    RecordType(0x00, "CREATE_FILE_COPY", REPLAYED, CreateDatabaseFileCopy, majors="15-"),
    RecordType(0x10, "CREATE_WAL_LOG", REPLAYED, CreateDatabaseWalLog, majors="15-"),
    RecordType(0x10, "DROP", REPLAYED, DropDatabase, majors="-14"),
    RecordType(0x20, "DROP", REPLAYED, DropDatabase, majors="15-"),
)
