"""What a state location says of itself: whose log it is about, and its settings. Both directions of its file `location`, and
of what users write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import lru_cache
from typing import Any, get_type_hints

from tailrace.checksummed_file import FileKind, fact
from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.settings import replace_percent_placeholders
from tailrace.slots.syncrep import parse_synchronous_standby_names
from tailrace.slots.wal_keep import parse_wal_keep
from tailrace.window import UNITS, parse_size

LOCATION_FILE = FileKind(
    "location",
    "a state location",
    version=1,
    compression="zstd",
    hint="Name another directory, and create the slots there again.",
)


@dataclass(frozen=True, slots=True)
class Settings:
    """Of one system's log. The two limits are PostgreSQL's of these names; `max_slot_wal_keep_size` is in bytes, -1 for no limit. `wal_keep` is
    what is kept of a log that is received, beyond what slots need, as `WalKeep` writes it. `synchronous_standby_names` are slots: what their
    consumers have confirmed is what a server whose log is received counts as applied. `restore_command` brings what the directories lack in which
    slots read their log; a log that is received has one of its own."""

    system: int
    max_replication_slots: int = 10
    max_slot_wal_keep_size: int = -1
    wal_keep: str = "0"
    synchronous_standby_names: str = ""
    restore_command: str = ""


_FACTS = get_type_hints(Settings)
_LATER = {"wal_keep": "0", "synchronous_standby_names": "", "restore_command": ""}
"""What files of before there was that do not say."""


def write_location(settings: Settings) -> bytes:
    """The bytes of the file."""
    return LOCATION_FILE.write(asdict(settings), {})


@lru_cache(64)  # every look at a location reads it
def read_location(data: bytes, where: str) -> Settings:
    """Raises UnsupportedFile for files that are none of a location, or of another format; CorruptFile for damaged ones."""
    return LOCATION_FILE.read_as(
        data, where, {}, lambda facts, _: Settings(**{name: fact((_LATER | facts)[name], kind) for name, kind in _FACTS.items()})
    )


_MOST_SLOTS = 2**18 - 1  # MAX_BACKENDS
_MOST_KEPT = 2**31 - 1  # MB


def parse_settings(settings: Settings, pairs: Mapping[str, str | None]) -> Settings:
    """The settings with those that a user names, in postgresql.conf's words. Raises UsageError for others, and for what is no
    value of theirs."""
    parsers: dict[str, Callable[[str, str], int | str]] = {
        "max_replication_slots": _parse_count, "max_slot_wal_keep_size": _parse_kept, "wal_keep": lambda _, text: str(parse_wal_keep(text)),
        "synchronous_standby_names": _parse_names, "restore_command": _parse_command,
    }  # fmt: skip
    parsed: dict[str, Any] = {}
    for name, text in pairs.items():
        if name not in parsers:
            raise UsageError(
                f'unrecognized configuration parameter "{name}"', hint=f"A state location has {', '.join(parsers)}.", sqlstate="42704"
            )  # fmt: skip
        parsed[name] = parsers[name](name, text or "")
    return replace(settings, **parsed)


def format_settings(settings: Settings) -> dict[str, str]:
    """As SHOW prints them."""
    size = settings.max_slot_wal_keep_size
    unit = next((unit for unit in reversed(UNITS) if size > 0 and size % UNITS[unit] == 0), "")
    kept = f"{size // UNITS[unit]}{unit}" if unit else str(size)
    return {
        "max_replication_slots": str(settings.max_replication_slots),
        "max_slot_wal_keep_size": kept,
        "wal_keep": settings.wal_keep,
        "synchronous_standby_names": settings.synchronous_standby_names,
    } | ({"restore_command": settings.restore_command} if settings.restore_command else {})


def _parse_count(name: str, text: str) -> int:
    try:
        count = int(text)
    except ValueError:
        raise _invalid(name, text) from None
    _check_range(name, count, 0, _MOST_SLOTS)
    return count


def _parse_names(name: str, text: str) -> str:
    parse_synchronous_standby_names(text)
    return text


def _parse_command(name: str, text: str) -> str:
    replace_percent_placeholders(name, text, dict.fromkeys("fpr", ""))
    return text


def _parse_kept(name: str, text: str) -> int:
    """In MB if no unit is given; -1 is no limit."""
    words = text.strip()
    if words.lstrip("-").isdecimal():
        megabytes = int(words)
        _check_range(name, megabytes, -1, _MOST_KEPT)
        return megabytes << 20 if megabytes >= 0 else -1
    try:
        size = parse_size(text)
    except UsageError as error:
        raise _invalid(name, text, error.hint) from None
    _check_range(name, size >> 20, -1, _MOST_KEPT)
    return size


def _check_range(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise UsageError(f'{value} is outside the valid range for parameter "{name}" ({least} .. {most})')


def _invalid(name: str, text: str, hint: str = "") -> UsageError:
    return UsageError(f'invalid value for parameter "{name}": "{text}"', hint=hint)
