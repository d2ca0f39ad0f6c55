"""How a server of slots is set up, in the words of postgresql.conf."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path

from tailrace.dataclass import dataclass
from tailrace.server.host_based_access import DEFAULT_RULES, Rule
from tailrace.server.roles import Roles
from tailrace.sources.source_name import SourceName


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files: `ssl_cert_file`, `ssl_key_file`."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """`source` is the log that slots read, `state` the location that keeps them. Times are in seconds; 0: no limit. With `tls`, who does not
    encrypt may come by a Unix socket or from this machine only, unless a rule says otherwise."""

    source: SourceName
    state: Path
    listen_addresses: tuple[str, ...] = ("127.0.0.1",)
    port: int = 5433
    unix_socket_directory: Path | None = None
    tls: TlsFiles | None = None
    rules: tuple[Rule, ...] = DEFAULT_RULES
    roles: Roles = field(default_factory=Roles)
    max_connections: int = 100
    max_wal_senders: int = 10
    wal_sender_timeout: float = 60.0
    authentication_timeout: float = 60.0
    synchronous_standby_names: str = ""
    log_replication_commands: bool = False
