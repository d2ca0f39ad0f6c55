"""What a slot keeps of a log that grows: the size of its mark, and the memory of its consumer, after every GB.

    python benchmarks/carried.py --gb 10

A server changes rows, and makes, alters and drops tables, while one transaction in a hundred stays open for a while; a slot is advanced beside it, as
`tailrace slot advance` does. Printed are, at each step, the GB of WAL since the slot was made, the bytes of its newest mark, the versions of catalog
rows that are in it, restart_lsn's distance in MB, and the peak resident MB of the consumer, which is a process of its own each time.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil

from measure import measured
from support.servers import Server
from tailrace.cli.verbs.slot import create
from tailrace.model import Lsn
from tailrace.replication.slot_location import SlotLocation

MAJOR = 16
_SETTINGS = {"max_wal_size": "2GB", "wal_keep_size": "3GB", "shared_buffers": "256MB", "checkpoint_timeout": "5min"}
_ROWS = 200_000
_STEP = 1 << 30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gb", type=int, default=10)
    options = parser.parse_args()
    with Server(MAJOR, _SETTINGS, wal_segment_mb=16) as server, tempfile.TemporaryDirectory() as state:
        server.say(
            "CREATE TABLE t (id int PRIMARY KEY, v text, n int DEFAULT 0)",
            f"INSERT INTO t SELECT g, repeat('x', 200) FROM generate_series(1, {_ROWS}) g",
            "VACUUM FREEZE",
        )
        create("one", server.data_dir, Path(state) / "slots", server.dbname)
        location = SlotLocation.open(Path(state) / "slots")
        began = location.slot("one").confirmed_flush_lsn
        sys.stdout.write("| GB | mark, kB | catalog versions | restart behind, MB | consumer peak MB |\n|---|---|---|---|---|\n")
        for _ in range(options.gb):
            _grow(server)
            peak = _advance(location.path, server.flush_lsn())
            slot = location.slot("one")
            mark = location.marks(slot.database_oid)[-1]
            carried = location.mark_upto(slot.database_oid, slot.confirmed_flush_lsn)
            sys.stdout.write(
                f"| {(slot.confirmed_flush_lsn - began) / 1e9:.1f} | {mark.path.stat().st_size / 1000:.0f} "
                f"| {len(carried.state.versions)} | {(slot.confirmed_flush_lsn - slot.restart_lsn) / 1e6:.0f} | {peak / 1e6:.0f} |\n"
            )
            sys.stdout.flush()


def _grow(server: Server) -> None:
    """So much WAL, and some more: rows of one table, whole tables, and a transaction that is open over each part."""
    goal = Lsn.parse(server.flush_lsn()) + _STEP
    number = 0
    with server.connect(autocommit=False) as slow:
        while Lsn.parse(server.flush_lsn()) < goal:
            number += 1
            low = number * 20_000 % _ROWS
            slow.execute("INSERT INTO t VALUES (%s, 'open for a while')", [-number])
            server.say(
                f"UPDATE t SET v = repeat(chr(65 + {number % 26}), 200) WHERE id BETWEEN {low} AND {low + 20_000}",
                f"CREATE TABLE made{number} AS SELECT g, repeat('y', 100) FROM generate_series(1, 5000) g",
                f"ALTER TABLE made{number} ADD COLUMN more int DEFAULT {number}",
                f"DROP TABLE made{number}",
            )
            slow.rollback() if number % 2 else slow.commit()
            if number % 20 == 0:
                server.say("DELETE FROM t WHERE id < 0", "VACUUM")


def _advance(location: Path, upto: str) -> int:
    """Peak resident bytes of the process."""
    command = [str(Path(sys.executable).with_name("tailrace")), "slot", "advance", "one", upto, "--state", str(location)]

    def advance() -> int:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return 0

    me = psutil.Process().pid
    taken = measured(
        advance,
        [me],
        lambda process: "bench" if process.pid == me else "postgres" if "postgres" in process.name() else "consumer",
    )
    return taken.peak["consumer"]


if __name__ == "__main__":
    main()
