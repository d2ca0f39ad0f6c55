"""The ordered driver: changes formatted far and wide, put in commit order between BEGIN and COMMIT.

In: a plan, a plugin, and a way to run work on stretches. Out: `Lines`, runs of output rows in order. Order is total (rule 4): by
commit LSN (for a message outside transactions its own LSN), then BEGIN, changes by (LSN, sequence), COMMIT.

Stretches are formatted once, in WAL order. After each, the transactions that committed before the next one begins come out, and
rows of those still open are held. So that no more is held than HELD_BYTES, the largest of the open ones are *evicted*, as from
the reorder buffer, which writes them to disk (`ReorderBufferCheckMemoryLimit`). Here the log has them: when their turn comes,
their stretches are read once more, for them alone, one at a time.

    stretch ──► rows of the ended ──► out, in order
           └──► rows of the open  ──► held ──► out with a later stretch
    evicted: stretch ──► out, stretch ──► out, …
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tailrace.decode import Batch, Reader, decode_by_descriptor
from tailrace.errors import TailraceError
from tailrace.plan import Plan
from tailrace.plan.events import LogicalMessage, Truncation
from tailrace.plan.stretch_plan import StretchPlan
from tailrace.plugins.commit_order import TransactionGroup
from tailrace.plugins.failures import ChangePlace, Failure, first, made_before_failure
from tailrace.plugins.formatted_changes import NO_XIDS, FormattedChanges, RelationsMet
from tailrace.plugins.formatter import Formatter
from tailrace.plugins.lines import Lines
from tailrace.plugins.ordering import in_order
from tailrace.plugins.output_plugin import OutputPlugin, PluginWarning
from tailrace.publications.publishing.publisher import Publisher
from tailrace.publications.publishing.relation_sync_entry import RelationSyncEntry
from tailrace.types.encodings.server_encodings import unchecked
from tailrace.types.values import Texts

HELD_BYTES = 128 << 20
"""WAL bytes of rows of open transactions that are held, formatted, until they commit."""

Run = Callable[[Callable[[StretchPlan], FormattedChanges], Sequence[StretchPlan]], Iterator[FormattedChanges]]
"""Run a function on every item, somewhere, and give the results in the order of the items."""


def format_stretch(plan: StretchPlan, read: Reader, formatter: Formatter, publisher: Publisher | None = None) -> FormattedChanges:
    """Decode a stretch, and have what is published of it formatted, up to the first change for which that fails. Runs in a
    worker."""
    keys = [np.zeros((3, 0), np.int64)]
    xids = [NO_XIDS]
    met = RelationsMet()
    warned: set[str] = set()
    failure: Failure | None = None
    codec = plan.codec if formatter.checks_values else unchecked(plan.codec)

    def formatted(entry: RelationSyncEntry | None, part: Batch) -> list[tuple[Batch, Texts]]:
        shown = [part] if publisher is None or entry is None else list(publisher.publish_part(part, entry))
        warned.update(*(formatter.warnings(batch) for batch in shown))
        return [(batch, formatter.with_names(batch.names, codec).change_texts(batch)) for batch in shown]

    def texts_of_batches() -> Iterator[Texts]:
        nonlocal failure
        for changes in decode_by_descriptor(plan, read):
            for entry, part in [(None, changes)] if publisher is None else publisher.parts(changes):
                found, failed = made_before_failure(part, partial(formatted, entry))
                failure = first(failure, failed)
                for batch, texts in found:
                    keys.append(np.stack([batch.ordinal, batch.lsn, batch.sequence]))
                    if batch.xid is not None:
                        xids.append(batch.xid)
                    if formatter.needs_relations:
                        met.add(batch, formatter.relations_of(batch))
                    yield texts

    texts = Texts.concatenated(texts_of_batches(), 4 * (plan.stretch.stop - plan.stretch.start))
    ordinal, lsn, sequence = np.concatenate(keys, axis=1)
    order = np.lexsort((sequence, lsn, ordinal))
    streamed = order if len(xids) > 1 else slice(0)
    return FormattedChanges(
        ordinal=ordinal[order], lsn=lsn[order], sequence=sequence[order], texts=Texts.merged([texts], order),
        relations=tuple(met.relations), relation=met.of_rows(order), failure=failure,
        xid=np.concatenate(xids)[streamed], passed_over=frozenset(publisher.passed_over if publisher else ()),
        warnings=frozenset(warned),
    )  # fmt: skip


def drive(
    plan: Plan,
    plugin: OutputPlugin,
    run: Run,
    format_one: Callable[[StretchPlan], FormattedChanges],
    publisher: Publisher | None = None,
) -> Iterator[Lines]:
    """All output rows of the plan, in order; where there is a publisher, of what it publishes."""
    for lines in _Drive(plan, plugin, run, format_one, publisher).lines():
        yield lines
        if plugin.failed is not None:
            raise plugin.failed


class _Drive:
    """One run of the driver, and what it still has to give: transactions from `shown[done]` on, events, rows held."""

    def __init__(
        self,
        plan: Plan,
        plugin: OutputPlugin,
        run: Run,
        format_one: Callable[[StretchPlan], FormattedChanges],
        publisher: Publisher | None,
    ) -> None:
        self._plan = plan
        self._plugin = plugin
        self._run = run
        self._format_one = format_one
        self._passed_over = publisher.passed_over if publisher is not None else set()
        self._done = 0
        self._held: list[FormattedChanges] = []
        messages = plan.messages if plugin.wants.messages else []
        self._failure: Failure | None = None
        plugin.context.transactions = plan.transactions
        truncations = plan.truncations if publisher is None else list(self._published(publisher))
        if plugin.wants.truncate_each:
            truncations = [replace(each, relations=(relation,)) for each in truncations for relation in each.relations]
        self._outside = sorted((message for message in messages if message.ordinal < 0), key=lambda message: message.lsn)
        self._inside: dict[int, list[LogicalMessage | Truncation]] = {}
        events: list[LogicalMessage | Truncation] = [*messages, *truncations]
        for item in sorted(events, key=lambda item: item.lsn):
            self._inside.setdefault(item.ordinal, []).append(item)

    def lines(self) -> Iterator[Lines]:
        plan = self._plan
        self._evicted = evicted(plan, HELD_BYTES)
        stretches = plan.restricted_to(~self._evicted)
        commits = plan.transactions.commit_lsn[plan.shown]
        ready = [int(np.searchsorted(commits, later.stretch.start)) for later in stretches[1:]] + [len(commits)] * bool(stretches)
        for formatted, upto in zip(self._run(self._format_one, stretches), ready, strict=True):
            self._failure = first(self._failure, formatted.failure)
            self._held.append(formatted)
            self._passed_over |= formatted.passed_over
            self._warn(formatted.warnings)
            del formatted  # or the name would keep it while its lines are being consumed
            yield from self._transactions(upto)
        yield from self._transactions(len(commits))
        if self._outside:
            due, self._outside = self._outside, []
            yield self._in_order(TransactionGroup(plan.shown[:0], [], [], due))

    def _transactions(self, upto: int) -> Iterator[Lines]:
        """Transactions `shown[done:upto]`; those evicted one by one, the others in runs."""
        while self._done < upto:
            ordinals = self._plan.shown[self._done : upto]
            if self._failure is not None:
                ordinals = ordinals[ordinals < self._failure.place.ordinal]
                if not len(ordinals):
                    if due := self._due(self._failure.place.ordinal):
                        yield self._in_order(TransactionGroup(ordinals, [], [], due))
                    raise self._raised(self._failure)
            alone = np.flatnonzero(self._evicted[ordinals])
            if len(alone) and alone[0] == 0:
                self._done += 1
                yield from self._one_evicted(int(ordinals[0]))
                continue
            if len(alone):
                ordinals = ordinals[: alone[0]]
            self._done += len(ordinals)
            inside = [item for ordinal in ordinals.tolist() for item in self._inside.get(ordinal, ())] if self._inside else []
            rows = self._rows_upto(int(ordinals[-1]))
            yield self._in_order(TransactionGroup(ordinals, rows, inside, self._due(int(ordinals[-1]))))

    def _rows_upto(self, ordinal: int) -> list[FormattedChanges]:
        """Held rows of transactions up to this one, which are held no longer."""
        ended: list[FormattedChanges] = []
        still: list[FormattedChanges] = []
        for part in self._held:
            stop = int(np.searchsorted(part.ordinal, ordinal, "right"))
            if stop:
                ended.append(part.part(0, stop))
            if stop < len(part.ordinal):
                still.append(part.part(stop, len(part.ordinal)).copied() if stop else part)
        self._held = still
        return ended

    def _due(self, ordinal: int) -> list[LogicalMessage]:
        """Messages outside of transactions that stand before this commit."""
        commit = int(self._plan.transactions.commit_lsn[ordinal])
        due = [message for message in self._outside if message.lsn < commit]
        self._outside = self._outside[len(due) :]
        return due

    def _one_evicted(self, ordinal: int) -> Iterator[Lines]:
        """A transaction too large to hold: its stretches come in WAL order, which is its own; what must stand between rows joins
        the next stretch."""
        plan = self._plan
        inside = self._inside.get(ordinal, [])
        only = np.array([ordinal])
        wanted = np.zeros(len(plan.transactions), np.bool_)
        wanted[ordinal] = True
        before: list[LogicalMessage] | None = self._due(ordinal)
        for formatted in self._run(self._format_one, plan.restricted_to(wanted)):
            self._passed_over |= formatted.passed_over
            self._warn(formatted.warnings)
            if formatted.failure is not None:
                raise self._raised(formatted.failure)
            if not len(formatted.lsn):
                continue
            upto = int(formatted.lsn[-1])
            now = [item for item in inside if item.lsn <= upto]
            inside = inside[len(now) :]
            lines = self._in_order(TransactionGroup(only, [formatted], now, before or [], begins=before is not None, ends=False))
            before = None
            del formatted
            yield lines
            del lines
        yield self._in_order(TransactionGroup(only, [], inside, before or [], begins=before is not None))

    def _in_order(self, group: TransactionGroup) -> Lines:
        return in_order(self._plan, self._plugin, group)

    def _warn(self, texts: frozenset[str]) -> None:
        """Issue each warning once a stream."""
        for text in sorted(texts - self._plugin.warned):
            warnings.warn(text, PluginWarning, stacklevel=2)
        self._plugin.warned |= texts

    def _raised(self, failure: Failure) -> TailraceError:
        return failure.raised(self._plugin, streamed=bool(self._plan.streams.streamed[failure.place.ordinal]))

    def _published(self, publisher: Publisher) -> Iterator[Truncation]:
        """Those that remain, before the first for which that fails."""
        for truncation in self._plan.truncations:
            try:
                relations = publisher.truncated(truncation)
            except TailraceError as error:
                place = ChangePlace(truncation.ordinal, int(truncation.lsn), 0)
                self._failure = first(self._failure, Failure(place, error, "truncate"))
                continue
            if relations:
                yield replace(truncation, relations=relations)


def evicted(plan: Plan, limit: int) -> NDArray[np.bool_]:
    """By ordinal, the transactions that are not held: rows of others that are still open at the end of a stretch take at most
    `limit` bytes of WAL."""
    alone = np.zeros(len(plan.transactions), np.bool_)
    open_bytes: dict[int, int] = {}
    total = 0
    for stretch, later in pairwise(plan.stretches):
        following = later.stretch.start
        waits = (plan.transactions.commit_lsn[stretch.ordinal] >= following) & ~alone[stretch.ordinal]
        for ordinal, size in zip(stretch.ordinal[waits].tolist(), stretch.row_bytes[waits].tolist(), strict=True):
            open_bytes[ordinal] = open_bytes.get(ordinal, 0) + size
            total += size
        for ordinal in [ordinal for ordinal in open_bytes if plan.transactions.commit_lsn[ordinal] < following]:
            total -= open_bytes.pop(ordinal)
        while total > limit:
            largest = max(open_bytes, key=lambda ordinal: open_bytes[ordinal])
            total -= open_bytes.pop(largest)
            alone[largest] = True
    return alone
