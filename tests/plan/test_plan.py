"""Small logs, and what is planned of each: which transactions are shown, where their rows are decoded, and what a stretch must be told of others."""

from __future__ import annotations

import pytest

from support.catalogs import history_of, table
from support.logs import log, scanned
from tailrace.errors import InsufficientLogging, MissingHistory
from tailrace.model import Lsn
from tailrace.plan import Plan, make_plan
from tailrace.plan.demand import OF_TABLES, Demand
from tailrace.plan.origin_filter import from_elsewhere
from tailrace.transactions.commit_or_abort import TwoPhase

T = 20000
HISTORY = history_of(*table(T, "t", file=30500), *table(T + 1, "u", file=30501, relpersistence="u"))
BEGIN = "=== 100\n 110 shutdown redo=110 next=7\n"
"""Nothing runs, and the catalogs are known."""


def _plan(text: str, *, start_lsn: int | None = None, upto_lsn: int | None = None, demand: Demand = OF_TABLES) -> Plan:
    return _planned(BEGIN + text, start_lsn, upto_lsn, demand)


def _planned(text: str, start_lsn: int | None, upto_lsn: int | None = None, demand: Demand = OF_TABLES) -> Plan:
    start, upto = (None if lsn is None else Lsn(lsn) for lsn in (start_lsn, upto_lsn))
    return make_plan(scanned(log(text), two_phase=demand.two_phase), HISTORY, start_lsn=start, upto_lsn=upto, demand=demand)


def _shown(plan: Plan) -> list[int]:
    return plan.transactions.xid[plan.shown].tolist()


def _where(plan: Plan) -> dict[int, list[int]]:
    """The xids whose rows are wanted, by where the stretch begins."""
    return {int(each.stretch.start): each.xid.tolist() for each in plan.stretches}


PLANNED = {
    # a log behind a shutdown checkpoint; the transactions that are shown, in order; the xids that are decoded, by stretch
    "in the order of their commits": (
        """
        120 rows 7 file=30500
        130 rows 8 file=30500
        140 commit 8
        150 commit 7
        """,
        [8, 7], {100: [7, 8]},
    ),
    "only where rows are": (
        """
        120 rows 7 file=30500
        === 200
        210 commit 7
        220 rows 8 file=30500
        === 300
        310 abort 8
        320 rows 9 file=30500
        330 commit 9
        """,
        [7, 9], {100: [7], 300: [9]},
    ),
    "over several stretches": (
        """
        120 rows 7 file=30500
        === 200
        210 rows 8 file=30500
        === 300
        310 rows 7 file=30500
        320 commit 7
        """,
        [7], {100: [7], 300: [7]},
    ),
    "subtransactions, but for those that were rolled back": (
        """
        120 rows 7 file=30500
        130 rows 8 file=30500 top=7
        140 rows 9 file=30500 top=7
        150 abort 9
        160 commit 7 subs=8
        """,
        [7], {100: [7, 8]},
    ),
    "all of whose rows were rolled back: told, without rows": (
        """
        120 rows 8 file=30500 top=7
        130 abort 8
        140 commit 7
        """,
        [7], {},
    ),
    "that did nothing": ("120 commit 7", [], {}),
    "that changed catalogs alone: told, without rows": ("120 catalog 7\n 130 commit 7", [7], {}),
    "of another database": ("120 rows 7 file=30500 db=6\n 130 commit 7 db=6", [], {}),
    "that names no database": ("120 rows 7 file=30500\n 130 commit 7 db=0", [7], {100: [7]}),
    "that was prepared": (
        """
        120 rows 7 file=30500
        130 prepare 7 gid=p
        === 200
        210 rows 8 file=30500
        220 commit 8
        230 commit_prepared 7 gid=p
        """,
        [8, 7], {100: [7], 200: [8]},
    ),
    "that is prepared and has no end": ("120 rows 7 file=30500\n 130 prepare 7 gid=p", [], {}),
}  # fmt: skip


@pytest.mark.parametrize(("text", "shown", "where"), PLANNED.values(), ids=PLANNED.keys())
def test_what_is_planned(text: str, shown: list[int], where: dict[int, list[int]]) -> None:
    plan = _plan(text)
    assert (_shown(plan), _where(plan), plan.warnings) == (shown, where, ())


RANGES = {
    # a transaction commits at 120, 130, 140 and 150; which are between start and end
    "all": (None, None, [7, 8, 9, 10]),
    "from a commit on": (130, None, [8, 9, 10]),
    "from behind it": (131, None, [9, 10]),
    "up to a commit": (None, 140, [7, 8]),
    "between": (121, 150, [8, 9]),
    "nothing": (150, 150, []),
    "reversed": (150, 120, []),
}


@pytest.mark.parametrize(("start", "upto", "shown"), RANGES.values(), ids=RANGES.keys())
def test_a_range(start: int | None, upto: int | None, shown: list[int]) -> None:
    text = "".join(f"{110 + xid} rows {xid} file=30500\n" for xid in (7, 8, 9, 10))
    plan = _plan(
        text + "".join(f"{120 + 10 * number} commit {xid}\n" for number, xid in enumerate((7, 8, 9, 10))),
        start_lsn=start,
        upto_lsn=upto,
    )
    assert _shown(plan) == shown
    assert _where(plan) == ({100: shown} if shown else {})


def test_what_began_before_is_left_out_or_refused() -> None:
    text = """
        === 100
        110 running 7 next=8
        120 checkpoint redo=110 next=8
        130 rows 7 file=30500 n=4
        140 rows 8 file=30500
        150 commit 7
        160 commit 8
    """
    plan = _planned(text, None)
    assert _shown(plan) == [8]
    assert plan.consistent_from == 151
    assert [warning.partition(":")[0] for warning in plan.warnings] == [
        f"left out is 1 transaction with 4 rows at hand, which commits at {Lsn(150)}"
    ]
    with pytest.raises(MissingHistory, match="transaction 7 began before the WAL at hand"):
        _planned(text, 140)
    later = _planned(text, 151)
    assert (_shown(later), later.warnings) == ([8], ())


def test_what_began_below_logical_is_left_out_or_refused() -> None:
    """Its commit names no database; then the level is raised."""
    text = """
        112 rows 7 file=30500
        114 rows 6 file=30500
        120 commit 7 db=0
        130 wal_level 2
        140 rows 8 file=30500
        150 commit 6
        160 commit 8
    """
    plan = _plan(text)
    assert _shown(plan) == [8]
    assert [warning.partition(": ")[2] for warning in plan.warnings] == ["they began while wal_level was below logical"]
    with pytest.raises(InsufficientLogging, match="logical decoding requires wal_level >= logical"):
        _plan(text, start_lsn=141)


CARRIED = {
    # for each stretch that holds rows: which records of earlier ones are taken along
    "a chunk for the row in the next stretch": (
        """
        120 chunk 7
        === 200
        210 serves 7
        220 commit 7
        """,
        {100: {}, 200: {100: [120]}},
    ),
    "over a stretch that has nothing of it": (
        """
        120 chunk 7
        === 200
        210 rows 8 file=30500
        220 commit 8
        === 300
        310 serves 7
        320 commit 7
        """,
        {100: {}, 200: {}, 300: {100: [120]}},
    ),
    "of several stretches": (
        """
        120 chunk 7
        130 chunk 7
        === 200
        210 chunk 7
        === 300
        310 serves 7
        320 commit 7
        """,
        {100: {}, 200: {100: [120, 130]}, 300: {100: [120, 130], 200: [210]}},
    ),
    "no further than the row that took them": (
        """
        120 chunk 7
        === 200
        210 serves 7
        === 300
        310 rows 7 file=30500
        320 commit 7
        """,
        {100: {}, 200: {100: [120]}, 300: {}},
    ),
    "not those of others": (
        """
        120 chunk 7
        130 chunk 8
        === 200
        210 serves 7
        220 commit 7
        230 abort 8
        """,
        {100: {}, 200: {100: [120]}},
    ),
}


@pytest.mark.parametrize(("text", "carried"), CARRIED.values(), ids=CARRIED.keys())
def test_chunks_are_taken_along(text: str, carried: dict[int, dict[int, list[int]]]) -> None:
    plan = _plan(text)
    assert {
        int(each.stretch.start): {int(part.stretch.start): part.lsn.tolist() for part in each.earlier_toast}
        for each in plan.stretches
    } == carried


CONFIRMED = {
    "in the next stretch": ("180 speculative 7\n === 200\n 210 confirm 7\n 220 commit 7", [180]),
    "taken back": ("180 speculative 7\n === 200\n 210 cancel 7\n 220 commit 7", []),
    "two stretches on": ("180 speculative 7\n === 200\n 210 rows 8 file=30500\n === 300\n 310 confirm 7\n 320 commit 7", [180]),
    "never": ("180 speculative 7\n === 200\n 210 abort 7", []),
    "one of two": (
        "170 speculative 7\n 180 speculative 8\n === 200\n 210 confirm 8\n 220 cancel 7\n 230 commit 7\n 240 commit 8", [180],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "confirmed"), CONFIRMED.values(), ids=CONFIRMED.keys())
def test_speculative_inserts_are_confirmed_elsewhere(text: str, confirmed: list[int]) -> None:
    """Every stretch is told of all, since any may have the insert."""
    plan = _plan(text + "\n === 400\n 410 rows 20 file=30500\n 420 commit 20")
    assert plan.stretches
    assert [each.confirmed.tolist() for each in plan.stretches] == [confirmed] * len(plan.stretches)


MESSAGES = """
    120 message 7 text=committed
    130 message 8 text=rolled-back
    140 message 9 at_once text=not-waited-for
    150 message 0 at_once text=of-nobody
    160 message 7 db=6 text=elsewhere
    170 commit 7
    180 abort 8
    190 abort 9
    200 message 0 at_once text=late
"""


@pytest.mark.parametrize(
    ("start", "upto", "said"),
    [
        (None, None, ["committed", "not-waited-for", "of-nobody", "late"]),
        (145, None, ["committed", "of-nobody", "late"]),
        (171, None, ["late"]),
        (None, 160, ["not-waited-for", "of-nobody"]),
    ],
)
def test_messages(start: int | None, upto: int | None, said: list[str]) -> None:
    """Those that wait for a commit come with it; others where they are, whatever becomes of their transaction."""
    plan = _plan(MESSAGES, start_lsn=start, upto_lsn=upto)
    assert [(each.prefix, each.content.decode()) for each in plan.messages] == [("p", text) for text in said]


def test_truncations() -> None:
    plan = _plan(f"""
        120 truncate 7 oids={T},{T + 1} flags=1
        130 truncate 8 oids={T} flags=2
        140 truncate 9 oids={T}
        150 truncate 7 oids={T} db=6
        160 commit 8
        170 commit 7
        180 abort 9
    """)
    told = [
        (
            int(each.lsn),
            plan.transactions[each.ordinal].xid,
            [str(relation) for relation in each.relations],
            each.cascade,
            each.restart_sequences,
        )
        for each in plan.truncations
    ]
    assert told == [(120, 7, ["public.t"], True, False), (130, 8, ["public.t"], False, True)]
    assert (_shown(plan), _where(plan)) == ([8, 7], {})


def test_in_two_phases_what_is_prepared_comes_at_once() -> None:
    plan = _plan(
        """
        120 rows 7 file=30500
        130 prepare 7 gid=p
        140 rows 8 file=30500
        150 commit 8
        160 commit_prepared 7 gid=p
        """,
        demand=Demand(two_phase=TwoPhase()),
    )  # fmt: skip
    assert _shown(plan) == [7, 8, 7]
    assert plan.transactions.commit_lsn[plan.shown].tolist() == [130, 150, 160]


def test_only_what_is_local() -> None:
    text = """
        120 rows 7 file=30500
        130 rows 8 file=30500
        140 commit 7 origin=1
        150 commit 8
        160 message 0 at_once origin=1 text=theirs
        170 message 0 at_once text=ours
    """
    assert (_shown(_plan(text)), [each.content for each in _plan(text).messages]) == ([7, 8], [b"theirs", b"ours"])
    local = _plan(text, demand=Demand(filter_by_origin=from_elsewhere))
    assert (_shown(local), [each.content for each in local.messages]) == ([8], [b"ours"])
    assert all(each.unwanted_origins.tolist() == [1] for each in local.stretches)
