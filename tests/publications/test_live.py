"""What is published, against pgoutput of live servers: tables, actions, columns, filters, partitions, and the errors."""

from __future__ import annotations

import pytest

from support.cases import DBNAME
from support.publication_scenarios import WITHOUT_FILTERS
from support.publications import error_of, pipeline_of, sent_by, told_by
from support.servers import Server


def _no_filters(*_: object) -> None:
    raise AssertionError


@pytest.mark.parametrize("major", [14, 15, 16, 17, 18])
def test_what_is_published_is_what_pgoutput_sends(major: int) -> None:
    with Server(major, dbname=DBNAME, test_decoding=False) as server:
        server.checkpoint()
        told, start = told_by(server, WITHOUT_FILTERS)
        pipeline = pipeline_of(server, start)
        for each in told:
            if each.error is None:
                ours = sent_by(pipeline, each, _no_filters)
                assert [sent.commit_lsn for sent in ours] == [sent.commit_lsn for sent in each.sent], each.scenario.name
                for mine, theirs in zip(ours, each.sent, strict=True):
                    assert mine.changes == theirs.changes, each.scenario.name
            else:
                assert error_of(pipeline, each, _no_filters) == each.error, each.scenario.name
    assert sum(each.error is not None for each in told) >= (1 if major == 14 else 3)
