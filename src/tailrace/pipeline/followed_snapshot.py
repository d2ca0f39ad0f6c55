"""The catalogs of a database where its log ends, as often as somebody asks: from one time to the next only what is new of the log is read, and where
that is not about catalogs they stay as they are.

In: a source and a database. Out: `DatabaseSnapshot`. A log that is not at hand any more from where reading it went on, or is another's by now, is
read from its beginning again; that raises what there is to be raised.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tailrace.catalog.state.catalog_state import CatalogState, with_hint_bits
from tailrace.dataclass import dataclass
from tailrace.errors import CorruptWal, MissingHistory
from tailrace.model import Lsn
from tailrace.pipeline.capture_live import captured_by_server
from tailrace.pipeline.catalogs import with_full_xids
from tailrace.pipeline.following import FollowedLog, up_to_its_end
from tailrace.pipeline.open_log import open_log
from tailrace.pipeline.open_snapshot import open_snapshot
from tailrace.pipeline.runner import Runner
from tailrace.pipeline.windows import carry, history_at
from tailrace.plan.carried import Carried
from tailrace.publications.catalog_snapshot import CatalogSnapshot
from tailrace.publications.database_snapshot import DatabaseSnapshot
from tailrace.sources.named import files_of
from tailrace.sources.received_log import held
from tailrace.sources.source import Source
from tailrace.sources.source_name import SourceName
from tailrace.storage.segment_files import open_segments
from tailrace.storage.segments import Segments
from tailrace.wal.index import Index
from tailrace.wal.log_fingerprint import difference, fingerprint_before


@dataclass(slots=True)
class FollowedSnapshot:
    """`version` is another after each change of the catalogs. State: what is carried to the end of the log as it was at the last look. One thread
    at a time asks."""

    source: SourceName
    database: str
    version: int = 0
    _carried: Carried | None = None
    _log: FollowedLog | None = None
    _captured: CatalogState | None = None
    """Of a server that is connected to: what its catalogs were when they were first asked for."""

    def look(self, runner_for: Callable[[int], Runner]) -> None:
        """Read what is new; `runner_for` gives what so many bytes of WAL are worked on with. Raises what opening the log raises."""
        if not self._follow(runner_for(0)):
            self._carried = self._log = None
            with held(self.source):
                self._begin(self.runner(runner_for))
            self._follow(runner_for(0))  # which gives back the copies of WAL that nobody reads any more

    def runner(self, runner_for: Callable[[int], Runner]) -> Runner:
        """What all of the log is worked on with."""
        segments = open_segments(files_of(self.source))
        return runner_for(segments.stop_lsn - segments.first_lsn)

    @property
    def end(self) -> Lsn:
        """Where the log ended at the last look."""
        assert self._carried is not None
        return self._carried.lsn

    def at(self, lsn: Lsn, runner: Runner) -> DatabaseSnapshot:
        """As of an LSN. Raises MissingHistory for one that the log at hand does not have."""
        return open_snapshot(self.source, self.database, runner, catalog=self._captured, at=lsn)

    def snapshot(self, search_path: tuple[str, ...]) -> DatabaseSnapshot:
        """As of the last look, with a history of its own."""
        assert self._carried is not None
        state = self._carried.state
        catalogs = CatalogSnapshot(history_at(self._carried, search_path), int(self._carried.lsn))
        return DatabaseSnapshot(state.system, state.database, self.database, catalogs)

    def _begin(self, runner: Runner) -> None:
        self._captured = captured_by_server(self.source, self.database, runner)
        opened = open_log(self.source, self.database, runner=runner, catalog=self._captured)
        source, indexes = opened.source, list(opened.scanned())
        opened.check_holds(indexes, None)
        carried, _ = opened.begin(indexes)
        state = carried.state
        if self._captured is None:
            # The state is of the end of the log, and has every page: what comes next needs no directory beside it.
            versions = with_hint_bits(state.versions, with_full_xids(source, indexes).outcomes, state.status)
            state = replace(
                state, versions=versions, status=None, multixacts=None, complete=True, timeline=source.segments.timeline
            )
        whole = [part for each in indexes if (part := up_to_its_end(each)) is not None]
        self.version += 1
        self._go_on(source, runner, replace(carried, state=state), whole)

    def _follow(self, runner: Runner) -> bool:
        """Whether what is new could be read."""
        carried, log = self._carried, self._log
        if carried is None or log is None:
            return False
        try:
            parts = list(log.look(runner))
            if parts:
                self._go_on(log.source, runner, carried, [part for _, part in parts])
        except (CorruptWal, MissingHistory):
            return False
        return not log.nothing_new.in_doubt and not log.source.segments.gaps

    def _go_on(self, source: Source, runner: Runner, before: Carried, indexes: Sequence[Index]) -> None:
        segments = source.segments
        carried = carry(source, runner, before, indexes) if indexes else before  # there is no record yet
        if carried.state.versions is not before.state.versions:
            self.version += 1
        read_from = max(segments.first_lsn, carried.restart_lsn // segments.segment_size * segments.segment_size)
        fingerprint = fingerprint_before(segments.read, segments.identity, carried.lsn, Lsn(read_from))
        self._carried = replace(carried, fingerprint=fingerprint)
        if self._log is None:
            self._log = FollowedLog.behind(carried, self.source, source)
            self._log.check = self._check
        self._log.needed_from = carried.restart_lsn

    def _check(self, segments: Segments) -> None:
        """Raise MissingHistory where the log is not the one that was read."""
        assert self._carried is not None
        state, fingerprint = self._carried.state, self._carried.fingerprint
        is_other = (segments.system, segments.timeline) != (state.system, state.timeline)
        if is_other or (fingerprint and difference(fingerprint, segments.read, segments.identity, segments.first_lsn)):
            raise MissingHistory(f"the log before {self._carried.lsn} is another one by now", lsn=self._carried.lsn)
