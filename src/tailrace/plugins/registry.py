"""Output plugins by name: ours, and users' own through the entry point group `tailrace.plugins`."""

from __future__ import annotations

from importlib.metadata import entry_points

from tailrace.errors import UsageError
from tailrace.plugins.debezium import Debezium
from tailrace.plugins.pgoutput import PgOutput
from tailrace.plugins.plugin import OutputPlugin
from tailrace.plugins.test_decoding import TestDecoding
from tailrace.plugins.wal2json import Wal2Json

_OURS: dict[str, type[OutputPlugin]] = {each.name: each for each in (TestDecoding, PgOutput, Wal2Json, Debezium)}


def plugin_named(name: str) -> OutputPlugin:
    """A new instance. Raises UsageError in PostgreSQL's words if there is none."""
    plugin = _OURS.get(name)
    if plugin is None:
        for entry in entry_points(group="tailrace.plugins", name=name):
            plugin = entry.load()
    if plugin is None:
        raise UsageError(
            f'could not access file "{name}": No such file or directory', hint=f"Plugins: {', '.join(_OURS)}.", sqlstate="58P01"
        )
    return plugin()
