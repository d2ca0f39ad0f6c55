"""Measures as tables: for the terminal, and as docs/performance.md with the targets and whether they were met."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path

from rich.console import Console
from rich.table import Table

from measure import Measure, Row
from messages import Reading

HEADINGS = (
    "workload", "size", "what", "where", "WAL MB", "counted", "wall s", "CPU s", "MB/s", "per second", "driver MB", "JVM MB", "worker MB", "ratio",
)  # fmt: skip
TARGETS: dict[tuple[str, str], tuple[float, float | None]] = {
    ("decode", "process"): (15, 2), ("decode", "Spark"): (12, 1), ("DataFrame", "Spark"): (7, None), ("Delta", "Spark"): (10, None),
    ("pgoutput", "process"): (8, None), ("pgoutput", "Spark"): (5, None),
    ("text", "process"): (8, None), ("text", "Spark"): (5, None), ("decode verb", "command"): (4, None),
}  # fmt: skip
"""Ratio wanted on *inserts*, and on every workload."""
SCAN = 2
"""Times pg_waldump, on one core."""
CATALOG_RECORDS = 400_000
FILTER = 0.15
"""Of the CPU seconds of decode, on *inserts*: what a row filter may cost at most."""
READING = 5
"""Times a loop over the same messages."""

_PROSE = """# Performance

Same WAL, same machine, same run; files in the page cache, medians of {runs}; wall and CPU seconds of every process involved.
tailrace starts from files that are not indexed: on threads of this *process*, on a warm session of *Spark* (`local[2]`), or as the *command* comes,
`tailrace decode`, from the start of its process to the end. Ratios: *decode*, *DataFrame*, *Delta* and *pgoutput* against a walsender
with pgoutput (protocol 1) into `pg_recvlogical -f /dev/null`; *text* and the *decode verb* against one with test_decoding; *scan* against
`pg_waldump --stats`.

- *scan* indexes every record and checks every CRC, also *on one core*; *plan* goes from indexes to a plan (what it counts are catalog records).
- *decode* builds typed Arrow columns of every change where it is decoded and runs over every byte of them.
- *DataFrame* writes the changes of the main table into Spark's `noop`; *Delta* commits them as files of a Delta table.
- *text* prints test_decoding's lines in commit order, *pgoutput* the messages of protocol 1 of the same publication as the walsender's, as
  `pg_recvlogical` writes them.
- *filter* is what a publication's row filter costs, as a share of the CPU seconds of *decode*: to ask it of every row (`id % 2 = 0`, *on number*;
  `note LIKE '%7'`, *on text*), and to pick out the columns of those that pass, of which it counts the rows.
- Memory is the peak resident size of the largest process of each kind; the driver here goes over all workloads, one after the other, each planned
  at once. What one command needs is below (*Following a log*).

{when}, {cpus} × {cpu}, PostgreSQL {major}, `{command}`:

"""


_FINDINGS = """## Where a target is missed

- *wide* and *churn*: a walsender goes through WAL of which it sends little at several hundred MB a second, and so do we. On Spark what is left
  is mostly fixed, the cost of two or three jobs, and the way of the index from the workers to the driver. On *churn* half of the rest is done
  on one core: the records of the catalogs are replayed in their order, which is the plan's line above. Kept: tables of the same columns decoded
  together, timelines of files found all at once, no record in the index that nobody reads, large results compressed on their way, fewer and
  larger tasks. Tried without effect: other codegen and scheduling settings of Spark; RDDs instead of data sources are a little faster, but do
  not exist on Spark Connect.
- *scan* on Spark, per CPU second: as above, the JVM's and the workers' part of a job. On one core of one process it is another figure (*scan on
  one core*, in tables made since that line was added). Against pg_waldump: it keeps facts of every transaction and file, which
  `pg_waldump --stats` does not.
"""


def cells(row: Row) -> list[str]:
    """A row as text."""
    head = [row.workload, row.size, row.what, row.where, f"{row.megabytes:.0f}"]
    measure = row.measure
    if measure is None:
        return [*head, f"failed: {row.error}", *[""] * (len(HEADINGS) - 5)]
    counted = f"{measure.count:,} {row.noun}" if measure.count else ""
    rate = f"{measure.count / measure.wall:,.0f}" if measure.count else ""
    kinds = ("driver", "jvm", "worker") if row.ours else ("server", "", "client")
    memory = [f"{measure.peak[kind] >> 20}" if kind in measure.peak else "" for kind in kinds]
    ratio = f"{row.ratio:.1f} ×" if row.ratio else f"{row.share:.1%} of decode" if row.share else ""
    speed = f"{row.megabytes / measure.wall:.0f}"
    return [*head, counted, f"{measure.wall:.2f}", f"{measure.cpu:.2f}", speed, rate, *memory, ratio]


def told(row: Row) -> str:
    """A row as a line, while others are still being measured."""
    return "  ".join(
        f"{name} {cell}" if name[0] not in "wcs" else cell for name, cell in zip(HEADINGS, cells(row), strict=True) if cell
    )


def show(rows: Sequence[Row], readings: Sequence[Reading]) -> None:
    table = Table(*HEADINGS, title="same WAL, same machine, same run")
    for row in rows:
        table.add_row(*cells(row))
    console = Console(width=190)
    console.print(table)
    for line in [*verdicts(rows), *_of_reading(readings)]:
        console.print(line)


def write(rows: Sequence[Row], readings: Sequence[Reading], path: Path, *, command: str, runs: int, major: int) -> None:
    """The document, whole."""
    prose = _PROSE.format(
        runs=runs, when=date.today(), cpus=os.cpu_count(), cpu=_processor(), major=major, command=command,
    )  # fmt: skip
    lines = [f"| {' | '.join(HEADINGS)} |", f"|{'---|' * len(HEADINGS)}", *(f"| {' | '.join(cells(row))} |" for row in rows)]
    targets = ["", "## Targets", "", *(f"- {line}" for line in [*verdicts(rows), *_of_reading(readings)]), ""]
    path.write_text(prose + "\n".join(lines + targets) + "\n" + _FINDINGS)


def verdicts(rows: Sequence[Row]) -> list[str]:
    """Each target, and what was measured."""
    ours = [row for row in rows if row.ours and row.measure]
    said = []
    for (outlet, where), (wanted, everywhere) in TARGETS.items():
        mine = [row for row in ours if row.what == f"tailrace, {outlet}" and row.where == where and row.ratio]
        name = f"{outlet}, {where}"
        best = _largest([row for row in mine if row.workload == "inserts"])
        if best is not None and best.ratio is not None:
            said.append(_judged(f"{name}, on inserts ({best.size}): {best.ratio:.1f} ×, wanted {wanted} ×", best.ratio >= wanted))
        if everywhere and mine:
            worst = min(mine, key=lambda row: row.ratio or 0)
            text = f"{name}, slowest ({worst.workload}): {worst.ratio:.1f} ×, wanted {everywhere} ×"
            said.append(_judged(text, (worst.ratio or 0) >= everywhere))
    said += [*_of_filters(ours), *_slopes(ours)]
    for row in ours:
        assert row.measure is not None
        if row.what == "tailrace, scan on one core" and row.workload == "inserts":
            core = row.megabytes / row.measure.cpu
            text = (
                f"scan on one core ({row.size}): {row.ratio or 0:.1f} × pg_waldump, wanted {SCAN} ×; {core:.0f} MB per CPU second"
            )
            said.append(_judged(text, (row.ratio or 0) >= SCAN))
        if row.what == "tailrace, plan" and row.workload == "churn":
            rate = row.measure.count / row.measure.wall
            said.append(
                _judged(
                    f"plan, {row.where}, on churn ({row.size}): {rate:,.0f} catalog records/s, wanted {CATALOG_RECORDS:,}",
                    rate >= CATALOG_RECORDS,
                )
            )
    return said


def _of_filters(ours: Sequence[Row]) -> Iterator[str]:
    for row in ours:
        if row.share is not None and row.workload == "inserts":
            name = row.what.removeprefix("tailrace, ")
            yield _judged(
                f"{name}, on inserts ({row.size}): {row.share:.1%} of decode, wanted less than {FILTER:.0%}", row.share < FILTER
            )


def _of_reading(readings: Sequence[Reading]) -> list[str]:
    return [
        _judged(f"reading messages, {' '.join(str(each).split())}, wanted {READING} ×", each.ratio >= READING)
        for each in readings
    ]


def _slopes(ours: Sequence[Row]) -> list[str]:
    """Where a workload ran at two sizes: the ratio of the seconds that the larger took more, which fixed costs do not touch."""
    said = []
    for (outlet, where), (wanted, _) in TARGETS.items():
        for name in dict.fromkeys(row.workload for row in ours):
            those = (row for row in ours if (row.workload, row.what, row.where) == (name, f"tailrace, {outlet}", where))
            mine = sorted(those, key=lambda row: row.megabytes)
            if len(mine) < 2 or mine[0].megabytes == mine[-1].megabytes:
                continue
            more, theirs = _more(mine[0].measure, mine[-1].measure), _more(mine[0].against, mine[-1].against)
            if more > 0:
                ratio = theirs / more
                text = f"{outlet}, {where}, on {name}, slope between {mine[0].megabytes:.0f} and {mine[-1].megabytes:.0f} MB: {ratio:.1f} ×"
                said.append(
                    _judged(text + (f", wanted {wanted} ×" if name == "inserts" else ""), ratio >= wanted or name != "inserts")
                )
    return said


def _more(small: Measure | None, large: Measure | None) -> float:
    return large.wall - small.wall if small and large else 0.0


def _largest(rows: Sequence[Row]) -> Row | None:
    return max(rows, key=lambda row: row.megabytes, default=None)


def _judged(text: str, met: bool) -> str:
    return text + (" (met)" if met else " (missed)")


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
