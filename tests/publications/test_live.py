"""What is published, against pgoutput of live servers: tables, actions, columns, filters, partitions, and the errors."""

from __future__ import annotations

import pytest

from support.cases import DBNAME
from support.publication_scenarios import WITH_FILTERS, WITHOUT_FILTERS
from support.publications import error_of, pipeline_of, sent_by, told_by
from support.servers import Server
from tailrace.publications.publishing.database_facts import facts_of
from tailrace.publications.publishing.filter_compiler import FilterCompiler
from tailrace.types.style import TextStyle


@pytest.mark.matrix
@pytest.mark.parametrize("major", [14, 15, 16, 17, 18])
def test_what_is_published_is_what_pgoutput_sends(major: int) -> None:
    with Server(major, dbname=DBNAME, test_decoding=False) as server:
        server.checkpoint()
        told, start = told_by(server, (*WITHOUT_FILTERS, *WITH_FILTERS))
        pipeline = pipeline_of(server, start)
        compile_filter = FilterCompiler(major, facts_of(pipeline.history, TextStyle()))
        for each in told:
            if each.error is None:
                ours = sent_by(pipeline, each, compile_filter)
                assert [sent.commit_lsn for sent in ours] == [sent.commit_lsn for sent in each.sent], each.scenario.name
                for mine, theirs in zip(ours, each.sent, strict=True):
                    assert mine.changes == theirs.changes, each.scenario.name
            else:
                assert error_of(pipeline, each, compile_filter) == each.error, each.scenario.name
    assert sum(each.error is not None for each in told) >= (1 if major == 14 else 3)
    assert sum(bool(each.sent) for each in told) > len(told) / 2
