"""Records of the DBASE resource manager (`commands/dbcommands_xlog.h`), both ways: databases created and dropped. Their opcodes are a major's own
(:mod:`tailrace.wal.versions`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tailrace.majors import Compared
from tailrace.wal.structs import U32, Layout, Struct, Uint32, read_u32s, write_u32s

COMPARED = Compared(__name__, "commands/dbcommands_xlog.h", upto=18)
OPCODE = 0xF0


@dataclass(frozen=True, slots=True)
class CreateDatabaseFileCopy(Struct, compared=COMPARED):
    """xl_dbase_create_file_copy_rec (xl_dbase_create_rec of 14): the files of another database are copied."""

    database: Uint32
    tablespace: Uint32
    source_database: Uint32
    source_tablespace: Uint32


@dataclass(frozen=True, slots=True)
class CreateDatabaseWalLog(Struct, compared=COMPARED):
    """xl_dbase_create_wal_log_rec: what the database has from its template follows in the log, block by block."""

    database: Uint32
    tablespace: Uint32


@dataclass(frozen=True, slots=True)
class DropDatabase:
    """xl_dbase_drop_rec: in each of these tablespaces."""

    LAYOUT: ClassVar = Layout({"database": U32, "count": U32})

    database: int
    tablespaces: tuple[int, ...]

    @classmethod
    def read(cls, data: bytes, _major: int) -> DropDatabase:
        """Raises CorruptWal if the data are too short."""
        head = cls.LAYOUT.read(data)
        return cls(head["database"], tuple(read_u32s(data, cls.LAYOUT.size, head["count"]).tolist()))

    def write(self, _major: int) -> bytes:
        """The same bytes again."""
        return self.LAYOUT.write({"database": self.database, "count": len(self.tablespaces)}) + write_u32s(self.tablespaces)
