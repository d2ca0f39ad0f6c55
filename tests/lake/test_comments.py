"""COMMENT ON of the source is what tables and columns of a lake say of themselves, in every format and layout, from the commit on that said it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.servers import Server
from tailrace.lake.delta.snapshot import DeltaSnapshot
from tailrace.lake.files.comments import LakeComments
from tailrace.lake.files.file_changes import NO_CHANGES
from tailrace.lake.formats import ICEBERG
from tailrace.lake.iceberg.snapshot import IcebergSnapshot
from tailrace.lake.lake import Lake
from tailrace.lake.table import CommitNote
from tailrace.model import Lsn
from tailrace.pipeline import open_pipeline
from tailrace.storage.local_store import LocalStore

pytestmark = pytest.mark.postgres
Said = dict[str, str | None]
TABLE = ""


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with Server(18, test_decoding=False) as server:
        yield server


@pytest.fixture
def server(running: Server) -> Server:
    running.say("DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
    return running


def _begun(server: Server, folder: Path, **options: Any) -> Lake:
    """A lake that begins here, with a table that somebody has written to."""
    lake, start = Lake.open(LocalStore(folder), **options), Lsn.parse(server.flush_lsn())
    server.say("CREATE TABLE first (id int PRIMARY KEY)", "INSERT INTO first VALUES (1)")
    lake.apply(open_pipeline(server.data_dir, "postgres", start_lsn=start))
    return lake


def _apply(server: Server, lake: Lake) -> list[str]:
    """The tables that were committed to."""
    assert lake.catalog is not None
    return [each.table for each in lake.apply(open_pipeline(server.data_dir, "postgres", start_lsn=lake.catalog.complete))]


def _said(lake: Lake, table: str) -> Said:
    """What the table in the lake says of itself and its columns, where it says something; of rows of changes both sides."""
    assert lake.catalog is not None
    (folder,) = (each.folder for each in lake.catalog.tables.values() if each.name == table and each.dropped is None)
    store = lake.store.below(folder)
    if lake.format.name == ICEBERG:
        snapshot = IcebergSnapshot.read(store)
        fields: list[Any] = [(f"{prefix}{each.name}", each.doc) for prefix, each in _of_iceberg(snapshot.columns.fields)]
        return {TABLE: snapshot.properties["comment"], **{name: doc for name, doc in fields if doc}}
    metadata = DeltaSnapshot.read(store).metadata
    columns = [*_of_delta(json.loads(metadata.schema_text))]
    said = {name: metadata_.get("comment") for name, metadata_ in columns if "comment" in metadata_}
    return ({TABLE: metadata.description} if metadata.description else {}) | said


def _of_iceberg(fields: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for each in fields:
        yield prefix, each
        yield from _of_iceberg(getattr(each.field_type, "fields", ()), f"{each.name}.")


def _of_delta(struct: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for each in struct["fields"]:
        yield prefix + each["name"], each["metadata"]
        if isinstance(each["type"], dict) and each["type"]["type"] == "struct":
            yield from _of_delta(each["type"], f"{each['name']}.")


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_set_changed_and_removed(server: Server, tmp_path: Path, format: str) -> None:
    lake = _begun(server, tmp_path, format=format)
    server.say(
        "CREATE TABLE a (id int PRIMARY KEY, v text, w int)", "COMMENT ON TABLE a IS 'what it''s about'", "COMMENT ON COLUMN a.v IS 'größer'",
        "INSERT INTO a VALUES (1, 'x', 2)", "CREATE TABLE other (id int PRIMARY KEY)", "INSERT INTO other VALUES (1)",
    )  # fmt: skip
    assert _apply(server, lake) == ["public.a", "public.other"]
    assert _said(lake, "a") == {TABLE: "what it's about", "v": "größer"}
    assert _said(lake, "other") == ({TABLE: "public.other"} if format == "iceberg" else {})

    server.say("COMMENT ON COLUMN a.v IS 'changed'", "COMMENT ON COLUMN a.id IS 'the key'")
    assert _apply(server, lake) == ["public.a"], "a comment alone is a commit, of its table alone"
    assert _said(lake, "a") == {TABLE: "what it's about", "v": "changed", "id": "the key"}

    server.say("INSERT INTO a VALUES (2, 'y', 3)")
    assert _apply(server, lake) == ["public.a"]
    assert _said(lake, "a") == {TABLE: "what it's about", "v": "changed", "id": "the key"}, "rows leave comments as they are"

    server.say("COMMENT ON COLUMN a.v IS NULL", "COMMENT ON TABLE a IS ''")
    assert _apply(server, lake) == ["public.a"]
    assert _said(lake, "a") == {"id": "the key"} | ({TABLE: "public.a"} if format == "iceberg" else {})
    assert _apply(server, lake) == []


@pytest.mark.parametrize("layout", ["changes", "history"])
def test_other_layouts(server: Server, tmp_path: Path, layout: str) -> None:
    lake = _begun(server, tmp_path, layout=layout)
    server.say(
        "CREATE TABLE a (id int PRIMARY KEY, v text)", "COMMENT ON COLUMN a.v IS 'before'", "INSERT INTO a VALUES (1, 'x')",
        "COMMENT ON TABLE a IS 'all'",
    )  # fmt: skip
    assert _apply(server, lake) == ["public.a"]

    def of_columns(**comments: str) -> Said:
        sides = ("new.", "old.") if layout == "changes" else ("",)
        return {side + name: comment for side in sides for name, comment in comments.items()}

    assert _said(lake, "a") == {TABLE: "all", **of_columns(v="before")}
    server.say("COMMENT ON COLUMN a.v IS 'after'", "ALTER TABLE a ADD w int", "COMMENT ON COLUMN a.w IS 'new'")
    assert _apply(server, lake) == ["public.a"]
    assert _said(lake, "a") == {TABLE: "all", **of_columns(v="after", w="new")}
    server.say("ALTER TABLE a DROP v", "UPDATE a SET w = 1", "COMMENT ON TABLE a IS NULL")
    assert _apply(server, lake) == ["public.a"]
    assert _said(lake, "a") == of_columns(v="after", w="new"), "of a column that is gone the last comment stays"


def test_transactions(server: Server, tmp_path: Path) -> None:
    """What was rolled back never counts; what is open counts from its commit on; in one transaction the last word does."""
    lake = _begun(server, tmp_path)
    server.say("CREATE TABLE a (id int PRIMARY KEY, v text)", "COMMENT ON COLUMN a.v IS 'first'", "INSERT INTO a VALUES (1)")
    _apply(server, lake)
    with server.connect(autocommit=False) as aborted:
        aborted.execute("COMMENT ON COLUMN a.v IS 'aborted'")
        aborted.rollback()
    with server.connect(autocommit=False) as other:
        other.execute("COMMENT ON COLUMN a.id IS 'soon'")
        other.execute("SAVEPOINT s")
        other.execute("COMMENT ON COLUMN a.v IS 'never'")
        other.execute("ROLLBACK TO s")
        server.say("INSERT INTO first VALUES (2)")
        assert _apply(server, lake) == ["public.first"]
        assert _said(lake, "a") == {"v": "first"}
        other.execute("COMMENT ON COLUMN a.id IS 'the last word'")
        other.commit()
    assert _apply(server, lake) == ["public.a"]
    assert _said(lake, "a") == {"v": "first", "id": "the last word"}


def test_names_change(server: Server, tmp_path: Path) -> None:
    lake = _begun(server, tmp_path)
    server.say("CREATE TABLE a (id int PRIMARY KEY, v text)", "COMMENT ON COLUMN a.v IS 'stays'", "INSERT INTO a VALUES (1)")
    _apply(server, lake)
    server.say("ALTER TABLE a RENAME TO b", "ALTER TABLE b RENAME v TO w", "COMMENT ON TABLE b IS 'renamed'")
    assert _apply(server, lake) == ["public.b"]
    assert _said(lake, "b") == {TABLE: "renamed", "w": "stays"}
    server.say("ALTER TABLE b ALTER w TYPE varchar(9)", "TRUNCATE b", "INSERT INTO b VALUES (2, 'y')")
    assert _apply(server, lake) == ["public.b"]
    assert _said(lake, "b") == {TABLE: "renamed", "w": "stays"}


def test_before_the_log_and_long_ones(server: Server, tmp_path: Path) -> None:
    """What stood in pg_description's file and its TOAST table before the log at hand, or a catalog was written anew, is known."""
    long, longer = (
        server.value(f"SELECT string_agg(md5(i::text), '') FROM generate_series({start}, 3000) i") for start in (1, 2)
    )
    server.say(
        "CREATE TABLE a (id int PRIMARY KEY, v text)",
        f"COMMENT ON COLUMN a.v IS '{long}'",
        "COMMENT ON TABLE a IS 'old'",
        "CHECKPOINT",
    )
    lake = _begun(server, tmp_path)
    server.say("INSERT INTO a VALUES (1)")
    _apply(server, lake)
    assert _said(lake, "a") == {TABLE: "old", "v": long}
    server.say(f"COMMENT ON COLUMN a.v IS '{longer}'", "VACUUM FULL pg_description", "COMMENT ON TABLE a IS 'new'")
    assert _apply(server, lake) == ["public.a"]
    assert _said(lake, "a") == {TABLE: "new", "v": longer}


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_comments_of_others_stay(server: Server, tmp_path: Path, format: str) -> None:
    """Where the source has none, what somebody has put on the lake's table is left alone."""
    lake = _begun(server, tmp_path, format=format)
    server.say("CREATE TABLE a (id int PRIMARY KEY, v text)", "COMMENT ON COLUMN a.v IS 'ours'", "INSERT INTO a VALUES (1)")
    _apply(server, lake)
    assert lake.catalog is not None
    (table,) = (each for each in lake.catalog.tables.values() if each.name == "a")
    found = lake.opened(table).open()
    theirs = LakeComments("their table", {"id": "theirs", "v": "ours"})
    lake.keep(table.oid, found.commit("a", NO_CHANGES, CommitNote(comments=theirs), found.schema))
    assert _said(lake, "a") == {TABLE: "their table", "id": "theirs", "v": "ours"}
    server.say("INSERT INTO a VALUES (2)", "COMMENT ON COLUMN a.v IS NULL", "ALTER TABLE a ADD w int")
    _apply(server, lake)
    assert _said(lake, "a") == {TABLE: "their table", "id": "theirs"}
