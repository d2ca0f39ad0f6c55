"""What a state location says of itself: whose log it is about, and how many slots it may have. Both directions of its file `location`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import get_type_hints

from tailrace.checksummed_file import FileKind, fact

LOCATION_FILE = FileKind(
    "location",
    "a state location",
    version=1,
    compression="zstd",
    hint="Name another directory, and create the slots there again.",
)


@dataclass(frozen=True, slots=True)
class Settings:
    """Of one system's log. The two limits are PostgreSQL's of these names; `max_slot_wal_keep_size` is in bytes, -1 for no limit."""

    system: int
    max_replication_slots: int = 10
    max_slot_wal_keep_size: int = -1


_FACTS = get_type_hints(Settings)


def write_location(settings: Settings) -> bytes:
    """The file's bytes."""
    return LOCATION_FILE.write(asdict(settings), {})


def read_location(data: bytes, where: str) -> Settings:
    """Raises UnsupportedFile for files that are none of a location, or of another format; CorruptFile for damaged ones."""
    facts, _ = LOCATION_FILE.read(data, where, {})
    try:
        return Settings(**{name: fact(facts[name], kind) for name, kind in _FACTS.items()})
    except (KeyError, ValueError) as error:
        raise LOCATION_FILE.unsound(where, str(error)) from error
