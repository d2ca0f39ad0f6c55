"""A recorded log on its way through plugins: at once, in windows, with a consumer that is killed and comes back, and live, while it is being written.

Whatever the way, a plugin gives the same rows. Of what was streamed that holds once its blocks are put together, since where they end is nobody's
promise.
"""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pytest

from support.acquired import acquired
from support.beginning import begin
from support.cases import Case
from support.cuts import records_of, stretches_between
from support.decoding import state_before
from support.outlets import Outlet, Told, described
from tailrace.catalog.state.catalog_state import CatalogState
from tailrace.catalog.state.state_file import write_state
from tailrace.cli.verbs.slot import create
from tailrace.errors import TailraceError
from tailrace.model import PAGE_SIZE, STRETCH_BYTES, Lsn
from tailrace.pipeline import LocalRunner, Pipeline, Runner, open_pipeline
from tailrace.pipeline.decoding_range import DecodingRange
from tailrace.pipeline.scanning import scan_stretch
from tailrace.pipeline.windows import carry, planned, step
from tailrace.plan.carried import Carried
from tailrace.plan.demand import Demand
from tailrace.plugins.output_plugin import OutputPlugin
from tailrace.replication.receiving import receive_into
from tailrace.replication.slot_location import SlotLocation
from tailrace.replication.writers import Calling, Rows
from tailrace.slots.consumer_session import ConsumerSession
from tailrace.slots.mark import read_mark, write_mark
from tailrace.sources.source import Source
from tailrace.transactions.outline import outline
from tailrace.wal.index import Index

_RUNNER = LocalRunner(1)


@dataclass
class Road:
    """A case, with the catalogs as they were before its story."""

    case: Case

    @cached_property
    def source(self) -> Source:
        return Source.open(self.case.data_dir, self._state.needs_wal_from)

    @cached_property
    def _state(self) -> CatalogState:
        return state_before(self.case)

    @cached_property
    def records(self) -> list[int]:
        """Where records begin behind the start of the story."""
        return [lsn for lsn in records_of(self.source, self._state.needs_wal_from)[1] if lsn > self.start]

    @property
    def start(self) -> Lsn:
        return Lsn.parse(self.case.meta["start_lsn"])

    def outlets(self, several: Sequence[Outlet]) -> list[Outlet]:
        return [each for each in several if each.first <= self.case.major]

    def _by_demand(self, several: Sequence[Outlet]) -> Iterator[tuple[Demand, list[Outlet]]]:
        """Planning is the same for many."""
        groups: list[tuple[Demand, list[Outlet]]] = []
        for outlet in self.outlets(several):
            demand = outlet.started(self.case.major).demand
            for known, group in groups:
                if known == demand:
                    group.append(outlet)
                    break
            else:
                groups.append((demand, [outlet]))
        yield from groups

    # -- ways --------------------------------------------------------------------------------------------------------------------------

    def at_once(self, several: Sequence[Outlet], runner: Runner = _RUNNER) -> dict[Outlet, Told]:
        told: dict[Outlet, Told] = {}
        for demand, group in self._by_demand(several):
            pipeline = open_pipeline(
                self.case.data_dir,
                self.case.meta["dbname"],
                start_lsn=self.start,
                runner=runner,
                catalog=self._state,
                demand=demand,
            )
            for outlet in group:
                told[outlet] = Told()
                told[outlet].go_on(pipeline, outlet.started(self.case.major))
        return told

    def in_windows(self, several: Sequence[Outlet], cuts: Sequence[int]) -> dict[Outlet, Told]:
        """Windows that end at these records. What is carried from one to the next is the same whatever is asked of them."""
        indexes = self._indexes(cuts)
        groups = []
        for demand, group in self._by_demand(several):
            carried, asked = self._begun(indexes, demand)
            groups.append((asked, [(outlet.started(self.case.major), Told(), outlet) for outlet in group]))
        for index in indexes:
            for number, (asked, group) in enumerate(groups):
                window = planned(self.source, _RUNNER, carried, [index], asked)
                for plugin, told, _ in group:
                    told.go_on(window, plugin)
                groups[number] = replace(asked, streamed=window.blocks.after), group
            carried = carry(self.source, _RUNNER, carried, [index])
        return {outlet: told for _, group in groups for _, told, outlet in group}

    def with_kills(self, outlet: Outlet, cuts: Sequence[int], dice: random.Random) -> Told:
        """As `in_windows`, by a consumer that dies behind each window, and sometimes amid one: whoever comes next has the mark that was written at a
        window's end, and what the session knew where it was written last."""
        told = Told()
        indexes = self._indexes(cuts)
        plugin = outlet.started(self.case.major)
        carried, asked = self._begun(indexes, plugin.demand)
        session = _written(ConsumerSession())
        at = asked.start
        for index in indexes:
            for dies in (True, False) if dice.random() < 0.5 else (False,):
                plugin = outlet.started(self.case.major)
                plugin.recall(session.memory)
                now = replace(asked, start=at, streamed=session.streamed)
                carried_on, window = step(self.source, _RUNNER, carried, [index], now)
                if dies:
                    at, session = _amid(window, plugin, told, at, session, dice)
                    continue
                told.go_on(window, plugin)
                carried, session = (
                    read_mark(write_mark(carried_on), "a mark"),
                    _written(ConsumerSession(window.blocks.after, plugin.memory)),
                )
                at = Lsn(max(at, carried.lsn))
            if told.error:
                break
        return told

    def live(self, outlet: Outlet, cuts: Sequence[int], home: Path, dice: random.Random) -> Told:
        """A slot on an archive that grows up to each of these records, now and then with a new consumer."""
        first, *later = [*cuts, int(self.source.segments.stop_lsn)]
        growing, state = self.growing(first, home, ["mine"], two_phase=outlet.two_phase)
        told = Told()
        session = _written(ConsumerSession())
        for sitting in _sittings(later, dice):
            writer = _Collecting(told)
            with acquired(SlotLocation.open(state), "mine", _RUNNER) as consumer:
                writer.begin(consumer.slot)
                writer.session = session
                plugin = outlet.started(self.case.major)
                plugin.context.two_phase_since = int(consumer.slot.two_phase_at)
                last = self.records[-1] if sitting[-1] > self.records[-1] else sitting[-1]
                grows = threading.Thread(target=growing.slowly, args=(sitting,))
                grows.start()
                try:
                    receive_into(consumer, plugin, writer, upto=Lsn(last), tries_again=False)
                except TailraceError as error:
                    told.error = described(error)
                grows.join()
            if told.error:
                break
            session = _written(writer.kept)
        return told

    def growing(self, first: int, home: Path, names: Sequence[str], *, two_phase: bool = False) -> tuple[GrowingArchive, Path]:
        """An archive that ends at a record for now, and a state location with slots of these names on it."""
        archive, state, captured = home / "archive", home / "state", home / "captured"
        archive.mkdir(parents=True)
        growing = GrowingArchive(self.source, archive)
        growing.upto(first)
        captured.write_bytes(write_state(self._state))
        SlotLocation.create(state, self.source.segments.system, max_replication_slots=len(names))
        for name in names:
            create(name, archive, state, self.case.meta["dbname"], catalog=captured, at=str(self.start), two_phase=two_phase)
        return growing, state

    # -- how -----------------------------------------------------------------------------------------------------------------------------

    def _indexes(self, cuts: Sequence[int]) -> list[Index]:
        begin_at = self._state.needs_wal_from // PAGE_SIZE * PAGE_SIZE
        end = int(self.source.segments.stop_lsn)
        cells = range((begin_at // STRETCH_BYTES + 1) * STRETCH_BYTES, end, STRETCH_BYTES)
        stretches = stretches_between([begin_at, *sorted({*cuts, *cells}), end])
        return [scan_stretch(self.source.segments, (), stretch) for stretch in stretches]

    def _begun(self, indexes: Sequence[Index], demand: Demand) -> tuple[Carried, DecodingRange]:
        running = np.array(sorted(self._state.xids_open), np.int64)
        outlines = [outline(part, running) for part in indexes]
        return begin(
            self.source,
            _RUNNER,
            outlines,
            self.case.meta["dbname"],
            self._state,
            start_lsn=self.start,
            upto_lsn=None,
            demand=demand,
        )


def _amid(
    window: Pipeline, plugin: OutputPlugin, told: Told, at: Lsn, session: ConsumerSession, dice: random.Random
) -> tuple[Lsn, ConsumerSession]:
    """Some of the window is told, and written; where the consumer stands by then."""
    before = len(told.rows)
    with suppress(TailraceError):  # it dies of that
        for lines in window.lines(plugin):
            whole = int(dice.choice([0, *lines.ends.tolist()]))
            told.take([lines.part(0, whole)])
            if whole < len(lines) or not whole:
                break
            at = lines.position_behind(at)
            plugin.written_upto(at)
            session, before = _written(ConsumerSession(window.blocks.before, plugin.memory)), len(told.rows)
    del told.rows[before:]
    return at, session


def _written(session: ConsumerSession) -> ConsumerSession:
    """By way of a file."""
    return ConsumerSession.of(json.loads(json.dumps(session.facts())))


class _Collecting(Calling):
    """Rows, and the session where they were whole last."""

    def __init__(self, told: Told) -> None:
        super().__init__(self._take)
        self._told = told
        self.kept = ConsumerSession()

    def _take(self, rows: Rows) -> None:
        self._told.take([rows.lines])

    def whole(self, lsn: Lsn, session: ConsumerSession) -> None:
        super().whole(lsn, session)
        self.kept = session


def _sittings(cuts: Sequence[int], dice: random.Random) -> Iterator[list[int]]:
    """What one consumer sees of a log that grows, one consumer after the other."""
    rest = list(cuts)
    while rest:
        number = dice.randrange(1, 5)
        yield rest[:number]
        del rest[:number]


class GrowingArchive:
    """The log of a case, as an archive in which it is being written."""

    def __init__(self, source: Source, archive: Path) -> None:
        self._segments, self.archive = source.segments, archive
        self._numbers = sorted(source.segments.by_number)

    def slowly(self, cuts: Sequence[int]) -> None:
        for cut in cuts:
            self.upto(cut)
            threading.Event().wait(0.12)

    def upto(self, lsn: int) -> None:
        """As pg_receivewal writes it: whole segments, and a partial one of full size."""
        size = self._segments.segment_size
        for number in self._numbers:
            path = Path(self._segments.by_number[number].path)
            whole, partial = self.archive / path.name, self.archive / f"{path.name}.partial"
            if number * size >= lsn or whole.exists():
                continue
            content = path.read_bytes()
            if (number + 1) * size <= lsn:
                _write_in_place(partial, content)
                partial.rename(whole)
            else:
                _write_in_place(partial, content[: lsn - number * size].ljust(size, b"\0"))


def _write_in_place(path: Path, content: bytes) -> None:
    """No reader ever finds the file shorter than it was."""
    with path.open("r+b" if path.exists() else "wb") as file:
        file.write(content)


def check_same(found: Told, expected: Told, what: str) -> None:
    """Row by row; what was streamed as it is understood."""
    if found == expected:
        return
    pairs = enumerate(zip(found.rows, expected.rows, strict=False))
    at = next((i for i, (mine, other) in pairs if mine != other), min(len(found.rows), len(expected.rows)))
    shown = [
        f"{who} {Lsn(lsn)} {xid} {data[:200]!r}"
        for who, told in (("found   ", found), ("expected", expected))
        for lsn, xid, data in told.rows[max(0, at - 2) : at + 3]
    ]
    head = f"{what}: row {at} of {len(found.rows)}, {len(expected.rows)}; {found.error or 'no error'}, {expected.error or 'no error'}"
    pytest.fail("\n".join([head, *shown]), pytrace=False)


def check_understood(outlet: Outlet, found: Told, expected: Told, what: str) -> None:
    """What was streamed is, put together, what comes whole."""
    assert found.error == expected.error, f"{what}: {found.error}, {expected.error}"
    mine, other = outlet.understood(found.rows), outlet.understood(expected.rows)
    for number, (one, two) in enumerate(zip(mine, other, strict=False)):
        assert one == two, f"{what}: {number} of {len(mine)}, {len(other)}\n{one}\n{two}"
    assert len(mine) == len(other), what


def some_cuts(records: Sequence[int], most: int, dice: random.Random) -> list[int]:
    """At so many of the records at most."""
    return sorted(dice.sample(records, min(len(records), dice.randrange(1, most + 1))))


def one_by_one(records: Sequence[int], most: int, dice: random.Random) -> list[int]:
    """At every record; of a longer log, at so many in a row."""
    at = dice.randrange(max(1, len(records) - most + 1))
    return list(records[at : at + most])
