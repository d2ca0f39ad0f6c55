"""What is carried from window to window is a function of the log alone, and no more than is needed: golden cases, cut at random records."""

from __future__ import annotations

import random
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.beginning import begin
from support.cases import Case, all_cases, open_case
from support.cuts import random_stretches, records_of
from support.decoding import state_before
from support.sampling import some_of
from tailrace.catalog.pages.tids import files_of, moved_tids
from tailrace.catalog.state.catalog_state import CatalogState
from tailrace.catalog.state.forget import forgotten
from tailrace.model import Lsn, Stretch
from tailrace.pipeline import LocalRunner, Source
from tailrace.pipeline.catalogs import followed_catalogs
from tailrace.pipeline.decoding_range import DecodingRange
from tailrace.pipeline.scanning import scan_stretch
from tailrace.pipeline.windows import step
from tailrace.plan import carried as carrying
from tailrace.plan.carried import Carried, ended_in
from tailrace.plan.demand import OF_TABLES
from tailrace.transactions.indexes_of_unfinished import indexes_of_unfinished
from tailrace.transactions.scanned_log import ScannedLog
from tailrace.wal.index import Index

CASES = [
    pytest.param(case, captured, id=f"{'-'.join(map(str, case))}-{'captured' if captured else 'rebuilt'}")
    for case in all_cases()
    for captured in (False, True)
    if case[1] in ((14, 16, 18) if captured else (16,)) and case[2] == "no_slot"
]
"""What is carried of a state that is rebuilt is of the log's end in any case, so that only what is beside it can differ."""
OF_CATALOGS = [
    case for case in all_cases() if case[0] in ("catalog_rewrite", "concurrent_ddl_dml", "ddl", "rewrite_under_ddl") and case[1] in (14, 16, 18)
]  # fmt: skip
CELL = 1 << 16
"""Instead of STRETCH_BYTES, since these logs are short."""


@pytest.mark.parametrize(("name", "captured"), some_of(CASES, 48))
def test_cuts_do_not_matter(name: tuple[str, int, str], captured: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carrying, "indexes_of_unfinished", partial(indexes_of_unfinished, cell=CELL))
    case = open_case(*name, tmp_path)
    dice = random.Random(f"{name} {captured}")
    state = state_before(case) if captured else None
    since = state.needs_wal_from if state else None
    source = Source.open(case.data_dir, since)
    first, lsns = records_of(source, since)
    here = [dice.choice(lsns[1:]) for _ in range(3)]
    always = {*here, *range((first // CELL + 1) * CELL, lsns[-1], CELL)}
    found = []
    for _ in range(2):
        indexes = [scan_stretch(source.segments, (), part) for part in random_stretches(source, dice, since, always)]
        found.append(_carried(case, source, indexes, state, here, dice))
    for one, other in zip(*found, strict=True):
        for mine, theirs in zip(_leaves(one), _leaves(other), strict=True):
            assert mine == theirs


def _carried(
    case: Case, source: Source, indexes: list[Index], state: CatalogState | None, here: list[int], dice: random.Random
) -> list[Carried]:
    """At these LSNs, and at the end, after windows of random size, before some of which there is a restart: what comes is then read from the next
    record on."""
    carried, asked = _begun(case, source, indexes, state)
    found = []
    window: list[Index] = []
    for part in indexes:
        if not window and part.stretch.start < carried.lsn < part.stretch.stop and dice.random() < 0.5:
            window.append(scan_stretch(source.segments, (), Stretch(carried.lsn, part.stretch.stop)))
        else:
            window.append(part)
        is_asked_for = part is indexes[-1] or int(part.stretch.stop) in here
        if is_asked_for or dice.random() < 0.4:
            carried, _ = step(source, LocalRunner(1), carried, window, asked)
            window = []
        if is_asked_for:
            found.append(carried)
    return found


def _begun(case: Case, source: Source, indexes: list[Index], state: CatalogState | None) -> tuple[Carried, DecodingRange]:
    return begin(
        source, LocalRunner(1), indexes, case.meta["dbname"], state,
        start_lsn=Lsn.parse(case.meta["start_lsn"]), upto_lsn=None, demand=OF_TABLES,
    )  # fmt: skip


@pytest.mark.parametrize("name", some_of(OF_CATALOGS, 2))
def test_forgetting_twice_is_forgetting_once(name: tuple[str, int, str], tmp_path: Path) -> None:
    case = open_case(*name, tmp_path)
    dice = random.Random(str(name))
    state = state_before(case)
    source = Source.open(case.data_dir, state.needs_wal_from)
    _, lsns = records_of(source, state.needs_wal_from)
    indexes = [scan_stretch(source.segments, (), part) for part in random_stretches(source, dice, state.needs_wal_from)]
    carried, _ = _begun(case, source, indexes, state)
    log = ScannedLog.of(indexes, carried.next_xid, source.segments.segment_size, earlier=carried.earlier)
    after = followed_catalogs(source.segments, LocalRunner(1), log, state, state.needs_wal_from).state
    ended = ended_in(after.versions, log.outcomes)
    for _ in range(8):
        early, late = sorted(dice.sample(lsns, 2))
        once, twice = forgotten(after, ended, late), forgotten(forgotten(after, ended, early), ended, late)
        for mine, theirs in zip(_plain(once), _plain(twice), strict=True):
            assert mine == theirs
    assert len(once.versions) <= len(after.versions)
    assert len(forgotten(after, ended, lsns[-1]).versions) < len(after.versions)


def _leaves(part: Any, name: str = "") -> list[tuple[str, Any]]:
    """Everything in it by name. Versions in the order of what they say: a catalog's file that is known as one only once its mover has committed is
    replayed late if it began in a window before, and then its versions, and their places, come later than others."""
    if isinstance(part, CatalogState):
        return _told(part)
    return _plain(part, name, _leaves)


def _plain(part: Any, name: str = "", within: Any = None) -> list[tuple[str, Any]]:
    within = within or _plain
    if is_dataclass(part) and not isinstance(part, type):
        return [leaf for each in fields(part) for leaf in within(getattr(part, each.name), f"{name}.{each.name}")]
    if isinstance(part, tuple):
        return [(f"{name} length", len(part))] + [leaf for i, each in enumerate(part) for leaf in within(each, f"{name}[{i}]")]
    return [(name, (str(part.dtype), part.tolist()) if isinstance(part, np.ndarray) else part)]


def _told(state: CatalogState) -> list[tuple[str, Any]]:
    versions, columns = state.versions, state.versions.columns
    bytes_of = [versions.tuples[at : at + length].tobytes() for at, length in zip(columns.at, columns.length, strict=True)]
    said = [
        (*row, of)
        for *row, of in zip(*(column.tolist() for column in columns._replace(at=columns.catalog)), bytes_of, strict=True)
    ]
    files = list(state.files)
    within = moved_tids(versions.tids, np.zeros(len(versions.tids), np.int64)).tolist()
    places = [
        (files[file], tid, said[version] if version >= 0 else (version,))
        for file, tid, version in zip(files_of(versions.tids).tolist(), within, versions.version_at.tolist(), strict=True)
    ]
    facts = {each.name: getattr(state, each.name) for each in fields(CatalogState) if each.name != "multixacts"} | {
        "files": sorted(state.files.items())
    }
    facts |= {
        "versions": sorted(said),
        "places": sorted(places),
        "unused": len(versions.tuples) - int((columns.length + 7 & ~7).sum()),
    }
    return list(facts.items())
