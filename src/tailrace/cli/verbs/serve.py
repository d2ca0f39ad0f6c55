"""`tailrace serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tailrace.cli.arguments import check_source
from tailrace.cli.choice import On
from tailrace.cli.loading import loading
from tailrace.cli.verbs.options import LiveSourceArgument, OnOption, SourceOptions
from tailrace.errors import UsageError


def serve(
    source: LiveSourceArgument,
    state: Annotated[
        Path, typer.Option("--state", help="State location: the directory in which slots are kept. Made if there is none.")
    ],
    port: Annotated[int, typer.Option("--port", "-p", help="Port to listen on.")] = 5433,
    listen: Annotated[
        list[str] | None, typer.Option("--listen", help="Address to listen on, 127.0.0.1 if none is given; may be repeated.")
    ] = None,
    socket_directory: Annotated[
        Path | None, typer.Option("--socket-directory", "-k", help="Listen on a Unix socket in this directory, too.")
    ] = None,
    hba: Annotated[
        Path | None, typer.Option(help="Who may connect, as in pg_hba.conf; without it, this machine's users.", metavar="FILE")
    ] = None,
    roles: Annotated[Path | None, typer.Option(help="Roles, their passwords and what they may, in TOML.", metavar="FILE")] = None,
    ssl_cert_file: Annotated[Path | None, typer.Option(help="TLS: certificate, PEM.", metavar="FILE")] = None,
    ssl_key_file: Annotated[Path | None, typer.Option(help="TLS: private key, PEM.", metavar="FILE")] = None,
    max_connections: Annotated[int, typer.Option(help="Clients at once.")] = 100,
    max_wal_senders: Annotated[int, typer.Option(help="Replication connections among them.")] = 10,
    wal_sender_timeout: Annotated[
        float, typer.Option(help="Seconds after which a silent receiver is cut; 0: never.", min=0, max=2_147_483)
    ] = 60.0,
    authentication_timeout: Annotated[float, typer.Option(help="Seconds that a client has to show who it is.")] = 60.0,
    synchronous_standby_names: Annotated[
        str, typer.Option(help="Which clients count as synchronous, as in postgresql.conf: 'FIRST 1 (a, b)'.", metavar="NAMES")
    ] = "",
    log_replication_commands: Annotated[bool, typer.Option(help="Log each replication command.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Say what would be served to whom, and end.")] = False,
    status: Annotated[
        bool, typer.Option("--status", help="Say who is connected to the server of this state location, and how far, and end.")
    ] = False,
    on: OnOption = On.LOCAL,
    source_option: SourceOptions = None,
) -> None:
    """Serve PostgreSQL's replication protocol: pg_recvlogical, subscribers and drivers stream slots from here as from the server."""
    check_source(source, source_option)
    if status:
        with loading():
            from tailrace.cli.server_status import print_status

        print_status(state)
        return
    if (ssl_cert_file is None) != (ssl_key_file is None):
        raise UsageError("--ssl-cert-file and --ssl-key-file go together")
    with loading():
        from tailrace.cli.serve import AccessFiles, serve_slots
        from tailrace.server.settings import ServerSettings, TlsFiles
        from tailrace.slots.syncrep import parse_synchronous_standby_names

    parse_synchronous_standby_names(synchronous_standby_names)

    tls = None if ssl_cert_file is None or ssl_key_file is None else TlsFiles(ssl_cert_file, ssl_key_file)
    settings = ServerSettings(
        source=source, state=state, listen_addresses=tuple(listen or ["127.0.0.1"]), port=port,
        unix_socket_directory=socket_directory, tls=tls, max_connections=max_connections, max_wal_senders=max_wal_senders,
        wal_sender_timeout=wal_sender_timeout, authentication_timeout=authentication_timeout,
        synchronous_standby_names=synchronous_standby_names, log_replication_commands=log_replication_commands,
    )  # fmt: skip
    serve_slots(source, settings, AccessFiles(hba, roles), on, only_check=check)
