"""A slot's output plugin, started up for a consumer: the options of the slot, and those of the run before them."""

from __future__ import annotations

from collections.abc import Mapping

from tailrace.plugins.failures import start_up
from tailrace.plugins.output_plugin import OutputPlugin
from tailrace.plugins.registry import plugin_named
from tailrace.replication.acquired import Consumer


def plugin_of(consumer: Consumer, options: Mapping[str, str | None], parameters: Mapping[str, str]) -> OutputPlugin:
    """`parameters` are the session's. A plugin whose options ask for prepared transactions has them from a slot that was created without, and the
    slot gives them from here on (`CreateDecodingContext` of `replication/logical/logical.c`)."""
    slot = consumer.slot
    plugin = plugin_named(slot.plugin)
    context = plugin.context
    context.slot = slot.name
    context.two_phase, context.two_phase_since = slot.two_phase, int(slot.two_phase_at)
    context.set_parameters(parameters)
    start_up(plugin, {**slot.options, **options}, consumer.major)
    if context.two_phase and not slot.two_phase:
        context.two_phase_since = int(consumer.give_prepared())
    if plugin.wants.publication_names is not None:
        context.definitions = consumer.location.publications.read(slot.system, slot.database_oid, slot.database).in_order
    return plugin
