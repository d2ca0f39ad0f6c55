"""A `PrintedWindow` holds a window's plan and the plugin that prints it, so that this process can run the plugin, or a worker of Spark's."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tailrace.dataclass import dataclass
from tailrace.model import Lsn
from tailrace.pipeline.runner import Runner
from tailrace.plan import Plan
from tailrace.plan.stretch_plan import StretchPlan
from tailrace.plugins.driver import drive, format_stretch
from tailrace.plugins.formatted_changes import FormattedChanges
from tailrace.plugins.formatter import Formatter
from tailrace.plugins.lines import Lines
from tailrace.plugins.output_plugin import OutputPlugin
from tailrace.publications.publishing.publisher import Publisher
from tailrace.storage.segments import Segments
from tailrace.wal.queued_changes import QueuedChanges, QueuedChangesRequest, queued_changes
from tailrace.wal.stretch_bytes import read_whole


@dataclass(frozen=True, slots=True)
class PrintedWindow:
    """All that it takes to have a plugin print a window, which ends at `upto`, and no more: it travels."""

    plan: Plan
    plugin: OutputPlugin
    segments: Segments
    publisher: Publisher | None
    upto: Lsn

    def lines(self, runner: Runner) -> Iterator[Lines]:
        """What the plugin prints, in commit order."""
        format_one = partial(_format, self.segments, self.plugin.formatter, self.publisher)
        yield from drive(self.plan, self.plugin, partial(runner.run, heavy=True), format_one, self.publisher)
        self.plugin.written_upto(self.upto)


def queued_in(segments: Segments, request: QueuedChangesRequest) -> QueuedChanges:
    return read_whole(
        segments.read, request.stretch, partial(queued_changes, request=request, segment_size=segments.segment_size)
    )


def _format(segments: Segments, formatter: Formatter, publisher: Publisher | None, plan: StretchPlan) -> FormattedChanges:
    return format_stretch(plan, segments.read, formatter, publisher)
