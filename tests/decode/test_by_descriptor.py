"""Tables with one tuple descriptor are decoded and printed together, and that shows nowhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support.cases import Case, open_case
from tailrace.decode import Batch, decode, decode_by_descriptor
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, Pipeline, open_pipeline
from tailrace.plugins.printing import print_rows
from tailrace.plugins.test_decoding import TestDecoding
from tailrace.plugins.test_decoding.formatter import LineFormatter
from tailrace.types.values import Texts


class OneByOneFormatter(LineFormatter):
    """It prints one relation at a time."""

    def change_texts(self, batch: Batch) -> Texts:
        rows = [mine for _, mine in batch.rows_by_relation]
        texts = [super(OneByOneFormatter, self).change_texts(each) for each in batch.by_relation()]
        return Texts.merged(texts, np.argsort(np.concatenate(rows)))


class OneByOne(TestDecoding):
    @property
    def formatter(self) -> LineFormatter:
        return OneByOneFormatter(self.context.style, self.context.codec, self.major)


@pytest.fixture(params=["partitions", "names"])
def pipeline(request: pytest.FixtureRequest, tmp_path: Path) -> Pipeline:
    case: Case = open_case(request.param, 16, "with_slot", tmp_path)
    return open_pipeline(case.data_dir, "app", start_lsn=Lsn.parse(case.meta["start_lsn"]), runner=LocalRunner(1))


def test_lines_are_those_of_each_table_by_itself(pipeline: Pipeline) -> None:
    printed = []
    for plugin in (TestDecoding(), OneByOne()):
        plugin.startup({}, 16)
        printed.append(
            b"".join(
                print_rows(part.lsn, part.xid, part.texts.offsets, part.texts.data).tobytes() for part in pipeline.lines(plugin)
            )
        )
    assert printed[0]
    assert printed[0] == printed[1]


@pytest.mark.parametrize("slice_bytes", [1, 200])
def test_slices_show_nowhere(pipeline: Pipeline, slice_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few rows become columns at a time, the same lines come out."""
    plugin = TestDecoding()
    plugin.startup({}, 16)
    whole = [(part.lsn.tolist(), part.texts.data.tobytes()) for part in pipeline.lines(plugin)]
    read = pipeline.source.segments.read
    before = sum(1 for stretch in pipeline.plan.stretches for _ in decode_by_descriptor(stretch, read))
    monkeypatch.setattr("tailrace.decode.SLICE", slice_bytes)
    monkeypatch.setattr("tailrace.decode.SLICED_FROM", 0)
    assert [(part.lsn.tolist(), part.texts.data.tobytes()) for part in pipeline.lines(plugin)] == whole
    assert sum(1 for stretch in pipeline.plan.stretches for _ in decode_by_descriptor(stretch, read)) > before


def test_rows_of_some_tables(pipeline: Pipeline) -> None:
    """Asked for some tables, decoding gives what it gives of them when asked for all."""
    read = pipeline.source.segments.read
    assert any(len(batch.relations) > 1 for stretch in pipeline.plan.stretches for batch in decode_by_descriptor(stretch, read))
    for oid in {relation.oid for relation in pipeline.plan.relations}:
        for stretch in pipeline.plan.stretches:
            mine = [_told(batch) for batch in decode(stretch, read, {oid})]
            assert mine == [_told(batch) for batch in decode(stretch, read) if batch.relation.oid == oid]


def _told(batch: Batch) -> tuple[object, ...]:
    columns = [*batch.new, *(batch.old or [])]
    return (
        batch.relation,
        batch.lsn.tolist(),
        batch.sequence.tolist(),
        batch.kind.tolist(),
        [values.payload_list() for values in columns],
    )
