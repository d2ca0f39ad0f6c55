"""Records of the RELMAP resource manager (`utils/relmapper.h`), both ways: where the catalogs lie that pg_class cannot say it of."""

from __future__ import annotations

from typing import ClassVar

from tailrace.dataclass import dataclass
from tailrace.majors import Compared
from tailrace.wal.record_types import REPLAYED, RecordType
from tailrace.wal.structs import U32, Layout, check_length

COMPARED = Compared(__name__, "utils/relmapper.h", upto=18)
UPDATE = 0x00


@dataclass(frozen=True, slots=True)
class RelationMapUpdate:
    """xl_relmap_update: the whole of a new pg_filenode.map, of a database or, with 0, of the shared catalogs.
    :mod:`tailrace.catalog.data_directory.relation_map` reads the map."""

    LAYOUT: ClassVar = Layout({"database": U32, "tablespace": U32, "size": U32})

    database: int
    tablespace: int
    map: bytes

    @classmethod
    def read(cls, data: bytes, major: int) -> RelationMapUpdate:
        """Raises CorruptWal if the data are too short."""
        COMPARED.check(major)
        head = cls.LAYOUT.read(data)
        start, size = cls.LAYOUT.size, head.pop("size")
        check_length(data, start + size)
        return cls(**head, map=data[start : start + size])

    def write(self, major: int) -> bytes:
        """The same bytes again."""
        COMPARED.check(major)
        return self.LAYOUT.write({"database": self.database, "tablespace": self.tablespace, "size": len(self.map)}) + self.map

    def desc(self) -> str:
        return f"database {self.database} tablespace {self.tablespace} size {len(self.map)}"


RECORD_TYPES = (RecordType(UPDATE, "UPDATE", REPLAYED, RelationMapUpdate),)
