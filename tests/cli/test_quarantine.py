"""`tailrace mirror --on-error quarantine`, `tailrace lake quarantine` and `replay`: what a person sees, and `kill -9` at any moment."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from support.command import Run
from support.own_database import servers_with_databases
from support.s3_servers import SeaweedFS
from support.servers import Server
from support.slots import TAILRACE
from tailrace.lake.lake import Lake
from tailrace.lake.reading import read_table
from tailrace.storage.local_store import LocalStore
from tailrace.storage.open_store import open_store

pytestmark = pytest.mark.postgres


running, server = servers_with_databases({"wal_keep_size": "2GB"})


def test_from_trouble_to_replay(server: Server, tmp_path: Path, tailrace: Run) -> None:
    lake, state = tmp_path / "lake", tmp_path / "state"
    base = ("mirror", server.data_dir, "--database", server.dbname, "--to", lake, "--state", state)
    server.say(
        "CREATE TABLE invoices (id int PRIMARY KEY, total numeric(10,2))", "CREATE TABLE h (a int)",
        "INSERT INTO invoices SELECT n, n FROM generate_series(1, 1000) n", "INSERT INTO h VALUES (1)",
        "UPDATE invoices SET total = 'NaN' WHERE id = 7",
    )  # fmt: skip
    code, out, err = tailrace(*base)
    assert (code, out) == (1, "")
    assert "numeric NaN does not fit decimal128(10, 2)\nHINT:  Set --numeric text.\n" in err
    assert "CONTEXT:  column total of table public.invoices, changes that commit from " in err
    code, out, err = tailrace(*base, "--on-error", "ignore")
    assert (code, out) == (1, "")
    assert 'invalid value for parameter "on_error": "ignore"' in err
    code, out, err = tailrace(*base, "--on-error", "quarantine", "--json")
    assert code == 0
    reason = 'column "total": numeric NaN does not fit decimal128(10, 2)'
    assert f"1 change of table public.invoices went into quarantine: {reason}\n" in err
    told = map(json.loads, out.splitlines())
    assert [line["quarantined"] for line in told if "quarantined" in line] == [{"public.invoices": 1}]

    code, out, _ = tailrace("lake", "status", lake, "--json")
    status = json.loads(out)
    assert status["quarantined"] == 1
    assert {each["table"]: (each["rows"], each["quarantined"], each["held"]) for each in status["tables"]} == {
        "public.invoices": (1000, 1, None), "public.h": (1, 0, None),
    }  # fmt: skip
    code, out, _ = tailrace("lake", "quarantine", lake, "--table", "invoices", "--json")
    (row,) = json.loads(out)["quarantined"]
    assert (row["kind"], row["new"], row["old"], row["reason"]) == ("update", '{"id": "7", "total": "NaN"}', None, reason)
    assert row["sqlstate"] == "22003"
    assert tailrace("lake", "quarantine", lake, "--table", "h")[1].splitlines()[-1] == "0 changes in quarantine"
    code, out, err = tailrace("lake", "replay", lake, "--table", "none")
    assert (code, out) == (1, "")
    assert 'relation "none" does not exist' in err
    code, out, _ = tailrace("lake", "replay", lake)
    assert code == 0
    assert out.splitlines()[-1] == "0 changes applied, 1 left in quarantine"
    assert reason in out

    server.say("UPDATE invoices SET total = 10 WHERE id = 7", "UPDATE h SET a = 2")
    code, _, err = tailrace(*base, "--on-error", "quarantine")
    assert code == 0
    assert "table public.h does not go on, and its changes go into quarantine: cannot update table" in err
    code, out, _ = tailrace("lake", "status", lake)
    assert "quarantined: 3" in out.splitlines()
    (line,) = [line for line in out.splitlines() if line.startswith("table public.h is held since ")]
    assert line.endswith('cannot update table "h" because it does not have a replica identity and publishes updates')
    server.say("INSERT INTO h VALUES (3)")
    code, _, err = tailrace(*base)  # what is held is no new trouble, and is told once
    assert code == 0
    (line,) = err.splitlines()
    assert re.fullmatch(
        "tailrace: warning: table public.h does not go on since [0-9A-F/]+, and its changes go into quarantine: "
        'cannot update table "h" because it does not have a replica identity and publishes updates', line,
    )  # fmt: skip
    code, out, _ = tailrace("lake", "replay", lake, "--json")
    done = {each["table"]: each for each in json.loads(out)["tables"]}
    assert (done["public.invoices"]["applied"], done["public.invoices"]["needless"], done["public.invoices"]["left"]) == (1, 1, 0)
    assert done["public.h"]["left"] == 2
    code, out, _ = tailrace("lake", "replay", lake, "--discard")
    assert out.splitlines()[-1] == "1 change applied, 0 left in quarantine"
    assert tailrace("lake", "replay", lake) == (0, "0 changes applied, 0 left in quarantine\n", "")
    assert {row["id"]: int(row["total"]) for row in read_table(lake / "public.invoices").to_pylist()}[7] == 10
    assert sorted(row["a"] for row in read_table(lake / "public.h").to_pylist()) == [1, 3]
    assert "quarantined" not in tailrace("lake", "status", lake)[1]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("place", "layout"),
    [
        ("directory", "changes"), ("s3", "mirror"),
        *(pytest.param(*each, marks=pytest.mark.marathon) for each in (("directory", "mirror"), ("s3", "changes"))),
    ],
)  # fmt: skip
def test_killed_at_any_moment(server: Server, tmp_path: Path, request: pytest.FixtureRequest, place: str, layout: str) -> None:
    """Runs and replays, one after another: each change is in its table or in quarantine, once."""
    url, environment, options = str(tmp_path / "lake"), dict(os.environ), {}
    if place == "s3":
        seaweedfs: SeaweedFS = request.getfixturevalue("seaweedfs")
        url, options = f"{seaweedfs.url}/{tmp_path.name}", dict(seaweedfs.options)
        environment |= {name.upper(): str(value) for name, value in options.items()}
    base = (
        "mirror",
        server.data_dir,
        "--database",
        server.dbname,
        "--to",
        url,
        "--state",
        tmp_path / "state",
        "--layout",
        layout,
    )
    server.say(
        "CREATE TABLE t (id int, v numeric(10,2), n int)", "ALTER TABLE t REPLICA IDENTITY FULL", "INSERT INTO t VALUES (0, 0, 0)"
    )
    assert _run(base, environment, None) == 0
    chance = random.Random(f"{place} {layout}")

    def value(good: int) -> str:
        return chance.choice([str(good), "'NaN'"])

    for n in range(1, 7):
        server.say(*(f"INSERT INTO t VALUES ({k}, {value(1)}, {n})" for k in range(10)))
        server.say(f"UPDATE t SET v = {value(2)} WHERE id = {chance.randrange(10)} AND n = {chance.randrange(n) + 1}")
        words: tuple[object, ...] = (*base, "--on-error", "quarantine") if n % 3 else ("lake", "replay", url)
        _run(words, environment, chance.uniform(0.6, 2.0))
    assert _run((*base, "--on-error", "quarantine"), environment, None) == 0
    _run(("lake", "replay", url, "--numeric", "text"), environment, chance.uniform(0.6, 2.0))
    assert _run(("lake", "replay", url, "--numeric", "text"), environment, None) == 0
    lake = Lake.open(open_store(url, options))
    assert lake.quarantine.counts() == {}
    if layout == "mirror":
        assert lake.catalog is not None
        with server.connect() as connection:
            there = connection.execute("SELECT id, v::text, n FROM t").fetchall()
        assert sorted(there) == sorted(tuple(row.values()) for row in _rows(lake))
    else:
        places = [(row["lsn"], row["sequence"]) for row in _rows(lake)]
        assert len(places) == len(set(places))
        again = tmp_path / "again"
        more = ("--to", again, "--state", tmp_path / "other", "--layout", layout, "--numeric", "text")
        assert _run(("mirror", server.data_dir, "--database", server.dbname, *more), environment, None) == 0
        assert sorted(map(repr, _rows(lake))) == sorted(map(repr, _rows(Lake.open(LocalStore(again)))))


def _rows(lake: Lake) -> list[dict[str, object]]:
    assert lake.catalog is not None
    (table,) = lake.catalog.tables.values()
    version = lake.opened(table).refreshed()
    data = version.data_files(version.open().schema, "")
    files = version.open().files
    return [row for file in files for _, rows in data.rows(file, data.schema.names) for row in rows.to_pylist()]


def _run(words: tuple[object, ...], environment: Mapping[str, str], killed_after: float | None) -> int:
    """Its status; -9 if it was killed after so many seconds."""
    process = subprocess.Popen(
        [TAILRACE, *map(str, words)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        _, err = process.communicate(timeout=60 if killed_after is None else killed_after)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.communicate()
        return -9
    assert process.returncode == 0, err
    return process.returncode
