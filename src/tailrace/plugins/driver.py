"""The ordered driver: changes formatted far and wide, put in commit order between BEGIN and COMMIT.

In: a plan, a plugin, and a way to run work on stretches. Out: `Lines`, runs of output rows in order. Order is total (rule 4): by commit LSN (for a
message outside transactions its own LSN), then BEGIN, changes by (LSN, number within the record), COMMIT.

Stretches are formatted once, in WAL order. After each, the transactions that committed before the next one begins come out, and rows of those still
open are held. So that no more is held than HELD_BYTES, the largest of the open ones are set *apart*: they wait for nothing, and when their turn
comes their stretches are read once more, for them alone, one at a time.

    stretch ──► rows of the ended ──► out, in order
           └──► rows of the open  ──► held ──► out with a later stretch
    apart: stretch ──► out, stretch ──► out, …
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tailrace.decode import Reader, decode
from tailrace.plan import Plan
from tailrace.plan.events import LogicalMessage, Truncation
from tailrace.plan.stretch import StretchPlan
from tailrace.plugins.plugin import OutputPlugin
from tailrace.transactions.fates import Transactions
from tailrace.types.values import Texts
from tailrace.wal import xact
from tailrace.wal.loads import copy, u8

HELD_BYTES = 128 << 20
"""WAL bytes of rows of open transactions that are held, formatted, until they commit."""

_CHANGE, _COMMIT = 0, 1
_BEFORE = -1
"""Where a BEGIN stands among the rows of the record that it comes before."""


@dataclass(slots=True)
class Lines:
    """Output rows in order: LSN, xid and text of each."""

    lsn: NDArray[np.int64]
    xid: NDArray[np.uint32]
    texts: Texts

    def __len__(self) -> int:
        return len(self.lsn)


@dataclass(slots=True)
class Formatted:
    """What a worker makes of a stretch: texts with their order keys, sorted by (ordinal, LSN, number)."""

    ordinal: NDArray[np.int64]
    lsn: NDArray[np.int64]
    sub: NDArray[np.int64]
    texts: Texts

    def part(self, start: int, stop: int) -> Formatted:
        """Rows `[start, stop)`, sharing memory."""
        offsets = self.texts.offsets[start : stop + 1]
        texts = Texts(offsets - offsets[0], self.texts.data[offsets[0] : offsets[-1]])
        return Formatted(self.ordinal[start:stop], self.lsn[start:stop], self.sub[start:stop], texts)

    def copied(self) -> Formatted:
        """The same in memory of its own, so that what it was a part of can be freed."""
        return Formatted(self.ordinal.copy(), self.lsn.copy(), self.sub.copy(), Texts(self.texts.offsets, self.texts.data.copy()))


Run = Callable[[Callable[[StretchPlan], Formatted], Sequence[StretchPlan]], Iterator[Formatted]]
"""Run a function on every item, somewhere, and give the results in the order of the items."""


def format_stretch(plan: StretchPlan, read: Reader, plugin: OutputPlugin) -> Formatted:
    """Decode a stretch and let the plugin format it. Runs in a worker."""
    knowing = plugin.knowing(plan.names, plan.codec)
    parts = [(batch, knowing.change_texts(batch)) for batch in decode(plan, read)]
    ordinal = np.concatenate([batch.ordinal for batch, _ in parts]) if parts else np.zeros(0, np.int64)
    lsn = np.concatenate([batch.lsn for batch, _ in parts]) if parts else np.zeros(0, np.int64)
    sub = np.concatenate([batch.sub for batch, _ in parts]) if parts else np.zeros(0, np.int64)
    order = np.lexsort((sub, lsn, ordinal))
    return Formatted(ordinal[order], lsn[order], sub[order], _taken([texts for _, texts in parts], order))


def drive(plan: Plan, plugin: OutputPlugin, run: Run, format_one: Callable[[StretchPlan], Formatted]) -> Iterator[Lines]:
    """All output rows of the plan, in order."""
    return _Drive(plan, plugin, run, format_one).lines()


class _Drive:
    """One run of the driver, and what it still has to give: transactions from `shown[done]` on, events, rows held."""

    def __init__(self, plan: Plan, plugin: OutputPlugin, run: Run, format_one: Callable[[StretchPlan], Formatted]) -> None:
        self._plan = plan
        self._plugin = plugin
        self._run = run
        self._format_one = format_one
        self._done = 0
        self._held: list[Formatted] = []
        self._outside = sorted((message for message in plan.messages if message.ordinal < 0), key=lambda message: message.lsn)
        self._inside: dict[int, list[LogicalMessage | Truncation]] = {}
        events: list[LogicalMessage | Truncation] = [*plan.messages, *plan.truncations]
        for item in sorted(events, key=lambda item: item.lsn):
            self._inside.setdefault(item.ordinal, []).append(item)

    def lines(self) -> Iterator[Lines]:
        plan = self._plan
        self._apart = apart(plan, HELD_BYTES)
        stretches = plan.restricted_to(~self._apart)
        commits = plan.transactions.commit_lsn[plan.shown]
        ready = [int(np.searchsorted(commits, following.stretch.start)) for following in stretches[1:]] + [len(commits)]
        for formatted, upto in zip(self._run(self._format_one, stretches), ready, strict=True):
            self._held.append(formatted)
            del formatted  # or the name would keep it while its lines are being consumed
            yield from self._transactions(upto)
        yield from self._transactions(len(commits))
        if self._outside:
            due, self._outside = self._outside, []
            yield _in_order(plan, self._plugin, plan.shown[:0], due, [], [], begin=True, commit=True)

    def _transactions(self, upto: int) -> Iterator[Lines]:
        """Transactions `shown[done:upto]`; those apart one by one, the others in runs."""
        while self._done < upto:
            ordinals = self._plan.shown[self._done : upto]
            alone = np.flatnonzero(self._apart[ordinals])
            if len(alone) and alone[0] == 0:
                self._done += 1
                yield from self._one_apart(int(ordinals[0]))
                continue
            if len(alone):
                ordinals = ordinals[: alone[0]]
            self._done += len(ordinals)
            inside = [item for ordinal in ordinals.tolist() for item in self._inside.get(ordinal, ())] if self._inside else []
            rows = self._rows_upto(int(ordinals[-1]))
            yield _in_order(
                self._plan, self._plugin, ordinals, self._due(int(ordinals[-1])), rows, inside, begin=True, commit=True
            )

    def _rows_upto(self, ordinal: int) -> list[Formatted]:
        """Held rows of transactions up to this one, which are held no longer."""
        ended: list[Formatted] = []
        still: list[Formatted] = []
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

    def _one_apart(self, ordinal: int) -> Iterator[Lines]:
        """A transaction too large to hold: its stretches come in WAL order, which is its own; what must stand between rows joins the next stretch."""
        plan, plugin = self._plan, self._plugin
        inside = self._inside.get(ordinal, [])
        only = np.array([ordinal])
        wanted = np.zeros(len(plan.transactions), np.bool_)
        wanted[ordinal] = True
        before: list[LogicalMessage] | None = self._due(ordinal)
        for formatted in self._run(self._format_one, plan.restricted_to(wanted)):
            if not len(formatted.lsn):
                continue
            upto = int(formatted.lsn[-1])
            now = [item for item in inside if item.lsn <= upto]
            inside = inside[len(now) :]
            yield _in_order(plan, plugin, only, before or [], [formatted], now, begin=before is not None, commit=False)
            before = None
        yield _in_order(plan, plugin, only, before or [], [], inside, begin=before is not None, commit=True)


def apart(plan: Plan, limit: int) -> NDArray[np.bool_]:
    """By ordinal, the transactions not to be held: rows of others that are still open at the end of a stretch take `limit` bytes of WAL at most."""
    alone = np.zeros(len(plan.transactions), np.bool_)
    open_bytes: dict[int, int] = {}
    total = 0
    for stretch, following in zip(plan.stretches, [*(later.stretch.start for later in plan.stretches[1:]), None], strict=True):
        if following is None:
            break
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


def _in_order(
    plan: Plan, plugin: OutputPlugin, ordinals: NDArray[np.int64], due: list[LogicalMessage], results: list[Formatted],
    inside: list[LogicalMessage | Truncation], *, begin: bool, commit: bool,
) -> Lines:  # fmt: skip
    """Everything of these transactions as lines, sorted: their rows, events `inside` of them, and messages `due` before the last commit."""
    transactions = plan.transactions
    ordinal = np.concatenate([*(part.ordinal for part in results), np.array([item.ordinal for item in inside], np.int64)]).astype(
        np.int64
    )
    lsn = np.concatenate([*(part.lsn for part in results), np.array([item.lsn for item in inside], np.int64)]).astype(np.int64)
    printed = lsn.copy()
    for i, item in enumerate(inside, start=len(lsn) - len(inside)):
        if isinstance(item, LogicalMessage):
            printed[i] = item.end_lsn
    begin_lsn, begin_at = transactions.first_lsn[ordinals], np.zeros(len(ordinals), np.int64)
    if plugin.skips_empty_transactions:
        counts = np.ones(len(lsn), np.bool_)
        if not plugin.messages_begin:
            messages = [i for i, item in enumerate(inside, start=len(lsn) - len(inside)) if isinstance(item, LogicalMessage)]
            counts[messages] = False
        if begin and commit:  # whole transactions; one in parts has rows
            ordinals = ordinals[np.isin(ordinals, ordinal[counts]) | ~transactions.has_rows[ordinals]]
        begin_lsn, begin_at = (_firsts(ordinal[counts], each[counts], len(transactions))[ordinals] for each in (printed, lsn))
    texts = [part.texts for part in results]
    texts.append(Texts.of([_inside_text(plugin, item) for item in inside]))
    texts.append(Texts.of([plugin.message_text(message) for message in due]))
    begun = transactions.has_rows[ordinals] & begin
    beginning, begin_lsn, begin_at = ordinals[begun], begin_lsn[begun], begin_at[begun]
    ending = ordinals if commit else ordinals[:0]
    texts += [plugin.begin_texts(transactions.subset(beginning)), _end_texts(plugin, transactions, ending)]

    due_lsn = np.array([message.lsn for message in due], np.int64)
    order = _order(transactions.commit_lsn, results, inside, due_lsn, beginning, begin_at, ending)
    all_printed = np.concatenate(
        [printed, np.array([message.end_lsn for message in due], np.int64), begin_lsn, transactions.end_lsn[ending]]
    )
    all_xid = np.concatenate(
        [
            transactions.xid[ordinal],
            np.array([message.xid for message in due], np.uint32),
            transactions.xid[beginning],
            transactions.xid[ending],
        ]
    )
    return Lines(all_printed[order], all_xid[order].astype(np.uint32), _taken(texts, order))


def _firsts(ordinal: NDArray[np.int64], lsn: NDArray[np.int64], transactions: int) -> NDArray[np.int64]:
    """The least LSN of each transaction, by ordinal."""
    first = np.full(transactions, np.iinfo(np.int64).max, np.int64)
    np.minimum.at(first, ordinal, lsn)
    return first


def _end_texts(plugin: OutputPlugin, transactions: Transactions, ordinals: NDArray[np.int64]) -> Texts:
    """What ends each transaction: a commit, nearly always."""
    kinds = transactions.kind[ordinals]
    if (kinds == xact.COMMIT).all():
        return plugin.commit_texts(transactions.subset(ordinals))
    parts = {
        xact.COMMIT: plugin.commit_texts, xact.PREPARE: plugin.prepare_texts,
        xact.COMMIT_PREPARED: plugin.commit_prepared_texts, xact.ABORT_PREPARED: plugin.rollback_prepared_texts,
    }  # fmt: skip
    at = [np.flatnonzero(kinds == kind) for kind in parts]
    texts = [part(transactions.subset(ordinals[mine])) for part, mine in zip(parts.values(), at, strict=True)]
    return _taken(texts, np.argsort(np.concatenate(at), kind="stable"))


def _order(
    commit_lsn: NDArray[np.int64], results: list[Formatted], inside: list[LogicalMessage | Truncation], due: NDArray[np.int64],
    begun: NDArray[np.int64], begun_at: NDArray[np.int64], ended: NDArray[np.int64],
) -> NDArray[np.int64]:  # fmt: skip
    """The order in which rows stand, as numbers into: rows of `results`, `inside`, `due`, BEGINs, COMMITs, end to end.

    Not the rows are sorted but runs of them: a stretch's rows of one transaction are in order already, and stretches come in WAL order. Only a
    transaction with a message or TRUNCATE inside has runs of single rows, where those must find their place.
    """
    split = np.array(sorted({item.ordinal for item in inside}), np.int64)
    starts: list[NDArray[np.int64]] = []
    keys: list[NDArray[np.int64]] = []
    base = 0
    for part in results:
        first = np.ones(len(part.ordinal), np.bool_)
        first[1:] = part.ordinal[1:] != part.ordinal[:-1]
        if len(split):
            first |= np.isin(part.ordinal, split)
        at = np.flatnonzero(first)
        starts.append(at + base)
        keys.append(np.stack([commit_lsn[part.ordinal[at]], np.full(len(at), _CHANGE), part.lsn[at], part.sub[at]]))
        base += len(part.ordinal)
    rows = base
    singles = [
        np.stack([commit_lsn[[item.ordinal for item in inside]], np.full(len(inside), _CHANGE), [item.lsn for item in inside], [0] * len(inside)])
        if inside else np.zeros((4, 0), np.int64),
        np.stack([due, np.full(len(due), _CHANGE), due, np.zeros(len(due), np.int64)]),
        np.stack([commit_lsn[begun], np.full(len(begun), _CHANGE), begun_at, np.full(len(begun), _BEFORE)]),
        np.stack([commit_lsn[ended], np.full(len(ended), _COMMIT), np.zeros(len(ended), np.int64), np.zeros(len(ended), np.int64)]),
    ]  # fmt: skip
    extra = sum(single.shape[1] for single in singles)
    start = np.concatenate([*starts, np.arange(rows, rows + extra)]).astype(np.int64)
    stop = np.append(start[1:], rows + extra)
    key = np.concatenate([*keys, *singles], axis=1).astype(np.int64)
    order = np.lexsort((key[3], key[2], key[1], key[0]))
    return expanded(start[order], (stop - start)[order], rows + extra)


@njit(cache=True, nogil=True)
def expanded(start, length, total):  # type: ignore[no-untyped-def]
    """start[0], start[0] + 1, … for each run."""
    out = np.empty(total, np.int64)
    to = 0
    for run in range(len(start)):
        for i in range(length[run]):
            out[to] = start[run] + i
            to += 1
    return out


def _inside_text(plugin: OutputPlugin, item: LogicalMessage | Truncation) -> str | bytes:
    return plugin.message_text(item) if isinstance(item, LogicalMessage) else plugin.truncate_text(item)


def _taken(parts: Sequence[Texts], order: NDArray[np.int64]) -> Texts:
    """Rows of the concatenation of `parts`, in the given order, each copied once."""
    if len(parts) == 1 and bool((np.diff(order) == 1).all()) and (not len(order) or order[0] == 0):
        return parts[0]
    lengths = np.concatenate([np.diff(part.offsets) for part in parts]) if parts else np.zeros(0, np.int64)
    offsets = np.zeros(len(order) + 1, np.int64)
    np.cumsum(lengths[order], out=offsets[1:])
    out = np.empty(offsets[-1], np.uint8)
    place = np.empty(len(order), np.int64)
    place[order] = offsets[:-1]
    base = 0
    for part in parts:
        rows = len(part.offsets) - 1
        copy_texts(part.data, part.offsets, place[base : base + rows], out)
        base += rows
    return Texts(offsets, out)


@njit(cache=True, nogil=True)
def copy_texts(data, offsets, place, out):  # type: ignore[no-untyped-def]
    """Text i to out[place[i]]."""
    for i in range(len(place)):
        copy(out, place[i], data, offsets[i], offsets[i + 1] - offsets[i])


@njit(cache=True, nogil=True)
def print_rows(lsn, xid, offsets, data):  # type: ignore[no-untyped-def]
    """`lsn<TAB>xid<TAB>data<LF>` for each row, as `psql -At -F '<TAB>'` prints them."""
    out = np.empty(len(data) + 32 * len(lsn), np.uint8)
    to = 0
    for row in range(len(lsn)):
        for half in range(2):
            word = (lsn[row] >> 32) & 0xFFFFFFFF if half == 0 else lsn[row] & 0xFFFFFFFF
            digits = 1
            while digits < 8 and word >> (4 * digits):
                digits += 1
            for i in range(digits - 1, -1, -1):
                nibble = (word >> (4 * i)) & 15
                out[to] = 48 + nibble if nibble < 10 else 55 + nibble
                to += 1
            out[to] = 47 if half == 0 else 9
            to += 1
        number = np.int64(xid[row])
        digits = 1
        power = np.int64(10)
        while number >= power:
            power *= 10
            digits += 1
        for i in range(digits - 1, -1, -1):
            out[to + i] = 48 + number % 10
            number //= 10
        to += digits
        out[to] = 9
        to += 1
        copy(out, to, data, offsets[row], offsets[row + 1] - offsets[row])
        to += offsets[row + 1] - offsets[row]
        out[to] = 10
        to += 1
    return out[:to]


def in_hex(texts: Texts) -> Texts:
    """Binary output as `bytea` prints: what pg_logical_slot_get_binary_changes shows."""
    sizes = np.diff(texts.offsets)
    offsets = np.zeros(len(texts.offsets), np.int64)
    np.cumsum(2 * sizes + 2, out=offsets[1:])
    out = np.empty(offsets[-1], np.uint8)
    write_hex(texts.data, texts.offsets, offsets, out)
    return Texts(offsets, out)


@njit(cache=True, nogil=True)
def write_hex(data, offsets, to, out):  # type: ignore[no-untyped-def]
    """`\\x` and two digits a byte, for each text."""
    for row in range(len(to) - 1):
        at = to[row]
        out[at] = 92
        out[at + 1] = 120
        at += 2
        for i in range(offsets[row], offsets[row + 1]):
            byte = u8(data, i)
            for nibble in (byte >> 4, byte & 15):
                out[at] = 48 + nibble if nibble < 10 else 87 + nibble
                at += 1
