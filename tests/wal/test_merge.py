"""Neighbours' indexes as one: what a scan of both stretches at once makes of them."""

from __future__ import annotations

import random
from dataclasses import fields, is_dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.cases import all_cases, open_case
from support.cuts import pages_in, records_of, stretches_between
from support.sampling import some_of
from tailrace.catalog.redo.catalog_records import first_files
from tailrace.model import FIRST_NORMAL_OID, PAGE_SIZE, Lsn, Stretch
from tailrace.pipeline import Source
from tailrace.pipeline.scanning import scan_stretch
from tailrace.transactions.epochs import XidClock
from tailrace.wal.index import KEPT_CATALOG_CHANGE, Index
from tailrace.wal.merge import ended_here, merged
from tailrace.wal.versions import FORMATS

CASES = [case for case in all_cases() if case[1] in (14, 16, 18) and case[2] == "with_slot"]
CUTTINGS = 3


@pytest.mark.parametrize("name", some_of(CASES, 6))
def test_parts_make_the_whole(name: tuple[str, int, str], tmp_path: Path) -> None:
    source = Source.open(open_case(*name, tmp_path).data_dir)
    begin, lsns = records_of(source, None)
    stop = int(source.segments.stop_lsn)
    whole = scan_stretch(source.segments, (), Stretch(Lsn(begin), Lsn(stop)))
    clock = XidClock.of([whole], (begin, 1000))
    dice = random.Random(str(name))
    for _ in range(CUTTINGS):
        several = dice.choice([lsns[1:], list(pages_in(begin, lsns[-1]))])
        cuts = sorted({dice.choice(several) for _ in range(dice.randrange(1, 40))})
        parts = [scan_stretch(source.segments, (), stretch) for stretch in stretches_between([begin, *cuts, stop])]
        check_equal(reduce(merged, parts), whole)
        check_equal(reduce(merged, [clock.widened(part) for part in parts]), clock.widened(whole))
        check_equal(_in_any_order(parts, dice), whole)
    ended = ended_here(whole)
    check_equal(ended, scan_stretch(source.segments, (), Stretch(Lsn(begin), whole.next_lsn)))
    assert ended.stretch.stop == whole.next_lsn


def test_others_do_not_join(tmp_path: Path) -> None:
    source = Source.open(open_case("xact", 16, "with_slot", tmp_path).data_dir)
    begin, _ = records_of(source, None)
    first, second = (
        scan_stretch(source.segments, (), stretch)
        for stretch in stretches_between([begin, begin + PAGE_SIZE, begin + 3 * PAGE_SIZE])
    )
    for one, other in (
        (second, first),
        (first, first),
        (first, replace(second, system=1)),
        (replace(first, sealed=False), second),
    ):
        with pytest.raises(ValueError, match="do not join"):
            merged(one, other)


def _in_any_order(parts: list[Index], dice: random.Random) -> Index:
    """Neighbours joined by and by, some later ones first."""
    left = list(parts)
    while len(left) > 1:
        at = dice.randrange(len(left) - 1)
        left[at : at + 2] = [merged(left[at], left[at + 1])]
    return left[0]


def check_equal(one: Index, other: Index) -> None:
    """Field by field, but for records on files that only a NEW_CID calls a catalog's."""
    for mine, theirs in zip(_leaves(_by_number(one)), _leaves(_by_number(other)), strict=True):
        assert mine == theirs


def _by_number(part: Index) -> Index:
    """With the records of such catalogs alone as have a number below 16384."""
    kept = part.kept
    number = first_files(kept.data, kept.at, kept.length, FORMATS[part.major].image_compressed) & 0xFFFFFFFF
    return replace(part, kept=kept.taken(np.flatnonzero((kept.kind != KEPT_CATALOG_CHANGE) | (number < FIRST_NORMAL_OID))))


def _leaves(part: Any, name: str = "") -> list[tuple[str, Any]]:
    if is_dataclass(part) and not isinstance(part, type):
        return [leaf for each in fields(part) for leaf in _leaves(getattr(part, each.name), f"{name}.{each.name}")]
    return [(name, (str(part.dtype), part.tolist()) if isinstance(part, np.ndarray) else part)]
