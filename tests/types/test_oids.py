"""The names of type oids are those that the catalogs of recorded clusters of every major have, and no literal stands for one in src."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cases import open_case
from tailrace.pipeline import LocalRunner, open_pipeline
from tailrace.transactions.commit_or_abort import NEVER
from tailrace.types import oids
from tailrace.types.built_in import built_in_type

_FIRST_GENBKI_OID = 10_000
"""Below it an oid is written by hand in `catalog/pg_type.dat`, and means the same in every major (`access/transam.h`)."""
_NAMES = {number: name for name, number in vars(oids).items() if name.isupper()}


def _recorded_types(major: int, directory: Path) -> dict[int, str]:
    """The types of a recorded cluster that are no row types, nor arrays of such: their names by oid."""
    case = open_case("xact", major, "with_slot", directory)
    types = open_pipeline(case.data_dir, case.meta["dbname"], runner=LocalRunner(1)).history.table("pg_type")
    there = [row for row in range(len(types.rows)) if types.rows.end[row] == NEVER and types["oid"][row] < _FIRST_GENBKI_OID]
    names = {int(types["oid"][row]): str(types["typname"][row]) for row in there}
    of_rows = {oid for row, oid in zip(there, names, strict=True) if types["typtype"][row] == ord("c")}
    elements = {oid: int(types["typelem"][row]) for row, oid in zip(there, names, strict=True)}
    return {oid: name for oid, name in names.items() if oid not in of_rows and elements[oid] not in of_rows}


@pytest.mark.parametrize("major", [14, 15, 16, 17, 18])
def test_names_are_those_of_the_catalogs(major: int, tmp_path: Path) -> None:
    recorded = _recorded_types(major, tmp_path)
    assert len(recorded) > 170
    symbols = {oid: f"{name[1:]}array" if name.startswith("_") else name for oid, name in recorded.items()}
    assert {oid: _NAMES.get(oid) for oid in recorded} == {oid: symbol.upper() for oid, symbol in symbols.items()}
    known = {oid: built_in_type(oid) for oid in recorded}
    assert {oid: pg_type and pg_type.name for oid, pg_type in known.items()} == recorded


def test_names_and_the_table_of_types_agree() -> None:
    assert len(_NAMES) == len(set(_NAMES.values()))
    assert {oid for oid in range(_FIRST_GENBKI_OID) if built_in_type(oid)} == set(_NAMES)
