"""Who is connected to the server of a state location, and how far each stream is: what pg_stat_replication and its kin show.

The server knows; for other processes it writes a file into the location, `activity`, about once a second, which counts for as long as the server has
its lock, `server`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import get_type_hints

from tailrace.checksummed_file import FileKind, fact
from tailrace.dataclass import dataclass
from tailrace.errors import TailraceError
from tailrace.storage.file_lock import FileLock
from tailrace.storage.whole_file import write_whole

ACTIVITY, SERVER_LOCK = "activity", "server"
_FILE = FileKind("activity", "server activity", 1, "zstd", "Restart the server.")


@dataclass(frozen=True, slots=True)
class ConnectedClient:
    """As pg_stat_activity and pg_stat_replication tell of it. Times in microseconds since 2000, 0: none; no address: a Unix
    socket. `stream` is the state of what it streams, empty for nothing; lags are in microseconds, negative for
    none; `state` and `query` what it does, or did last."""

    pid: int
    user: str
    database: str
    application_name: str
    address: str
    port: int
    began: int
    is_walsender: bool
    state: str
    query: str
    slot: str
    stream: str
    sent: int
    written: int
    flushed: int
    applied: int
    reply_time: int
    sync_priority: int
    sync_state: str
    write_lag: int
    flush_lag: int
    replay_lag: int


@dataclass(frozen=True, slots=True)
class ServerActivity:
    """`confirmed` are the positions that enough clients have written, flushed and applied, as synchronous_standby_names asks; 0: not
    enough of them are there."""

    clients: tuple[ConnectedClient, ...] = ()
    synchronous_standby_names: str = ""
    confirmed: tuple[int, int, int] = (0, 0, 0)


_FACTS = get_type_hints(ConnectedClient)


def write_activity(state: Path, activity: ServerActivity) -> None:
    """For the server alone."""
    facts = {
        "clients": [asdict(each) for each in activity.clients], "names": activity.synchronous_standby_names,
        "confirmed": list(activity.confirmed),
    }  # fmt: skip
    write_whole(state / ACTIVITY, _FILE.write(facts, {}))


def read_activity(state: Path) -> ServerActivity | None:
    """None where nobody serves the location."""
    file = state / ACTIVITY
    if not FileLock.is_taken(state / SERVER_LOCK) or not file.exists():
        return None
    try:
        return _FILE.read_as(file.read_bytes(), str(file), {}, lambda facts, _: _activity(facts))
    except (TailraceError, FileNotFoundError):  # of another version, or going
        return None


def _activity(facts: Mapping[str, object]) -> ServerActivity:
    clients = tuple(
        ConnectedClient(**{name: fact(fact(each, dict)[name], kind) for name, kind in _FACTS.items()})
        for each in fact(facts["clients"], list)
    )
    written, flushed, applied = (fact(each, int) for each in fact(facts["confirmed"], list))
    return ServerActivity(clients, fact(facts["names"], str), (written, flushed, applied))
