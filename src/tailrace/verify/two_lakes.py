"""Two lakes compared with each other: one that was moved or copied with the other, or one of each format with the other.

In: both, each taken as it is. Out: for each table how many rows were compared, and which differ. No log is asked, so they are to be complete up to
the same LSN, if they are of one server: rows that differ could else be late.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from tailrace.catalog.names.qualified_names import tables_named, write_table_name
from tailrace.errors import MissingHistory
from tailrace.lake.catalog import LakeTable
from tailrace.lake.position import CONFIGURATION
from tailrace.lake.table import TableVersion
from tailrace.pipeline.runner import Runner
from tailrace.verify.differences import find_differences, row_differences
from tailrace.verify.hashed_columns import HashedColumns
from tailrace.verify.lake_at_rest import LakeAtRest
from tailrace.verify.lake_rows import LakeRows
from tailrace.verify.sides import TableSides
from tailrace.verify.verification import TableCompared


def compare_lakes(
    first: LakeAtRest, second: LakeAtRest, runner: Runner, tables: Sequence[str] = (), listed: int = 100
) -> Iterator[TableCompared]:
    """Table by table, in the order of their names. Raises MissingHistory where rows differ and one lake is behind the other."""
    one, two = ({(each.schema, each.name): each for each in rest.tables} for rest in (first, second))
    wanted = tables_named(tables, one.keys() | two.keys())
    for name in sorted(one.keys() | two.keys()):
        if wanted and name not in wanted:
            continue
        found = _compared((first, one.get(name)), (second, two.get(name)), write_table_name(*name), runner, listed)
        if found.differs and first.catalog.system == second.catalog.system:
            _check_at_one_lsn(first, second)
        yield found


def _check_at_one_lsn(first: LakeAtRest, second: LakeAtRest) -> None:
    ends = [each.catalog.complete for each in (first, second)]
    if ends[0] != ends[1]:
        raise MissingHistory(
            f'lake "{first.store.url}" is complete up to {ends[0]}, and lake "{second.store.url}" up to {ends[1]}',
            detail="What differs cannot be told from what one of them lacks.",
            hint="Bring both up to the same LSN (tailrace mirror --until LSN), or compare each with the server.", lsn=min(ends),
        )  # fmt: skip


def _compared(
    first: tuple[LakeAtRest, LakeTable | None], second: tuple[LakeAtRest, LakeTable | None], name: str, runner: Runner, listed: int
) -> TableCompared:  # fmt: skip
    versions = [rest.own_version(table) if table is not None else None for rest, table in (first, second)]
    there = [each for each in versions if each is not None and each.is_there]
    fields = [{field.name: field.type for field in each.open().schema} for each in there]
    both = [each for each in fields[0] if all(each in other for other in fields)] if fields else []
    fit = tuple(each for each in both if len({str(other[each]) for other in fields}) == 1)
    unfit = ", ".join(
        f"column {each} is {fields[0][each]} in one lake, and {fields[1][each]} in the other" for each in both if each not in fit
    )
    others = sorted({each for other in fields for each in other} - set(both))
    key = _key_of(there[0]) if there else ()
    columns = HashedColumns(fit, key if set(key) <= set(fit) else ())
    one, two = (_rows_of(rest, version, columns) for (rest, _), version in zip((first, second), versions, strict=True))
    sums = one.sums(runner), two.sums(runner)
    found = find_differences(
        sums, lambda each: one.numbers(runner, each), lambda each: two.numbers(runner, each), is_keyed=bool(columns.key)
    )
    few = found.first(listed)
    rows = row_differences(few, columns.key, columns.names, one.rows, two.rows, listed) if found.rows and listed else []
    table = second[1] or first[1]
    assert table is not None, "one of both is there"
    note = f"one lake does not have column {', '.join(others)}" if others else ""
    sides = TableSides(name, None, first[0].lake.style, columns, None, two, table.changed, unfit, note)
    return TableCompared(table.oid, sides, sums[0].rows, found, rows)


def _rows_of(rest: LakeAtRest, version: TableVersion | None, columns: HashedColumns) -> LakeRows:
    return LakeRows.of(version, columns) if version is not None else LakeRows.none(rest.store)


def _key_of(version: TableVersion) -> tuple[str, ...]:
    """As the table says, whose columns may have had other names when that was written."""
    said = json.loads(version.open().setting(CONFIGURATION) or "{}")
    return tuple(said.get("key") or ())
