"""Who is connected: every client from its arrival to its end, with what it streams (`BackendStatusArray`, `WalSndCtl`).

The views of the connected ask here, and so do cancellations.
"""

from __future__ import annotations

import hmac
import itertools
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import TYPE_CHECKING

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.replication.server_activity import ConnectedClient, ServerActivity
from tailrace.server.clock import now
from tailrace.server.host_based_access import Address
from tailrace.server.walsender import StreamPositions
from tailrace.slots.syncrep import Standby, parse_synchronous_standby_names, sync_state

if TYPE_CHECKING:
    from collections.abc import Callable

_FIRST_PID = 1 << 22
"""Behind all that the system gives to processes (PID_MAX_LIMIT): nobody takes the number of a connection for a process."""
_SECRET = 4
_SHOWN = 1023
"""How much of a query others see (track_activity_query_size)."""


@dataclass(slots=True)
class Client:
    """What is known of one. `cancel` and `stop` are what ends its command, and it. Streams of one `kind` may be sent the same."""

    pid: int
    secret: bytes
    address: Address | None
    port: int
    cancel: Callable[[], None]
    stop: Callable[[], None]
    user: str = ""
    database: str = ""
    application_name: str = ""
    is_walsender: bool = False
    began: int = field(default_factory=now)
    state: str = "idle"
    query: str = ""
    stream: StreamPositions | None = None
    slot: str = ""
    kind: str = ""


class ConnectedClients:
    """State: them, by their numbers."""

    def __init__(self, max_connections: int, max_wal_senders: int) -> None:
        self._max_connections, self._max_wal_senders = max_connections, max_wal_senders
        self._clients: dict[int, Client] = {}
        self._numbers = itertools.count(_FIRST_PID)

    def __iter__(self) -> Iterator[Client]:
        return iter(list(self._clients.values()))

    def __len__(self) -> int:
        return len(self._clients)

    @contextmanager
    def joined(
        self, address: Address | None, port: int, cancel: Callable[[], None], stop: Callable[[], None]
    ) -> Iterator[Client]:  # fmt: skip
        """A client, for as long as it is connected."""
        pid = next(self._numbers)
        client = self._clients[pid] = Client(pid, secrets.token_bytes(_SECRET), address, port, cancel, stop)
        try:
            yield client
        finally:
            del self._clients[pid]

    def check_room(self) -> None:
        """Raise UsageError (53300) where there are more than there may be."""
        if len(self._clients) > self._max_connections:
            raise UsageError("sorry, too many clients already", sqlstate="53300")

    def check_wal_senders(self) -> None:
        """The same of those that stream, or may; the one that asks is counted."""
        if sum(client.is_walsender for client in self) > self._max_wal_senders:
            raise UsageError(
                f"number of requested standby connections exceeds max_wal_senders (currently {self._max_wal_senders})",
                sqlstate="53300",
            )

    def activity(self, synchronous_standby_names: str) -> ServerActivity:
        """All of them, as others may know."""
        setting = parse_synchronous_standby_names(synchronous_standby_names)
        streams = [
            Standby(each.pid, each.application_name, each.stream.is_heard, each.stream.reached)
            for each in self
            if each.stream is not None
        ]
        state = sync_state(setting, streams)
        clients = tuple(_told(client, *state.states.get(client.pid, (0, ""))) for client in self if client.user)
        return ServerActivity(clients, synchronous_standby_names, state.confirmed)

    def cancel(self, pid: int, secret: bytes) -> None:
        """End what this client is doing, if it is its own secret. Nobody is told whether it was."""
        client = self._clients.get(pid)
        if client is not None and hmac.compare_digest(client.secret, secret):
            client.cancel()


def _told(client: Client, priority: int, state: str) -> ConnectedClient:
    stream = client.stream or StreamPositions(state="")
    address = "" if client.address is None else str(client.address)
    write_lag, flush_lag, replay_lag = stream.lag.lags
    return ConnectedClient(
        pid=client.pid, user=client.user, database=client.database, application_name=client.application_name, address=address,
        port=client.port, began=client.began, is_walsender=client.is_walsender, state=client.state, query=client.query[:_SHOWN],
        slot=client.slot, stream=stream.state, sent=int(stream.sent), written=int(stream.written), flushed=int(stream.flushed),
        applied=int(stream.applied), reply_time=stream.reply_time, sync_priority=priority, sync_state=state,
        write_lag=write_lag, flush_lag=flush_lag, replay_lag=replay_lag,
    )  # fmt: skip
