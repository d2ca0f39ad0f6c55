"""An archive of WAL in a bucket is a SOURCE: what comes out of it is what comes out of a directory with the same files, and who follows it sees what
is put there."""

from __future__ import annotations

import pickle
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.buckets import PACKERS, BucketArchive
from support.cases import Case, open_case
from support.command import Run
from support.decoding import state_before, text_of
from support.s3_servers import SeaweedFS
from support.sampling import some_of
from support.slots import TAILRACE
from support.store_proxy import StoreProxy
from support.waiting import until
from tailrace.catalog.state.state_file import write_state
from tailrace.errors import CorruptWal, MissingHistory, UsageError
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, open_pipeline
from tailrace.pipeline.following import FollowedLog, NothingNew
from tailrace.sources.named import files_of
from tailrace.sources.source import Source
from tailrace.spark.jobs import SparkRunner
from tailrace.storage.segment_files import list_segments, open_segments
from tailrace.storage.store import StoredObject
from tailrace.storage.wal_objects import WalObjects

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STORY, MAJOR = "spill", 16


@pytest.fixture
def case(tmp_path: Path) -> Case:
    """Of several segments."""
    case = open_case(STORY, MAJOR, "with_slot", tmp_path)
    (tmp_path / "state").write_bytes(write_state(state_before(case)))
    return case


@pytest.fixture
def archive(seaweedfs: SeaweedFS, monkeypatch: pytest.MonkeyPatch) -> BucketArchive:
    """An empty one, on a server that the environment knows."""
    made = BucketArchive.new(seaweedfs)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    return made


def _segments(case: Case) -> list[Path]:
    return sorted(path for path in case.wal_dir.iterdir() if len(path.name) == 24)


def _words(case: Case, state: object) -> Sequence[object]:
    return ("--database", case.meta["dbname"], "--catalog", state)


@pytest.mark.parametrize("ending", some_of([pytest.param(each, id=each or "plain") for each in PACKERS], 2))
def test_a_bucket_is_decoded_as_a_directory_is(
    case: Case, ending: str, seaweedfs: SeaweedFS, archive: BucketArchive, tailrace: Run, tmp_path: Path
) -> None:
    """Whatever the segments are compressed with; the catalog state comes from there, too."""
    bucket = BucketArchive(archive.url, archive.options, ending)
    bucket.put_all(case.wal_dir)
    bucket.store.put("states/before", (tmp_path / "state").read_bytes())
    there = tailrace("decode", case.wal_dir, *_words(case, tmp_path / "state"))
    assert there[0] == 0, there
    assert there[1].count("\n") > 100
    here = tailrace("decode", bucket.url, *_words(case, f"{bucket.url}/states/before"))
    assert here[:2] == there[:2], here[2]
    sound = tailrace("wal", "verify", case.wal_dir)[1]
    assert tailrace("wal", "verify", bucket.url)[1].replace(ending, "") == sound.replace(str(case.wal_dir), bucket.url)


def test_options_of_the_store_stand_with_the_source(
    case: Case, seaweedfs: SeaweedFS, tailrace: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of the source alone: the lake has its own."""
    bucket = BucketArchive.new(seaweedfs)
    bucket.put_all(case.wal_dir)
    for name in bucket.environment:
        monkeypatch.delenv(name, raising=False)
    options = [word for name, value in bucket.options.items() for word in ("--source-option", f"{name}={value}")]
    words = _words(case, tmp_path / "state")
    there = tailrace("decode", case.wal_dir, *words)
    assert tailrace("decode", bucket.url, *words, *options)[:2] == there[:2]
    assert tailrace("wal", "ls", bucket.url, *options)[0] == 0
    lake = ("--to", tmp_path / "lake", "--state", tmp_path / "slots")
    code, out, err = tailrace("mirror", bucket.url, *words, *lake, *options)
    assert (code, "is complete up to" in out) == (0, True), err
    for source, shown in ((case.wal_dir, str(case.wal_dir)), ("host=h password=secret", "host=h")):
        code, out, err = tailrace("decode", source, *words, "--source-option", "aws_region=eu")
        assert (code, out) == (1, "")
        assert f'"{shown}' in err
        assert "is not the URL of a store, and has no options\nHINT:  Leave out aws_region." in err
        assert "secret" not in err


def test_what_is_said_of_its_files_names_the_bucket(case: Case, archive: BucketArchive, tailrace: Run, tmp_path: Path) -> None:
    code, _, err = tailrace("decode", archive.url, *_words(case, tmp_path / "state"))
    assert (code, f'no WAL segments in "{archive.url}"' in err) == (1, True), err
    archive.put_all(case.wal_dir)
    first = _segments(case)[0].name
    archive.store.put(first, b"no segment")
    with pytest.raises(CorruptWal) as damaged:
        Source.open(archive.url)
    assert damaged.value.file == f"{archive.url}/{first}"
    archive.store.delete([each.name for each in archive.store.list()])
    with pytest.raises(MissingHistory, match="no WAL segments"):
        Source.open(archive.url)


@pytest.mark.parametrize(
    ("url", "words"), [("s3a://lake/x", "s3:// instead"), ("s3://key:secret@lake/x", "credentials in it"), ("gs://", "no bucket")]
)
def test_urls_that_cannot_be_one(url: str, words: str, tailrace: Run) -> None:
    code, out, err = tailrace("decode", url, "--database", "app")
    assert (code, out) == (1, "")
    assert words in err
    assert "secret" not in err


def test_a_file_url_is_the_directory(case: Case, tailrace: Run) -> None:
    words = ("--database", case.meta["dbname"])
    there = tailrace("decode", case.data_dir, *words)
    assert tailrace("decode", case.data_dir.as_uri(), *words) == there
    with pytest.raises(UsageError, match="names a host"):
        Source.open("file://elsewhere/x")


def test_a_segment_that_is_partial_yet(case: Case, archive: BucketArchive, tailrace: Run, tmp_path: Path) -> None:
    """It is read as far as it goes; one that was completed is read in its place."""
    *whole, last = _segments(case)
    for path in whole:
        archive.put(path)
    archive.put(last, upto=300_000)
    local = tmp_path / "archive"
    local.mkdir()
    for path in whole:
        (local / path.name).symlink_to(path)
    (local / f"{last.name}.partial").write_bytes(last.read_bytes()[:300_000])
    there = tailrace("decode", local, *_words(case, tmp_path / "state"))
    here = tailrace("decode", archive.url, *_words(case, tmp_path / "state"))
    assert there[:2] == here[:2], here[2]
    segments = open_segments(files_of(archive.url))
    archive.put(last)
    archive.store.delete([f"{last.name}.partial"])
    start, size = segments.stop_lsn - segments.segment_size, segments.segment_size
    assert segments.read(start, start + size).buf[:size].tobytes() == last.read_bytes()


@pytest.mark.spark
def test_on_spark_workers_get_the_store_and_no_wal(
    case: Case, archive: BucketArchive, spark: SparkSession, tmp_path: Path
) -> None:
    """Rows are those of the directory, in jobs and as a DataFrame. What travels is names, and the store with its credentials."""
    archive.put_all(case.wal_dir)
    database, state = case.meta["dbname"], tmp_path / "state"
    there = text_of(open_pipeline(case.wal_dir, database, catalog=state, runner=LocalRunner(1)), {})
    assert text_of(open_pipeline(archive.url, database, catalog=state, runner=SparkRunner(spark)), {}) == there
    archive.store.put("states/before", state.read_bytes())
    options = {"database": database, "plugin": "test_decoding"}
    theirs = {f"store.{name}": str(value) for name, value in archive.options.items()}
    rows = [
        spark.read.format("tailrace").options(**options, **more, catalog=str(catalog)).load(str(source)).orderBy("lsn").collect()
        for source, catalog, more in ((case.wal_dir, state, {}), (archive.url, f"{archive.url}/states/before", theirs))
    ]
    assert rows[0] == rows[1]
    assert len(rows[0]) > 100
    segments = Source.open(archive.url).segments
    packed = pickle.dumps(segments)
    assert len(packed) < 4000 + 200 * len(segments.by_number)
    assert str(archive.options["aws_secret_access_key"]).encode() in packed
    assert str(archive.options["aws_secret_access_key"]) not in repr(segments)


class _Listings:
    """How often a store was asked what there is, from where on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.after: list[str] = []
        listed = WalObjects._objects

        def counted(files: WalObjects, after: str) -> object:
            self.after.append(after)
            return listed(files, after)

        monkeypatch.setattr(WalObjects, "_objects", counted)


def test_growth_is_seen_by_one_listing(case: Case, archive: BucketArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is new, no object is read, and nothing is listed that lies before the end. What is put there is found, a partial segment that has
    grown, too."""
    first, second = _segments(case)
    archive.put(first)
    source, runner = Source.open(archive.url), LocalRunner(1)
    start = source.segments.first_lsn
    log = FollowedLog(archive.url, start, start, source)
    found = [part for _, part in log.look(runner)]
    assert found
    assert list(log.look(runner)) == []
    assert log.nothing_new.tail is not None
    listings = _Listings(monkeypatch)
    read = _forbid_reading(monkeypatch)
    assert list(log.look(runner)) == []
    assert isinstance(log.nothing_new, NothingNew)
    assert len(listings.after) == 1
    assert listings.after[0] >= first.name[:8]
    read.undo()
    for upto in (200_000, 900_000, None):
        archive.put(second, upto=upto)
        before = log.lsn
        assert list(log.look(runner))
        assert log.lsn > before
    alone = Source.open(case.wal_dir)
    whole = FollowedLog(str(case.wal_dir), start, start, alone)
    assert list(whole.look(runner))
    assert log.lsn == whole.lsn > alone.segments.stop_lsn - alone.segments.segment_size


def _forbid_reading(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    def read(*arguments: object, **named: object) -> bytes:
        raise AssertionError("an object was read")

    forbidden = pytest.MonkeyPatch()
    for name in ("read_into", "head", "packed"):
        forbidden.setattr(WalObjects, name, read)
    return forbidden


def test_of_a_long_archive_the_end_is_listed(archive: BucketArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each timeline, from the place on that is wanted; whatever else lies there is passed over."""
    store = archive.store
    names = [
        f"{timeline:08X}{high:08X}000000{low:02X}"
        for timeline in (1, 2)
        for high in range(timeline, timeline + 3)
        for low in (0, 1)
    ]
    for name in [*names, "00000002.history", "00000001000000010000000A.00000028.backup", "notes", "states/1"]:
        store.put(name, b"")
    given: list[str] = []
    listed = type(store).list

    def seen(self: object, prefix: str = "", after: str = "") -> object:
        for each in listed(self, prefix, after):  # type: ignore[arg-type]
            assert isinstance(each, StoredObject)
            given.append(each.name)
            yield each

    monkeypatch.setattr(type(store), "list", seen)
    found = [segment.name for segment in list_segments(files_of(archive.url), Lsn(4 << 32))]
    assert "states/1" not in given
    assert found == [name for name in names if int(name[8:16], 16) >= 3]


@pytest.mark.soak
def test_who_follows_waits_for_a_store_that_is_away(
    case: Case, archive: BucketArchive, seaweedfs: SeaweedFS, monkeypatch: pytest.MonkeyPatch, tailrace: Run, tmp_path: Path
) -> None:
    """It is told once. Who asks once gets the error."""
    first, second = _segments(case)
    archive.put(first)
    state = tmp_path / "slots"
    created = tailrace("slot", "create", "s", archive.url, "--state", state, *_words(case, tmp_path / "state"))
    assert created[0] == 0, created
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    proxy = StoreProxy(seaweedfs.endpoint)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
    output, said = tmp_path / "output", tmp_path / "said"
    with said.open("w") as told:
        follower = subprocess.Popen(
            list(map(str, (TAILRACE, "slot", "receive", "s", "--state", state, "-f", output))), stdout=told, stderr=told
        )  # fmt: skip
    try:
        until(output.exists)
        proxy.is_away = True
        code, _, err = tailrace("wal", "ls", archive.url)
        assert (code, archive.url in err) == (1, True), err
        until(lambda: "waiting until the source can be read" in said.read_text())
        archive.put(second)
        proxy.is_away = False
        until(lambda: output.read_text().count("\n") > 10)
        assert said.read_text().count("waiting until the source can be read") == 1
    finally:
        follower.kill()
        follower.wait()
        proxy.shutdown()
        proxy.server_close()
