"""A backlog of log into committed tables of Delta, beside a walsender that only decodes it.

    python benchmarks/lake_backlog.py --rows 5000000
    python benchmarks/lake_backlog.py --rows 500000 --runs 1

A server's table (bigint, int, numeric(12,2), timestamptz, text) gets rows in transactions of a thousand: inserts alone, and then a mix of which four
in ten changes are updates and one is a delete, each of a row that lies anywhere. Of both ranges, in turns: pg_recvlogical takes all from a slot of
test_decoding, and of pgoutput, and throws it away; `tailrace mirror` brings a lake up, in the layout *changes* and in *mirror*. Printed are the
medians: seconds, changes a second, how many times as many as the quicker walsender's, CPU seconds, and the most memory of any process of ours.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

sys.path[:0] = [str(Path(__file__).parents[1] / "tests")]

from rich.console import Console
from rich.table import Table

from measure import children_cpu, peaks_of
from support.servers import Server

TAILRACE = str(Path(sys.executable).with_name("tailrace"))
SETTINGS = {
    "fsync": "off", "synchronous_commit": "off", "max_wal_size": "60GB", "wal_keep_size": "60GB", "autovacuum": "off", "checkpoint_timeout": "1d",
    "shared_buffers": "1GB", "max_replication_slots": "100",
}  # fmt: skip
_PUBLICATION = "everything"
WALSENDERS = {
    "test_decoding": [],
    "pgoutput": ["-o", "proto_version=1", "-o", f"publication_names={_PUBLICATION}"],
}
LAYOUTS = ("changes", "mirror")
_TABLE = """
CREATE TABLE sales (id bigint PRIMARY KEY, customer int, amount numeric(12,2), at timestamptz, note text);
CREATE SEQUENCE rows_so_far;
CREATE PROCEDURE insert_rows(transactions int) LANGUAGE plpgsql AS $$
BEGIN
    FOR t IN 1 .. transactions LOOP
        INSERT INTO sales SELECT nextval('rows_so_far'), n % 5000, n * 3.25, clock_timestamp(), 'a note about ' || n FROM generate_series(1, 1000) n;
        COMMIT;
    END LOOP;
END $$;
CREATE PROCEDURE mix(transactions int) LANGUAGE plpgsql AS $$
DECLARE top bigint;
BEGIN
    FOR t IN 1 .. transactions LOOP
        top := (SELECT last_value FROM rows_so_far);
        INSERT INTO sales SELECT nextval('rows_so_far'), n % 5000, n * 3.25, clock_timestamp(), 'a note about ' || n FROM generate_series(1, 500) n;
        UPDATE sales SET amount = amount + 1, at = clock_timestamp()
            WHERE id IN (SELECT 1 + floor(random() * top)::bigint FROM generate_series(1, 400));
        DELETE FROM sales WHERE id IN (SELECT 1 + floor(random() * top)::bigint FROM generate_series(1, 100));
        COMMIT;
    END LOOP;
END $$;
"""
RANGES = {"inserts": "CALL insert_rows({})", "mix": "CALL mix({})"}


class Ran(NamedTuple):
    seconds: float
    cpu: float
    changes: int
    peak: int


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000, help="changes of each range")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    shown = Table(
        "range", "what", "s", "changes/s", "× walsender", "CPU s", "peak MiB", title=f"{options.rows:,} changes a range"
    )
    with (
        tempfile.TemporaryDirectory(prefix="tailrace-backlog-") as folder,
        Server(18, SETTINGS, dbname="app", wal_segment_mb=64) as server,
    ):
        server.say(*(each for each in _TABLE.split(";\n\n") if each.strip()))
        server.say(f"CREATE PUBLICATION {_PUBLICATION} FOR ALL TABLES")
        lakes = {layout: Lake(server, Path(folder), layout) for layout in LAYOUTS}
        for what, call in RANGES.items():
            for plugin in WALSENDERS:
                server.sql("SELECT pg_create_logical_replication_slot(%s, %s)", [f"{what}_{plugin}", plugin], dbname="app")
            with server.connect("app") as connection:
                connection.execute(call.format(options.rows // 1000).encode())
            server.checkpoint()
            end = server.flush_lsn()
            works: dict[str, Callable[[int], Ran]] = {
                plugin: partial(_walsender, server, f"{what}_{plugin}", end) for plugin in WALSENDERS
            } | {layout: lakes[layout].bring_up for layout in LAYOUTS}
            ran: dict[str, list[Ran]] = {name: [] for name in works}
            for number in range(options.runs):
                for name, work in works.items():
                    ran[name].append(work(number))
                    print(f"{what}, {name}: {ran[name][-1].seconds:.1f} s", flush=True)
            for lake in lakes.values():
                lake.keep()
            _show(shown, what, ran, lakes["changes"].changes)
    Console(width=120).print(shown)
    return 0


def _show(shown: Table, what: str, ran: Mapping[str, list[Ran]], changes: int) -> None:
    medians = {name: statistics.median(each.seconds for each in runs) for name, runs in ran.items()}
    quicker = min(medians[name] for name in WALSENDERS)
    for name, runs in ran.items():
        peak = f"{max(each.peak for each in runs) >> 20:,}" if name in LAYOUTS else ""
        shown.add_row(
            what, name, f"{medians[name]:.1f}", f"{changes / medians[name]:,.0f}", f"{quicker / medians[name]:.1f}",
            f"{statistics.median(each.cpu for each in runs):.1f}" if peak else "", peak,
        )  # fmt: skip


class Lake:
    """A lake that is brought up from the same place again and again, and then goes on from there."""

    def __init__(self, server: Server, home: Path, layout: str) -> None:
        self.server, self.layout, self.folder, self.before = server, layout, home / layout, home / f"{layout}-before"
        self.changes = 0
        self.folder.mkdir()
        self._mirror()
        self.keep()

    def bring_up(self, number: int) -> Ran:
        shutil.rmtree(self.folder)
        shutil.copytree(self.before, self.folder)
        subprocess.run(
            [TAILRACE, "slot", "set", "--moved", "--state", str(self.folder / "slots")], check=True, stdout=subprocess.DEVNULL
        )
        return self._mirror()

    def keep(self) -> None:
        """The next runs begin here."""
        shutil.rmtree(self.before, ignore_errors=True)
        shutil.copytree(self.folder, self.before)

    def _mirror(self) -> Ran:
        command = [
            TAILRACE, "mirror", str(self.server.data_dir), "--database", "app", "--to", str(self.folder / "lake"),
            "--state", str(self.folder / "slots"), "--layout", self.layout, "--json", "--on", "local",
        ]  # fmt: skip
        with (self.folder / "said").open("w+b") as said:
            began, before = time.monotonic(), children_cpu()
            process = subprocess.Popen(command, stdout=said)
            peaks = peaks_of(process)
            seconds = time.monotonic() - began
            said.seek(0)
            lines = [json.loads(line) for line in said if line.startswith(b"{")]
        if process.returncode:
            raise RuntimeError(f"{' '.join(command)} ended with status {process.returncode}")
        self.changes = sum(line["changes"] for line in lines)
        return Ran(seconds, children_cpu() - before, self.changes, max(peaks.values()))


def _walsender(server: Server, kept: str, end: str, number: int) -> Ran:
    """Drain a copy of the slot, as a subscriber would receive it."""
    slot, plugin = f"{kept}_{number}", kept.partition("_")[2]
    server.sql("SELECT pg_copy_logical_replication_slot(%s, %s)", [kept, slot], dbname="app")
    command = [
        str(server.bin("pg_recvlogical")), "-d", server.dsn("app"), "-S", slot, "--start", "--no-loop", "-f", "/dev/null", "--endpos", end,
        "-s", "0", *WALSENDERS[plugin],
    ]  # fmt: skip
    began, before = time.monotonic(), children_cpu()
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    seconds = time.monotonic() - began
    server.sql("SELECT pg_drop_replication_slot(%s)", [slot], dbname="app")
    return Ran(seconds, children_cpu() - before, 0, 0)


if __name__ == "__main__":
    sys.exit(main())
