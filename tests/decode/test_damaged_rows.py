"""A row that is not its relation's: the error says of which table, and which record has it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from support.cases import DBNAME, open_case
from support.damage import segments_of
from tailrace.decode import INSERT, decode
from tailrace.errors import CorruptWal
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, open_pipeline


def test_the_record_of_a_row_that_does_not_fit(tmp_path: Path) -> None:
    case = open_case("xact", 16, "with_slot", tmp_path)
    pipeline = open_pipeline(case.data_dir, DBNAME, start_lsn=Lsn.parse(case.meta["start_lsn"]), runner=LocalRunner(1))
    (plan,), read = pipeline.plan.stretches, pipeline.source.segments.read
    sound = next(batch for batch in decode(plan, read) if batch.kind[0] == INSERT)
    longer = tuple(replace(column, length=5000) for column in sound.relation.columns)
    relations = tuple(
        replace(relation, columns=longer) if relation.oid == sound.relation.oid else relation for relation in plan.relations
    )
    with pytest.raises(CorruptWal, match="tuple does not have the layout of its relation") as caught:
        list(decode(replace(plan, relations=relations), read))
    segment = str(segments_of(case)[0])
    assert (caught.value.lsn, caught.value.file) == (sound.lsn[0], segment)
    assert caught.value.context == f'table {sound.relation}, WAL record at {Lsn(int(sound.lsn[0]))}, file "{segment}"'
