"""Files of a stretch, and what decoding is told of each: a relation, nothing that is decoded, or nothing at all."""

from __future__ import annotations

import numpy as np
import pytest

from support.catalogs import Row, attribute, history_of, row, table, told
from support.logs import log
from tailrace.model import Relation
from tailrace.plan.files import FileMapper
from tailrace.plan.stretch_plan import NOT_DECODED, UNMAPPED, FileMap
from tailrace.transactions.commit_or_abort import NEVER

T = 20000
Spans = list[tuple[int, str]]
UNKNOWN, LEFT = "unmapped", "not decoded"

MAPPED = {
    # rows of catalogs; what the file 30500 meant, from where on: its first record is at 110
    "a table": (table(T, "t", file=30500), [(109, "public.t(id)")]),
    "a materialized view": (table(T, "t", file=30500, relkind="m"), [(109, "public.t(id)")]),
    "nobody's": (table(T, "t", file=30501), [(0, UNKNOWN)]),
    "a table's that is made later, by somebody else": (table(T, "t", file=30500, since=200), [(109, UNKNOWN), (200, "public.t(id)")]),
    "a table's that is dropped": (table(T, "t", file=30500, until=200), [(109, "public.t(id)"), (200, UNKNOWN)]),
    "an index's": (table(T, "t", file=30500, relkind="i"), [(0, LEFT)]),
    "a TOAST table's": (table(T, "t", file=30500, relkind="t"), [(0, LEFT)]),
    "a sequence's": (table(T, "t", file=30500, relkind="S"), [(0, LEFT)]),
    "a TOAST table's, later a table's": (
        [*table(T, "pg_toast_1", file=30500, relkind="t", until=200), *table(T + 1, "t", file=30500, since=200)],
        [(109, LEFT), (200, "public.t(id)")],
    ),
    "an unlogged table's": (table(T, "t", file=30500, relpersistence="u"), [(109, LEFT)]),
    "the new heap of a rewrite": ([*table(T, "t", file=30501), *table(T + 1, "pg_temp_20000", file=30500, relrewrite=T)], [(109, LEFT)]),
    "a catalog's": (table(1259, "pg_class", file=30500), [(109, LEFT)]),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "spans"), MAPPED.values(), ids=MAPPED.keys())
def test_what_a_file_meant(rows: list[Row], spans: Spans) -> None:
    (index,) = log("=== 100\n 110 rows 7 file=30500")
    assert _meanings(*_mapper(*rows).map(index)) == {30500: (spans, {})}


def test_the_new_heap_of_a_rewrite_where_these_are_shown() -> None:
    """It goes by the name of the table that it will be."""
    (index,) = log("=== 100\n 110 rows 7 file=30500")
    mapper = _mapper(
        *table(T, "t", file=30501), *table(T + 1, "pg_temp_20000", "id int4, v text", file=30500, relrewrite=T), rewrites=True
    )
    assert _meanings(*mapper.map(index)) == {30500: ([(109, "public.t(id, v text)")], {})}


LEFT_ALONE = {
    "of another database": "110 rows 7 file=30500 db=6",
    "numbered as catalogs are": "110 rows 7 file=1259",
}


@pytest.mark.parametrize("line", LEFT_ALONE.values(), ids=LEFT_ALONE.keys())
def test_files_that_need_no_plan(line: str) -> None:
    (index,) = log(f"=== 100\n {line}")
    file_map, relations = _mapper(*table(T, "t", file=30500)).map(index)
    assert (len(file_map.key), relations) == (0, ())


def test_who_changes_what_a_file_means_has_a_timeline_of_its_own() -> None:
    """The transaction with the ordinal 3, from 150 to 200, adds a column at 160; others see that later."""
    (index,) = log("=== 100\n 110 rows 7 file=30500\n 120 rows 7 file=30501")
    mapper = _mapper(
        row("pg_class", oid=T, relname="t", relfilenode=30500, until=200, gone_by=3, gone_at=160),
        row("pg_class", oid=T, relname="t", relfilenode=30500, relnatts=2, since=200, by=3, at=160),
        attribute(T, 1, "id", "int4"),
        attribute(T, 2, "v", "text", since=200, by=3, at=160),
        *table(T + 1, "u", file=30501),
    )
    assert _meanings(*mapper.map(index)) == {
        30500: (
            [(109, "public.t(id)"), (200, "public.t(id, v text)")],
            {3: [(149, "public.t(id)"), (160, "public.t(id, v text)")]},
        ),
        30501: ([(119, "public.u(id)")], {}),
    }


def test_relations_are_numbered_by_stretch() -> None:
    """In the order in which a stretch's files need them; and a file means in each stretch what it meant when it was first met."""
    mapper = _mapper(*table(T, "t", file=30500), *table(T + 1, "u", file=30501), *table(T + 2, "v", file=30502))
    first, second = log("""
        === 100
        110 rows 7 file=30501
        120 rows 7 file=30500
        === 200
        210 rows 7 file=30502
        220 rows 7 file=30501
    """)
    (map_1, relations_1), (map_2, relations_2) = mapper.map(first), mapper.map(second)
    assert [_numbers(map_1), _numbers(map_2)] == [[0, 1], [0, 1]]
    assert _meanings(map_1, relations_1) == {30500: ([(119, "public.t(id)")], {}), 30501: ([(109, "public.u(id)")], {})}
    assert _meanings(map_2, relations_2) == {30501: ([(109, "public.u(id)")], {}), 30502: ([(209, "public.v(id)")], {})}
    assert next(relation for relation in relations_1 if relation.name == "u") is next(
        relation for relation in relations_2 if relation.name == "u"
    )


def _mapper(*rows: Row, rewrites: bool = False) -> FileMapper:
    begins, commits = np.zeros(4, np.int64), np.full(4, int(NEVER))
    begins[3], commits[3] = 150, 200
    return FileMapper(history_of(*rows), begins, commits, np.ones(4, np.bool_), rewrites=rewrites)


def _numbers(file_map: FileMap) -> list[int]:
    """Of relations, as they come, file by file."""
    return list(dict.fromkeys(each for each in file_map.span_relation.tolist() if each >= 0))


def _meanings(file_map: FileMap, relations: tuple[Relation, ...]) -> dict[int, tuple[Spans, dict[int, Spans]]]:
    """By number of the file: what it meant to others, and to transactions by their ordinals."""

    def spans(bounds: np.ndarray, place: int) -> Spans:
        of = slice(int(bounds[place]), int(bounds[place + 1]))
        meant = {UNMAPPED: UNKNOWN, NOT_DECODED: LEFT} | {number: told(each) for number, each in enumerate(relations)}
        return list(
            zip(file_map.span_start[of].tolist(), (meant[each] for each in file_map.span_relation[of].tolist()), strict=True)
        )

    own: dict[int, dict[int, Spans]] = {}
    for place, key in enumerate(file_map.own_key.tolist()):
        own.setdefault(key >> 32, {})[key & 0xFFFFFFFF] = spans(file_map.own_bounds, place)
    assert file_map.has_own.tolist() == [place in own for place in range(len(file_map.key))]
    return {
        key & 0xFFFFFFFF: (spans(file_map.bounds, place), own.get(place, {})) for place, key in enumerate(file_map.key.tolist())
    }
