"""The log that a session reads: a SOURCE of files as it is; of a server, what is received into the state location while the session lasts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tailrace.client.reception import Reception
from tailrace.replication.retention import leave_unused, receiving_log
from tailrace.replication.server_location import log_of_server
from tailrace.sources.dsn import is_dsn
from tailrace.sources.named import existing
from tailrace.sources.source_name import SourceName


@contextmanager
def log_at_hand(
    source: str, state: Path, warn: Callable[[str], None], *, tell: Callable[[str], None] = lambda _: None,
    on_failure: Callable[[], None] = lambda: None,
) -> Iterator[tuple[SourceName, Reception | None]]:  # fmt: skip
    """The log to be read, and what receives into it, if anything does. `tell` hears how that goes, and `warn` what is in its way; that it has
    ended, too, and then `on_failure` is called."""
    if not is_dsn(source):
        yield existing(source), None
        return
    server = log_of_server(source, state, warn)
    receptions: list[Reception] = []

    def failed() -> None:
        warn(f"nothing more is received: {receptions[0].failure}" if receptions else "nothing is received")
        on_failure()

    with receiving_log(server.log, tell, failed, warn) as reception:
        receptions.append(reception)
        reception.wait(server.flushed)
        yield server.log.directory, reception
    leave_unused(server.log, server.location, warn)
