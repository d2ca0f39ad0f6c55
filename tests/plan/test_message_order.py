"""Messages that tie with the row behind them: the order in which the server's binary heap gives changes, played through as `lib/binaryheap.c` and
`reorderbuffer.c` have it, for queues that were drawn; and which messages of a small log have to be asked about at all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.catalogs import history_of, table
from support.logs import DATABASE, RECORD, log, scanned
from tailrace.plan import Plan, make_plan
from tailrace.plan.message_order import find_ties, merge, resolved
from tailrace.wal.index import UNKNOWN_XID
from tailrace.wal.queued_changes import QueuedChanges, QueuedChangesRequest

FILE = 30500
HISTORY = history_of(*table(20000, "t", file=FILE))
TOP, OTHER = 9, 8
BEGIN = "=== 100\n 104 shutdown redo=104 next=8\n"
NEVER = np.iinfo(np.int64).max


# -- the server's heap -------------------------------------------------------------------------------------------------------------


class Heap:
    """`lib/binaryheap.c` of 14, with the comparison of `ReorderBufferIterCompare`: the least position is at the root."""

    def __init__(self, nodes: list[int], position: list[int]) -> None:
        self.nodes, self.position = nodes, position
        for node in range((len(nodes) - 2) // 2, -1, -1):
            self.sift_down(node)

    def compare(self, one: int, other: int) -> int:
        return (self.position[other] > self.position[one]) - (self.position[other] < self.position[one])

    def sift_down(self, node: int) -> None:
        while True:
            left, right, swap = 2 * node + 1, 2 * node + 2, 0
            if left < len(self.nodes) and self.compare(self.nodes[node], self.nodes[left]) < 0:
                swap = left
            is_larger = right < len(self.nodes) and self.compare(self.nodes[node], self.nodes[right]) < 0
            if is_larger and (not swap or self.compare(self.nodes[left], self.nodes[right]) < 0):
                swap = right
            if not swap:
                return
            self.nodes[node], self.nodes[swap] = self.nodes[swap], self.nodes[node]
            node = swap

    def remove_first(self) -> None:
        last = self.nodes.pop()
        if self.nodes:
            self.nodes[0] = last
            self.sift_down(0)


def _in_the_servers_order(queues: list[list[int]]) -> list[tuple[int, int]]:
    """(queue, place in it) as ReorderBufferIterTXNNext gives them."""
    place = [0] * len(queues)
    position = [queue[0] for queue in queues]
    heap = Heap(list(range(len(queues))), position)
    given_out = []
    while heap.nodes:
        first = heap.nodes[0]
        given_out.append((first, place[first]))
        place[first] += 1
        if place[first] < len(queues[first]):
            position[first] = queues[first][place[first]]
            heap.sift_down(0)
        else:
            heap.remove_first()
    return given_out


_QUEUE = st.lists(st.integers(1, 12), min_size=1, max_size=8).map(sorted)


@settings(deadline=None)
@given(st.lists(_QUEUE, min_size=1, max_size=9))
def test_the_heap_gives_changes_as_the_servers_does(queues: list[list[int]]) -> None:
    position = np.array([each for queue in queues for each in queue], np.int64)
    bounds = np.cumsum([0, *map(len, queues)])
    numbers = [(queue, place) for queue, each in enumerate(queues) for place in range(len(each))]
    assert [numbers[each] for each in merge(position, bounds).tolist()] == _in_the_servers_order(queues)


# -- which messages may tie --------------------------------------------------------------------------------------------------------

ASKED = {
    # a log; whether its message is asked about
    "behind it a row of its own subtransaction": (f"112 message 9 text=m followed_by=9\n 120 rows 9 file={FILE}\n 128 commit 9", False),
    "behind it a row of another subtransaction": (
        f"112 message 10 top=9 text=m followed_by=9\n 120 rows 9 file={FILE}\n 128 commit 9 subs=10", True,
    ),
    "behind it a row of a subtransaction, itself of the transaction": (
        f"112 message 9 text=m followed_by=10\n 120 rows 10 top=9 file={FILE}\n 128 commit 9 subs=10", True,
    ),
    "behind it a row of another transaction": (
        f"112 message 9 text=m followed_by=8\n 120 rows 8 file={FILE}\n 128 commit 9 subs=10\n 136 commit 8", False,
    ),
    "behind it nothing with an xid": ("112 message 10 top=9 text=m\n 128 commit 9 subs=10", False),
    "behind it something beyond the stretch": (f"112 message 10 top=9 text=m followed_by={UNKNOWN_XID}\n 128 commit 9 subs=10", True),
    "the same, of a transaction without subtransactions": (f"112 message 9 text=m followed_by={UNKNOWN_XID}\n 128 commit 9", False),
    "it waits for no commit": (
        f"112 message 10 top=9 text=m at_once=1 followed_by=9\n 120 rows 9 file={FILE}\n 128 commit 9 subs=10", False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ASKED)
def test_which_messages_are_asked_about(case: str) -> None:
    text, asked = ASKED[case]
    ties = find_ties(*_planned(text), DATABASE)
    assert (ties is not None) == asked
    if ties is not None:
        assert ties.messages == [0]
        assert [each.xids.tolist() for each in ties.requests] == [[9, 10]]


def _planned(text: str) -> tuple:  # type: ignore[type-arg]
    read = scanned(log(BEGIN + text))
    return read, make_plan(read, HISTORY, start_lsn=None, upto_lsn=None)


# -- which of the two comes first --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Record:
    """Of a subtransaction of TOP, or of TOP itself: `rows` or `message`; or of OTHER: `catalog`, by which it changes catalogs, and its `commit`."""

    xid: int
    what: str


@st.composite
def _logs(draw: st.DrawFn) -> list[Record]:
    """Records that follow each other, of TOP and its subtransactions; among them another transaction may change catalogs, and commit."""
    xids = (TOP, 10, 11, 12, 13)
    records = draw(
        st.lists(st.builds(Record, st.sampled_from(xids), st.sampled_from(("rows", "message"))), min_size=2, max_size=14)
    )
    if draw(st.booleans()):
        at = draw(st.integers(0, len(records)))
        records[at:at] = [Record(OTHER, "catalog"), Record(OTHER, "commit")]
    return records


def _written(records: list[Record]) -> str:
    lines = []
    for number, record in enumerate(records):
        behind = records[number + 1].xid if number + 1 < len(records) and records[number + 1].what != "commit" else 0
        lsn, top = 112 + RECORD * number, f" top={TOP}" if record.xid > TOP else ""
        words = {"rows": f" file={FILE}", "message": f" text=m{lsn} followed_by={behind}"}.get(record.what, "")
        lines.append(f"{lsn} {record.what} {record.xid}{top}{words}")
    subs = ",".join(str(xid) for xid in sorted({record.xid for record in records if record.xid > TOP}))
    return "\n".join([*lines, f"{112 + RECORD * len(records)} commit {TOP} subs={subs}"])


def _queued(records: list[Record], request: QueuedChangesRequest) -> QueuedChanges:
    """What the second look at the log finds: all that the server queues for these xids."""
    mine = [
        (112 + RECORD * number + RECORD * (record.what == "message"), record.xid, record.what == "message")
        for number, record in enumerate(records)
        if record.xid in request.xids
    ]
    first = {xid: 112 + RECORD * number for number, xid in reversed(list(enumerate(record.xid for record in records)))}
    position, xid, is_message = zip(*mine, strict=True)
    return QueuedChanges(
        np.array(position, np.int64), np.array(xid, np.int64), np.array(is_message, np.bool_),
        np.array([first.get(each, NEVER) for each in request.xids.tolist()], np.int64),
    )  # fmt: skip


def _printed_behind(records: list[Record]) -> set[int]:
    """The LSNs of the messages that the server prints after the record behind them: queues as it fills them, given out by its heap."""
    queues: dict[int, list[tuple[int, int, str]]] = {}  # a subtransaction's position, the record's LSN, and what it is
    began = False
    for number, record in enumerate(records):
        lsn = 112 + RECORD * number
        if record.xid == OTHER:
            # A commit that changed catalogs gives every transaction that has a snapshot a new one, in the queue of its top level.
            if record.what == "commit" and began:
                queues.setdefault(TOP, []).append((lsn, lsn, "snapshot"))
            continue
        began = True
        queues.setdefault(record.xid, []).append((lsn + RECORD * (record.what == "message"), lsn, record.what))
    # The top level's comes first, then subtransactions as they were first seen.
    seen = [record.xid for record in records]
    order = sorted(queues, key=lambda xid: -1 if xid == TOP else seen.index(xid))
    given_out = _in_the_servers_order([[position for position, _, _ in queues[xid]] for xid in order])
    printed = [queues[order[queue]][place] for queue, place in given_out]
    behind = set()
    for number, (position, lsn, what) in enumerate(printed):
        if what == "message" and any(other[0] == position and other[2] == "rows" for other in printed[:number]):
            behind.add(lsn)
    return behind


@settings(deadline=None, max_examples=300)
@given(_logs())
def test_the_order_is_the_servers(records: list[Record]) -> None:
    read, plan = _planned(_written(records))
    assert _resolved(read, plan, records) == _printed_behind(records)


def _resolved(read, plan: Plan, records: list[Record]) -> set[int]:  # type: ignore[no-untyped-def]
    ties = find_ties(read, plan, DATABASE)
    if ties is None:
        return set()
    messages = resolved(ties, plan, [_queued(records, request) for request in ties.requests])
    assert [each.lsn for each in messages] == [each.lsn for each in plan.messages]
    return {int(each.lsn) for each in messages if each.behind}


def test_a_message_of_a_subtransaction_is_printed_behind_the_row_that_its_transaction_goes_on_with() -> None:
    """And before it, if that subtransaction is at the root of the heap already."""
    first = [Record(TOP, "rows"), Record(10, "message"), Record(TOP, "rows")]
    again = [Record(10, "rows"), Record(10, "message"), Record(TOP, "rows")]
    found = [_resolved(*_planned(_written(records)), records) for records in (first, again)]
    assert found == [_printed_behind(first), _printed_behind(again)]
    assert {len(each) for each in found} == {0, 1}
