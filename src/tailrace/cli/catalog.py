"""`tailrace catalog capture`: write down the catalogs of a database as they are, to decode from that point on."""

from __future__ import annotations

import sys
from pathlib import Path

from tailrace.catalog.data_directory.control_file import ControlFile
from tailrace.catalog.state.catalog_state import CatalogState
from tailrace.catalog.state.state_file import write_state
from tailrace.cli.choice import On
from tailrace.cli.engine import runner_for
from tailrace.cli.progress import counted, warn
from tailrace.pipeline.capture import capture
from tailrace.pipeline.capture_live import capture_live
from tailrace.sources.source import Source
from tailrace.storage.whole_file import check_replaceable, write_whole
from tailrace.wal.xlog import LOGICAL


def capture_to(output: Path, source: str, database: str, on: On) -> None:
    """Write the state of the database's catalogs."""
    check_replaceable(output)
    opened = Source.open(source)
    with counted("records") as progress:
        runner = runner_for(on, opened.segments.stop_lsn - opened.segments.first_lsn, progress.tell)
        state = capture(opened, runner, database)
    _write(output, state, opened.control)


def capture_from_server(output: Path, dsn: str, database: str, wal: Path | None, max_rate: int | None, on: On) -> None:
    """The same of a server that is connected to."""
    check_replaceable(output)
    with counted("records") as progress:
        runner = runner_for(on, 0, progress.tell)
        state, control = capture_live(dsn, database, wal, runner, progress.tell, warn=warn, max_rate=max_rate)
    _write(output, state, control)


def _write(output: Path, state: CatalogState, control: ControlFile | None) -> None:
    write_whole(output, write_state(state))
    if control is not None and control.wal_level < LOGICAL:
        warn(
            "wal_level is below logical: what is written from here on cannot be decoded until it is raised\n"
            "HINT:  Set wal_level to logical on the source and restart that. Then capture the state."
        )
    sys.stderr.write(f"catalogs of {state.database_name} as of {state.lsn}; decoding needs WAL from {state.needs_wal_from}\n")
