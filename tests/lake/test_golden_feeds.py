"""Each recorded story comes to the same tables by WAL, by messages of pgoutput read back, and by rows as they were copied."""

from __future__ import annotations

from pathlib import Path

import pytest

from lake.test_three_feeds import _apply, _copy_of, _tables
from support.cases import DBNAME, all_cases, open_case
from support.pgoutput_rows import PLAIN, PUBLICATION, rows_of
from support.sampling import some_of
from tailrace.feed import FeedSpan
from tailrace.logicalproto.message_feed import MessageFeed
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, open_pipeline
from tailrace.pipeline.open_snapshot import define, open_snapshot
from tailrace.plugins.pgoutput import PgOutput
from tailrace.publications.commands.statements import parse_statement
from tailrace.publications.subscription import Subscription
from tailrace.storage.publication_files import PublicationFiles

NOT_TOLD = frozenset(
    {
        # UPDATE or DELETE of a table without a replica identity, which a publication refuses
        "big", "ddl", "fast_default", "hot", "multi_insert", "origin", "partitions", "replica_identity", "speculative", "truncate", "types",
        "user_catalog", "xml",
        # what ADD COLUMN gave to older rows, and rows that ALTER TABLE wrote anew, of which a publication says nothing
        "catalog_rewrite", "concurrent_ddl_dml", "enums", "mxact", "quoting", "rewrite", "rewrite_under_ddl", "rows_as_values",
        # a row that is known by all of its values, which are printed otherwise by then
        "names", "names_temporary",
        # nothing is in it; or only tables that have no column
        "empty", "dropped",
        # dates that Python does not have, which the test cannot print
        "types_more",
    }
)  # fmt: skip
"""Stories of which pgoutput does not say all that the log does."""
STORIES = sorted({story for story, major, variant in all_cases() if (major, variant) == (18, "with_slot")} - NOT_TOLD)


@pytest.mark.parametrize("story", some_of([pytest.param(each, id=each) for each in STORIES], 5))
def test_a_story(story: str, tmp_path: Path) -> None:
    case = open_case(story, 18, "with_slot", tmp_path / "case")
    pipeline = open_pipeline(case.data_dir, DBNAME, runner=LocalRunner(1))
    here = open_snapshot(case.data_dir, DBNAME, LocalRunner(1), at=pipeline.span.start)
    files = PublicationFiles(tmp_path / "publications")
    text = f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES WITH (publish_via_partition_root = true)"
    define(files, here, parse_statement(text), text)
    definitions = files.read(here.system, here.database_oid, here.database).in_order
    of_wal = pipeline.published_to(Subscription((PUBLICATION,), definitions))
    lake = _apply(tmp_path / "wal", of_wal)
    plugin = PgOutput()
    plugin.context.definitions = definitions
    plugin.startup(PLAIN, 18)
    sent = open_pipeline(case.data_dir, DBNAME, runner=LocalRunner(1), demand=plugin.demand)
    messages = [(int(Lsn.parse(lsn)), data) for lsn, _, data in rows_of(sent, plugin)]
    span = FeedSpan(of_wal.span.system, 1, of_wal.span.start, of_wal.span.stop, of_wal.span.database, of_wal.span.publications)
    told = _tables(_apply(tmp_path / "messages", MessageFeed.of(span, messages)))
    here = _tables(lake)
    assert {name: rows for name, rows in told.items() if name in here} == here
    assert _tables(_apply(tmp_path / "copied", _copy_of(lake, of_wal))) == _tables(lake)
