"""The whole pipeline in a minute: a real PostgreSQL 18 does a busy day's work, tailrace receives its WAL over a connection, decodes it, mirrors the
tables into Delta, and shows that every row is the same. Then it runs the commands that do so for a running server. Nothing needs to be installed, and
nothing is left behind.
"""

from __future__ import annotations

import io
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import psycopg
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from tailrace.catalog.state.catalog_state import CatalogState
from tailrace.changes import change_batch
from tailrace.client.receiver import Receiver
from tailrace.client.reception import Reception, receiving
from tailrace.dataclass import dataclass
from tailrace.demo.afternoon import replicate_and_verify
from tailrace.demo.compare import Comparison, compare
from tailrace.demo.report import Times, show_page, show_result
from tailrace.demo.server import Server
from tailrace.demo.warmup import Warmup, copy_of
from tailrace.demo.workload import CLIENTS, KEYS, open_shop, rush
from tailrace.errors import PeerError
from tailrace.lake.mirror import mirror
from tailrace.model import Lsn
from tailrace.piece_changes import Decoder
from tailrace.pipeline.capture_live import capture_live
from tailrace.pipeline.open_log import open_pipeline
from tailrace.pipeline.pipeline import Pipeline
from tailrace.pipeline.runner import LocalRunner, Runner
from tailrace.pipeline.scanning import Scanning
from tailrace.plan.pieces import Piece
from tailrace.sources.server_copy import last_redo

DATABASE = "shop"
TRANSACTIONS = 3_000
_RUNS = 3
"""Times are medians of this many runs, on both sides."""
_SLOT = "walsender"
_TINY_STRETCH = 1 << 20


def run_demo(
    keep: Path | None = None, start: Callable[[], Runner] = LocalRunner, *, transactions: int = TRANSACTIONS,
    console: Console | None = None,
) -> int:  # fmt: skip
    """Run it; 0 if every table is the same as its source, 1 if not. `keep` is where server and tables stay to be looked at;
    `start` makes what carries the stages (threads of this process, or a `tailrace.spark.jobs.SparkRunner`), aside, while the shop is busy.
    `transactions` are each client's."""
    console = console or Console()
    home = Path(tempfile.mkdtemp(prefix="tailrace-demo-")) if keep is None else Path(keep)
    home.mkdir(parents=True, exist_ok=True)
    try:
        with Warmup(start) as warmup, Server(home, DATABASE) as server:
            comparisons, times = _scenes(console, server, home, warmup, transactions)
            show_result(console, comparisons, times)
            is_same = bool(comparisons) and all(each.equal for each in comparisons)
            if is_same:
                console.rule("[bold]5. Once more by hand: the running server, replicated, and every row compared", align="left")
                is_same = replicate_and_verify(console, server, home, "everything")
        if keep is not None:
            console.print(f"\nKept: the data directory [bold]{server.data_dir}[/], the Delta tables [bold]{home / 'lake'}[/]")
        return 0 if is_same else 1
    except psycopg.OperationalError as error:
        raise PeerError("the demo's PostgreSQL went away", context=str(error).strip()) from None
    finally:
        if keep is None:
            shutil.rmtree(home, ignore_errors=True)


def _scenes(console: Console, server: Server, home: Path, warmup: Warmup, transactions: int) -> tuple[list[Comparison], Times]:
    times, lake = Times(), home / "lake"
    console.rule("[bold]1. A shop on PostgreSQL 18, with four busy clients; tailrace receives its WAL", align="left")
    console.print(f"  reached as {server.dsn()}", highlight=False)
    with server.connect() as connection, _received(server.dsn(), connection, home / "received") as (log, reception):
        begin, opened, end = _busy_day(console, server, connection, transactions, home / "opening", warmup)
        reception.wait(end)
    times.wal_bytes = end - begin
    with _timed(console, "waiting for what warmed up meanwhile (on a machine where kernels must be compiled, a minute)"):
        runner = warmup.runner()
    for made in (home / "opening", home / "opening-lake"):
        shutil.rmtree(made)
    console.rule("[bold]2. PostgreSQL decodes its WAL: one walsender", align="left")
    times.walsender = _walsender(console, server, end)
    # From here on only what was received is read, so the server may as well rest.
    server.stop()
    console.rule("[bold]3. tailrace decodes the WAL that it has received, with the server stopped", align="left")
    times.decode, times.changes, times.transactions = _decode(console, log, runner, end)
    console.print("\nHow it begins, in the words of test_decoding:\n")
    show_page(console, log.pipeline(runner, opened))
    console.print()
    console.rule("[bold]4. The tables, mirrored into Delta", align="left")
    times.mirror = _mirror(console, log, runner, end, lake)
    server.start()
    comparisons = []
    with server.connect() as connection, _progress(console) as progress:
        task = progress.add_task("comparing every row with the source", total=len(KEYS))
        for table, key in KEYS.items():
            comparisons.append(compare(connection, table, lake / f"public.{table}", key))
            progress.advance(task)
    return comparisons, times


@dataclass(frozen=True, slots=True)
class _ReceivedShop:
    """What was received of the server: its log, and the catalogs of the shop before it opened."""

    wal: Path
    catalogs: CatalogState

    def pipeline(self, runner: Runner, end: Lsn) -> Pipeline:
        return open_pipeline(self.wal, DATABASE, runner=runner, catalog=self.catalogs, upto_lsn=end)


@contextmanager
def _received(dsn: str, connection: psycopg.Connection[Any], wal: Path) -> Iterator[tuple[_ReceivedShop, Reception]]:
    """Receive the server's log within the block."""
    connection.execute("CHECKPOINT")
    with receiving(Receiver(dsn, wal, begin=last_redo(dsn))) as reception:
        catalogs, _ = capture_live(dsn, DATABASE, wal, LocalRunner(), lambda _: None)
        yield _ReceivedShop(wal, catalogs), reception
        reception.check()


def _busy_day(
    console: Console, server: Server, connection: psycopg.Connection[Any], transactions: int, opening: Path, warmup: Warmup
) -> tuple[Lsn, Lsn, Lsn]:
    """Positions in the WAL: where decoding begins, where the opening scene ends, where all ends. A copy of that scene is what warms up."""
    begin = Lsn.parse(server.value("SELECT pg_current_wal_insert_lsn()"))
    connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [_SLOT])
    open_shop(connection)
    opened = Lsn.parse(server.value("SELECT pg_current_wal_insert_lsn()"))
    connection.execute("CHECKPOINT")
    copy = copy_of(server.data_dir, opening)
    for piece in (_warm_decode, _warm_page, _warm_mirror):
        warmup.do(partial(piece, copy))

    def progressed() -> None:
        warmup.check()
        progress.advance(task)

    with _progress(console) as progress:
        task = progress.add_task("transactions", total=CLIENTS * transactions + 1)
        rush(server.connect, transactions, progressed)
    connection.execute("CHECKPOINT")
    end = Lsn.parse(server.value("SELECT pg_current_wal_flush_lsn()"))
    connection.execute("SELECT pg_switch_wal()")
    return begin, opened, end


def _warm_decode(opening: Path, runner: Runner) -> None:
    """Small stretches, so that each of Spark's processes gets some."""
    for _ in _decoded(open_pipeline(opening, DATABASE, runner=runner, scanning=Scanning(_TINY_STRETCH))):
        pass


def _warm_page(opening: Path, runner: Runner) -> None:
    show_page(Console(file=io.StringIO()), open_pipeline(opening, DATABASE, runner=runner))


def _warm_mirror(opening: Path, runner: Runner) -> None:
    mirror(open_pipeline(opening, DATABASE, runner=runner), opening.with_name("opening-lake"))


def _walsender(console: Console, server: Server, end: Lsn) -> float:
    """Drain copies of the slot, as a subscriber would; the median of the seconds it took."""
    taken = []
    for number in range(_RUNS):
        slot = f"{_SLOT}_{number}"
        server.value(f"SELECT pg_copy_logical_replication_slot('{_SLOT}', '{slot}')")
        with _timed(console, "walsender, pgoutput, into /dev/null") as seconds:
            server.run(
                "pg_recvlogical", "-d", server.dsn(), "-S", slot, "--start", "--no-loop", "-f", "/dev/null", "--endpos", str(end),
                "-s", "0", "-o", "proto_version=1", "-o", "publication_names=everything",
            )  # fmt: skip
        taken.append(seconds())
        server.value(f"SELECT pg_drop_replication_slot('{slot}')")
    return median(taken)


def count_columns(decode: Decoder, piece: Piece) -> int:
    """Decode a stretch into typed Arrow columns; how many changes there were. Runs in a worker."""
    rows = 0
    for batch in decode(piece, None):
        rows += len(change_batch(batch, piece.facts))
    return rows


def _decoded(feed: Pipeline) -> Iterator[int]:
    for part in feed.parts(frozenset(relation.oid for relation in feed.relations)):
        yield from feed.run(partial(count_columns, feed.decoder), part.pieces)


def _decode(console: Console, log: _ReceivedShop, runner: Runner, end: Lsn) -> tuple[float, int, int]:
    """The median of the seconds, and how many changes and transactions there are."""
    taken, changes, transactions = [], 0, 0
    for _ in range(_RUNS):
        with _timed(console, "scan, plan, decode into typed columns") as seconds:
            pipeline = log.pipeline(runner, end)
            changes = sum(_decoded(pipeline))
        taken.append(seconds())
        transactions = len(pipeline.plan.shown)
    return median(taken), changes, transactions


def _mirror(console: Console, log: _ReceivedShop, runner: Runner, end: Lsn, lake: Path) -> float:
    with _progress(console) as progress:
        task = progress.add_task("scan, plan, decode, net changes, Delta commits", total=None)
        started = time.monotonic()
        pipeline = log.pipeline(runner, end)
        mirrored = mirror(pipeline, lake, progress=lambda done, of: progress.update(task, completed=done, total=of))
        taken = time.monotonic() - started
    for each in mirrored:
        if each.trouble is not None:
            console.print(f"[bold red]{each.table}[/] is not mirrored: {each.trouble}")
    return taken


def _progress(console: Console) -> Progress:
    return Progress(
        SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
    )


@contextmanager
def _timed(console: Console, what: str) -> Iterator[Callable[[], float]]:
    """A spinner while it runs; afterwards how long it took, which the caller can ask for."""
    taken = 0.0
    started = time.monotonic()
    with console.status(what):
        yield lambda: taken
    taken = time.monotonic() - started
    console.print(f"  {what}: {taken:.2f} s")
