"""Output plugins by name: ours, users' own through the entry point group `tailrace.plugins`, and what this process registers."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from tailrace.errors import UsageError
from tailrace.plugins.failures import start_up
from tailrace.plugins.output_plugin import OutputPlugin

if TYPE_CHECKING:
    from tailrace.plugins.callbacks.plugin import Plugin

OURS = {"test_decoding": "TestDecoding", "pgoutput": "PgOutput", "wal2json": "Wal2Json", "debezium": "Debezium"}
"""The class of each, which lies in a folder of the plugin's name. Only that of the plugin that is asked for is imported. A server's streams share
what these make, so what one remembers from window to window has to be in its `memory`."""
_registered: dict[str, type[Plugin]] = {}


def plugin_named(name: str) -> OutputPlugin:
    """A new instance. Raises UsageError in PostgreSQL's words if there is none, or if it is no plugin."""
    kind: Any = _registered.get(name)
    if name in OURS:
        kind = getattr(import_module(f"tailrace.plugins.{name}"), OURS[name])
    elif kind is None:
        for entry in entry_points(group="tailrace.plugins", name=name):
            kind = entry.load()
    if kind is None:
        raise UsageError(
            f'could not access file "{name}": No such file or directory', hint=f"Plugins: {', '.join(OURS)}.", sqlstate="58P01"
        )
    return as_output_plugin(kind, name)


def as_output_plugin(kind: Any, name: str = "") -> OutputPlugin:
    """An instance of a class of plugins, as the driver takes one. Raises UsageError for what is no such class."""
    if isinstance(kind, type) and issubclass(kind, OutputPlugin):
        return kind()
    from tailrace.plugins.callbacks.cb_wrappers import CalledPlugin  # noqa: PLC0415 - for plugins of users
    from tailrace.plugins.callbacks.plugin import Plugin  # noqa: PLC0415

    if isinstance(kind, type) and issubclass(kind, Plugin):
        return CalledPlugin(kind(), name)
    raise UsageError(
        "output plugins have to declare the _PG_output_plugin_init symbol", hint=f'"{name}" is no Plugin.', sqlstate="XX000"
    )


def announce_slot(name: str, slot: str, options: Mapping[str, str | None], major: int) -> None:
    """What a plugin is called for when a slot of it is created or copied: startup, with is_init, and shutdown. What it raises
    refuses the slot. Raises UsageError if there is no such plugin."""
    plugin = plugin_named(name)
    plugin.context.slot = slot
    start_up(plugin, options, major, is_init=True)
    plugin.shutdown()


def register_plugin(name: str, kind: type[Plugin]) -> None:
    """Have `kind` found by this name in this process. A package of its own does that by an entry point."""
    _registered[name] = kind
