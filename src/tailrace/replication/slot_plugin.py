"""Start up the output plugin of a slot, with all that decides what it prints: options of the call and, before them, of the slot, parameters of the
session, two-phase, and the publications that are defined in the state location (`CreateDecodingContext` of
`replication/logical/logical.c`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from tailrace.errors import UsageError
from tailrace.model import Lsn
from tailrace.plugins.failures import start_up
from tailrace.plugins.output_plugin import OutputPlugin
from tailrace.plugins.registry import plugin_named

if TYPE_CHECKING:
    from tailrace.publications.publishing.entry_timeline import Definitions
    from tailrace.replication.acquired_slot import AcquiredSlot
    from tailrace.slots.slot import Slot

_NO_SUCH_FILE = "58P01"


def started_plugin(
    name: str, options: Mapping[str, str | None], parameters: Mapping[str, str], major: int, slot: Slot | None = None,
    *, unknown_types: str = "", two_phase: bool = False,
) -> OutputPlugin:  # fmt: skip
    """The plugin of that name, for a source of this major. With the slot's own plugin the slot's options hold, where none is
    given."""
    plugin = plugin_named(name)
    context = plugin.context
    context.two_phase = two_phase
    kept: Mapping[str, str | None] = {}
    if slot is not None:
        context.slot = slot.name
        context.two_phase, context.two_phase_since = slot.two_phase, int(slot.two_phase_at)
        kept = slot.options if slot.plugin == name else {}
    if unknown_types:
        context.style = replace(context.style, unknown_types=unknown_types)
    context.set_parameters(parameters)
    start_up(plugin, {**kept, **options}, major)
    return plugin


def plugin_of(
    acquired: AcquiredSlot, options: Mapping[str, str | None], parameters: Mapping[str, str], start: Lsn | None = None
) -> OutputPlugin:  # fmt: skip
    """The plugin of an acquired slot, for who wants what comes from `start` on. One whose options ask for prepared transactions has them from a slot
    that was created without, and the slot gives them from there on."""
    slot = acquired.slot
    if not slot.plugin:
        raise UsageError(
            f'replication slot "{slot.name}" has no output plugin',
            hint="It is one of tailrace mirror. Create another slot to read changes as text.", sqlstate="55000",
        )  # fmt: skip
    plugin = started_plugin(slot.plugin, options, parameters, acquired.major, slot)
    context = plugin.context
    if context.two_phase and not slot.two_phase:
        context.two_phase_since = int(acquired.give_prepared(start or Lsn(0)))
    if plugin.wants.publication_names is not None:
        context.definitions = _definitions(acquired)
    return plugin


def check_definitions(acquired: AcquiredSlot, plugin: OutputPlugin) -> None:
    """Raise UsageError (57P01) where what its publications are was said anew in the state location since the plugin was started: who connects again
    has them as they are now. A server's change with its log; these do not."""
    if plugin.wants.publication_names is not None and _definitions(acquired) != plugin.context.definitions:
        raise UsageError(
            "terminating walsender process due to a change of the publications that are defined here", sqlstate="57P01",
            hint="Connect again: a subscriber does so by itself.",
        )  # fmt: skip


def _definitions(acquired: AcquiredSlot) -> Definitions:
    slot = acquired.slot
    return acquired.location.publications.read(slot.system, slot.database_oid, slot.database).in_order


@contextmanager
def no_hint_of_plugins() -> Iterator[None]:
    """In the block the error where there is no such plugin is as the server has it, without the names of those that there are."""
    try:
        yield
    except UsageError as error:
        if error.sqlstate == _NO_SUCH_FILE:
            error.hint = ""
        raise
