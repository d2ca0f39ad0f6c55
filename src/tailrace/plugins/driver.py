"""The ordered driver: changes formatted far and wide, put in commit order between BEGIN and COMMIT.

In: a plan, a plugin, and a way to run work on stretches. Out: `Lines`, runs of output rows in order. Order is total (rule 4): by commit LSN (for a
message outside transactions its own LSN), then BEGIN, changes by (LSN, number within the record), COMMIT. Memory is bounded: transactions are
formatted a few at a time by the WAL their rows take, and one that alone is too large goes stretch by stretch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tailrace.decode import Reader, StretchPlan, decode
from tailrace.plan import LogicalMessage, Plan, Truncation
from tailrace.plugins.plugin import OutputPlugin
from tailrace.types.values import Texts
from tailrace.wal.loads import copy
from tailrace.wal.versions import FORMATS

PASS_BYTES = 512 << 20
"""WAL bytes of rows that are formatted before any is printed."""

_BEGIN, _CHANGE, _COMMIT = 0, 1, 2


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


Run = Callable[[Callable[[StretchPlan], Formatted], Sequence[StretchPlan]], Iterator[Formatted]]
"""Run a function on every item, somewhere, and give the results in the order of the items."""


def format_stretch(plan: StretchPlan, read: Reader, plugin: OutputPlugin) -> Formatted:
    """Decode a stretch and let the plugin format it. Runs in a worker."""
    parts = [(batch, plugin.change_texts(batch, batch.relation, ())) for batch in decode(plan, read)]
    ordinal = np.concatenate([batch.ordinal for batch, _ in parts]) if parts else np.zeros(0, np.int64)
    lsn = np.concatenate([batch.lsn for batch, _ in parts]) if parts else np.zeros(0, np.int64)
    sub = np.concatenate([batch.sub for batch, _ in parts]) if parts else np.zeros(0, np.int64)
    order = np.lexsort((sub, lsn, ordinal))
    return Formatted(ordinal[order], lsn[order], sub[order], _taken([texts for _, texts in parts], order))


def drive(plan: Plan, plugin: OutputPlugin, run: Run, format_one: Callable[[StretchPlan], Formatted]) -> Iterator[Lines]:
    """All output rows of the plan, in order."""
    messages = sorted((message for message in plan.messages if message.ordinal < 0), key=lambda message: message.lsn)
    for ordinals in _passes(plan):
        last_commit = int(plan.transactions.commit_lsn[ordinals[-1]])
        due = [message for message in messages if message.lsn < last_commit]
        messages = messages[len(due) :]
        stretches = plan.restricted_to(ordinals)
        if len(ordinals) == 1 and len(stretches) > 1:
            yield from _one_large(plan, plugin, int(ordinals[0]), due, run(format_one, stretches))
        else:
            yield _in_order(plan, plugin, ordinals, due, list(run(format_one, stretches)), begin=True, commit=True)
    if messages:
        yield _in_order(plan, plugin, np.zeros(0, np.int64), messages, [], begin=True, commit=True)


def _passes(plan: Plan) -> Iterator[NDArray[np.int64]]:
    """Shown ordinals in runs that are small enough together, or single."""
    start = 0
    total = 0
    for i, size in enumerate(plan.row_bytes.tolist()):
        if i > start and total + size > PASS_BYTES:
            yield plan.shown[start:i]
            start, total = i, 0
        total += size
    if start < len(plan.shown):
        yield plan.shown[start:]


def _one_large(plan: Plan, plugin: OutputPlugin, ordinal: int, due: list[LogicalMessage], results: Iterator[Formatted]) -> Iterator[Lines]:
    """A transaction too large to hold: its stretches come in WAL order, which is its own; what must stand between rows joins the next stretch."""
    inside = _inside(plan, {ordinal})
    only = np.array([ordinal])
    begun = False
    for formatted in results:
        if not len(formatted.lsn):
            continue
        upto = (int(formatted.lsn[-1]), 1 << 30)
        now = [item for item in inside if (item.lsn, 0) <= upto]
        inside = inside[len(now) :]
        yield _in_order(plan, plugin, only, due if not begun else [], [formatted], begin=not begun, commit=False, inside=now)
        begun = True
    yield _in_order(plan, plugin, only, [] if begun else due, [], begin=not begun, commit=True, inside=inside)


def _inside(plan: Plan, ordinals: set[int]) -> list[LogicalMessage | Truncation]:
    items: list[LogicalMessage | Truncation] = [message for message in plan.messages if message.ordinal in ordinals]
    items += [truncation for truncation in plan.truncations if truncation.ordinal in ordinals]
    return sorted(items, key=lambda item: item.lsn)


def _in_order(
    plan: Plan, plugin: OutputPlugin, ordinals: NDArray[np.int64], due: list[LogicalMessage], results: list[Formatted], *,
    begin: bool, commit: bool, inside: list[LogicalMessage | Truncation] | None = None,
) -> Lines:  # fmt: skip
    """Everything of these transactions as lines, sorted."""
    transactions = plan.transactions
    if inside is None:
        inside = _inside(plan, set(ordinals.tolist()))
    ordinal = np.concatenate([*(part.ordinal for part in results), np.array([item.ordinal for item in inside], np.int64)]).astype(np.int64)
    lsn = np.concatenate([*(part.lsn for part in results), np.array([item.lsn for item in inside], np.int64)]).astype(np.int64)
    printed = lsn.copy()
    for i, item in enumerate(inside, start=len(lsn) - len(inside)):
        if isinstance(item, LogicalMessage):
            printed[i] = item.end_lsn
    starts = lsn
    if plugin.skips_empty_transactions:
        counts = np.ones(len(lsn), np.bool_)
        if not _message_counts(plan):
            messages = [i for i, item in enumerate(inside, start=len(lsn) - len(inside)) if isinstance(item, LogicalMessage)]
            counts[messages] = False
        ordinals = np.intersect1d(ordinals, ordinal[counts])
        first = np.full(len(transactions), np.iinfo(np.int64).max, np.int64)
        np.minimum.at(first, ordinal[counts], starts[counts])
        begin_lsn = first[ordinals]
    else:
        begin_lsn = transactions.first_lsn[ordinals]
    texts = [part.texts for part in results]
    texts.append(Texts.of([_inside_text(plugin, item) for item in inside]))
    texts.append(Texts.of([plugin.message_text(message) for message in due]))
    framed = transactions.subset(ordinals)
    begins = plugin.begin_texts(framed) if begin else Texts.of([])
    commits = plugin.commit_texts(framed) if commit else Texts.of([])
    texts += [begins, commits]

    begun = ordinals if len(begins) else ordinals[:0]
    ended = ordinals if len(commits) else ordinals[:0]
    order = _order(
        transactions.commit_lsn, results, inside, np.array([message.lsn for message in due], np.int64), begun, ended
    )
    all_printed = np.concatenate(
        [printed, np.array([message.end_lsn for message in due], np.int64), begin_lsn if len(begins) else begin_lsn[:0], transactions.end_lsn[ended]]
    )
    all_xid = np.concatenate(
        [transactions.xid[ordinal], np.array([message.xid for message in due], np.uint32), transactions.xid[begun], transactions.xid[ended]]
    )
    return Lines(all_printed[order], all_xid[order].astype(np.uint32), _taken(texts, order))


def _order(
    commit_lsn: NDArray[np.int64], results: list[Formatted], inside: list[LogicalMessage | Truncation], due: NDArray[np.int64],
    begun: NDArray[np.int64], ended: NDArray[np.int64],
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
        np.stack([commit_lsn[begun], np.full(len(begun), _BEGIN), np.zeros(len(begun), np.int64), np.zeros(len(begun), np.int64)]),
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


def _message_counts(plan: Plan) -> bool:
    return not plan.stretches or FORMATS[plan.stretches[0].major].message_begins_transaction


def _inside_text(plugin: OutputPlugin, item: LogicalMessage | Truncation) -> str | bytes:
    return plugin.message_text(item) if isinstance(item, LogicalMessage) else plugin.truncate_text(item)


def _taken(parts: Sequence[Texts], order: NDArray[np.int64]) -> Texts:
    """Rows of the concatenation of `parts`, in the given order."""
    if len(parts) == 1 and bool((np.diff(order) == 1).all()) and (not len(order) or order[0] == 0):
        return parts[0]
    total = 0
    starts: list[NDArray[np.int64]] = []
    lengths: list[NDArray[np.int64]] = []
    for part in parts:
        starts.append(part.offsets[:-1] + total)
        lengths.append(np.diff(part.offsets))
        total += len(part.data)
    data = np.concatenate([part.data for part in parts]) if parts else np.zeros(0, np.uint8)
    start = np.concatenate(starts)[order] if parts else np.zeros(0, np.int64)
    length = np.concatenate(lengths)[order] if parts else np.zeros(0, np.int64)
    offsets = np.zeros(len(order) + 1, np.int64)
    np.cumsum(length, out=offsets[1:])
    out = np.empty(offsets[-1], np.uint8)
    copy_ranges(data, start, offsets, out)
    return Texts(offsets, out)


@njit(cache=True, nogil=True)
def copy_ranges(data, start, offsets, out):  # type: ignore[no-untyped-def]
    """out[offsets[i]:offsets[i+1]] = data[start[i]:…]"""
    for i in range(len(start)):
        copy(out, offsets[i], data, start[i], offsets[i + 1] - offsets[i])


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
