"""What is carried does not grow with the log: a server makes, alters and drops tables, and cleans its catalogs, again and again."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.beginning import begin
from support.cases import DBNAME
from support.cuts import stretches_between
from support.live import cluster
from support.servers import Server
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, Source, capture
from tailrace.pipeline.scanning import scan_stretch
from tailrace.pipeline.windows import step
from tailrace.plan.carried import Carried
from tailrace.plan.demand import OF_TABLES

pytestmark = pytest.mark.postgres
ROUNDS = 3
TABLES = 25
GROWTH = 1.05
"""A catalog's file has a page more in one round than in the other, or line pointers that are used later."""


def test_rounds_of_ddl(tmp_path: Path) -> None:
    before = cluster(16, tmp_path, {"autovacuum": "off"}, wal_segment_mb=1)
    source = Source.open(before)
    state = capture(source, LocalRunner(1), DBNAME)
    with Server(16, {"autovacuum": "off"}, dbname=DBNAME, data=before, wal_segment_mb=1) as server:
        ends = []
        for _ in range(ROUNDS):
            _round(server)
            ends.append(int(Lsn.parse(server.flush_lsn())))
        server.stop()
        data = server.move_to(tmp_path / "data")
    source = Source.open(data, state.needs_wal_from)
    stretches = stretches_between([int(state.needs_wal_from) // 8192 * 8192, *ends])
    indexes = [scan_stretch(source.segments, (), stretch) for stretch in stretches]
    carried, asked = begin(source, LocalRunner(1), indexes, DBNAME, state, start_lsn=None, upto_lsn=None, demand=OF_TABLES)
    sizes, versions, files = [], [], []
    for part in indexes:
        carried, _ = step(source, LocalRunner(1), carried, [part], asked)
        sizes.append(_size(carried))
        versions.append(len(carried.state.versions))
        files.append(len(carried.state.files))
    assert sizes[-1] < GROWTH * sizes[1], (sizes, versions, files)
    assert versions[-1] < versions[1] + TABLES
    assert files[-1] == files[1]


def _round(server: Server) -> None:
    names = [f"t{number}" for number in range(TABLES)]
    server.say(
        *(f"CREATE TABLE {name} (id int PRIMARY KEY, v text)" for name in names),
        *(f"ALTER TABLE {name} ADD w int DEFAULT 7, ALTER v TYPE varchar(10)" for name in names),
        *(f"INSERT INTO {name} VALUES (1, 'one')" for name in names),
        *(f"DROP TABLE {name}" for name in names),
        "VACUUM FULL pg_index",
        "VACUUM FULL pg_class",
        "VACUUM pg_attribute",
        "VACUUM pg_type",
        "VACUUM pg_depend",
    )


def _size(carried: Carried) -> int:
    """Bytes of its arrays, but for the files of the stretch in which the log ends: that stays, whole, until its 64 MB are full."""
    return (
        _bytes_in(carried.state)
        + _bytes_in(carried.earlier.ended)
        + sum(_bytes_in(part.xids) for part in carried.earlier.indexes_of_unfinished)
    )


def _bytes_in(part: Any) -> int:
    if is_dataclass(part) and not isinstance(part, type):
        return sum(_bytes_in(getattr(part, each.name)) for each in fields(part))
    if isinstance(part, (tuple, list)):
        return sum(map(_bytes_in, part))
    return part.nbytes if isinstance(part, np.ndarray) else 0
