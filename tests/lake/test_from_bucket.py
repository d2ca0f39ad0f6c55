"""`tailrace mirror s3://archive --to s3://lake`: a lake of a server whose log is nowhere but in a bucket."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.buckets import BucketArchive
from support.command import ran
from support.s3_servers import SeaweedFS
from support.servers import Server
from support.slots import TAILRACE
from support.storm import KEYS, begin, different, storm
from support.waiting import until
from tailrace.lake.catalog import StoredCatalog
from tailrace.model import Lsn
from tailrace.storage.open_store import open_store
from tailrace.storage.store import Store

pytestmark = pytest.mark.postgres
LONG = 300.0


@dataclass
class Shipped:
    """A server, and where its log is archived. What is told to a process of tailrace is the bucket alone."""

    server: Server
    archive: BucketArchive
    home: Path

    @property
    def lake(self) -> str:
        return f"{self.archive.url}-lake"

    @property
    def store(self) -> Store:
        return open_store(self.lake, self.archive.options)

    @property
    def complete(self) -> Lsn:
        catalog = StoredCatalog.read(self.store).catalog
        return catalog.complete if catalog is not None else Lsn(0)

    def ship(self) -> Lsn:
        """Archive what there is. Where that ends."""
        end = Lsn.parse(self.server.flush_lsn())
        self.archive.ship(self.server)
        return end

    def capture(self) -> None:
        """A catalog state, of before there was anything, put into the bucket."""
        file = self.home / "state"
        ran("catalog", "capture", self.server.data_dir, "--database", self.server.dbname, "-o", file).check_returncode()
        self.archive.store.put("states/begin", file.read_bytes())
        file.unlink()

    def mirror(self, *more: str, **environment: str) -> subprocess.Popen[str]:
        words = (
            TAILRACE, "mirror", self.archive.url, "--database", self.server.dbname, "--catalog", f"{self.archive.url}/states/begin",
            "--to", self.lake, "--state", self.home / "slots", *more,
        )  # fmt: skip
        return subprocess.Popen(
            list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, **self.archive.environment, **environment},
        )  # fmt: skip


@pytest.fixture
def shipped(seaweedfs: SeaweedFS, tmp_path: Path) -> Iterator[Shipped]:
    with Server(18, {"wal_keep_size": "2GB"}, test_decoding=False) as server:
        server.sql("CREATE DATABASE shipped STRATEGY file_copy")
        server.dbname = "shipped"
        made = Shipped(server, BucketArchive.new(seaweedfs, ".zst"), tmp_path)
        made.capture()
        begin(server)
        yield made


def test_a_lake_follows_a_bucket(shipped: Shipped) -> None:
    """What is archived while it follows comes into the lake; a run that goes on later begins where the lake is."""
    with storm(shipped.server, 1):
        time.sleep(0.5)
    shipped.ship()
    process = shipped.mirror("--follow", "--every", "0.2s")
    try:
        with storm(shipped.server, 2):
            time.sleep(0.5)
        end = shipped.ship()
        until(lambda: shipped.complete >= end)
        assert different(shipped.server, shipped.store) == []
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=LONG)
        assert process.returncode == 0, err
    finally:
        process.kill()
    shipped.server.say("UPDATE plain SET v = 'later' WHERE id <= 10")
    shipped.ship()
    again = shipped.mirror()
    _, err = again.communicate(timeout=LONG)
    assert again.returncode == 0, err
    assert different(shipped.server, shipped.store) == []


@pytest.mark.spark
@pytest.mark.soak
@pytest.mark.marathon
@pytest.mark.parametrize("is_large", [False, True])
def test_workers_that_share_nothing_but_the_store(
    shipped: Shipped, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_large: bool
) -> None:
    """A standalone cluster of two workers, in mount namespaces of their own in which there is neither the log nor anything of the driver's."""
    from support.spark_cluster import Cluster, can_be_apart  # noqa: PLC0415 - pyspark

    if not can_be_apart():
        pytest.skip("this user may not make mount namespaces")
    with storm(shipped.server, 3):
        time.sleep(1.0)
    if is_large:  # more than is applied in the driver
        monkeypatch.setitem(KEYS, "large", ("id",))
        shipped.server.say(
            "CREATE TABLE large (id int PRIMARY KEY, v text, n int)",
            "INSERT INTO large SELECT g, repeat(md5(g::text), 4), 0 FROM generate_series(1, 1000000) g",
            "UPDATE large SET n = 1, v = 'another' WHERE id % 5 = 0",
            "DELETE FROM large WHERE id % 17 = 0",
        )
    shipped.ship()
    driver = tmp_path / "driver"
    for name in ("tmp", "cache", "home"):
        (driver / name).mkdir(parents=True)
    with Cluster(2, hidden=[tmp_path, shipped.server.data_dir.parent]) as cluster:
        for worker in cluster.workers:
            assert os.listdir(f"/proc/{worker.process.pid}/root{tmp_path}") == []
            assert os.listdir(f"/proc/{worker.process.pid}/root{shipped.server.data_dir.parent}") == []
        submit = " ".join(
            f"--conf {name}={value}"
            for name, value in cluster.settings().items()
            if name != "spark.python.unix.domain.socket.dir"
        )
        process = shipped.mirror(
            "--on", "spark", MASTER=cluster.url, TMPDIR=str(driver / "tmp"), XDG_CACHE_HOME=str(driver / "cache"), HOME=str(driver / "home"),
            TAILRACE_SPOOL=str(driver / "spool"), SPARK_LOCAL_DIRS=str(driver / "tmp"), PYSPARK_SUBMIT_ARGS=f"{submit} pyspark-shell",
        )  # fmt: skip
        try:
            _, err = process.communicate(
                timeout=2 * LONG
            )  # kernels are compiled by driver and workers, for none of whom there are any
        finally:
            process.kill()
        assert process.returncode == 0, err
        ran = {folder.parents[1] for folder in cluster.executor_folders()}
        assert ran == set(cluster.home.glob("worker-*"))
    assert different(shipped.server, shipped.store) == []
