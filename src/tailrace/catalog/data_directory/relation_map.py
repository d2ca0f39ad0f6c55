"""pg_filenode.map (`utils/cache/relmapper.c`): where the catalogs lie that pg_class cannot say it of."""

from __future__ import annotations

from tailrace.errors import CorruptFile
from tailrace.wal.crc import crc32c
from tailrace.wal.structs import I32, U32, Layout, read_u32s

# RelMapFile
_RELATION_MAP = Layout({"magic": U32, "count": I32})
_RELATION_MAP_MAGIC = 0x00592717
_RELATION_MAP_CRC = {512: 504, 524: 520}
"""Where the checksum stands, by the size of the file: up to 15 there is room for 62 catalogs, since 16 for 64."""
_MOST_MAPPINGS = 64


def read_relation_map(data: bytes, where: str) -> dict[int, int]:
    """pg_filenode.map, or the image of one in a RELMAP record: catalog oid -> file number. Raises CorruptFile if it is damaged;
    `where` names the file."""
    head = _RELATION_MAP.read(data.ljust(_RELATION_MAP.size, b"\0"))
    count = head["count"]
    if head["magic"] != _RELATION_MAP_MAGIC or not 0 <= count <= _MOST_MAPPINGS or len(data) < _RELATION_MAP.size + 8 * count:
        raise CorruptFile(f'relation mapping file "{where}" contains invalid data', file=where)
    crc_at = _RELATION_MAP_CRC.get(len(data))
    if crc_at and crc32c(data[:crc_at]) != read_u32s(data, crc_at, 1)[0]:
        raise CorruptFile(f'relation mapping file "{where}" contains incorrect checksum', file=where)
    pairs = read_u32s(data, _RELATION_MAP.size, 2 * count).tolist()
    return dict(zip(pairs[::2], pairs[1::2], strict=True))
