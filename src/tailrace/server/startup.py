"""A connection from its first byte to ReadyForQuery: encryption, the startup packet, who it is, what it may (`ProcessStartupPacket`,
`ClientAuthentication`, `InitPostgres`)."""

from __future__ import annotations

import asyncio
import pwd
from dataclasses import field

from tailrace.dataclass import dataclass
from tailrace.errors import PeerError, UsageError
from tailrace.majors import WAL_SENDERS_EXPLAINED, supports
from tailrace.server.authentication import OK, ScramExchange, check_peer
from tailrace.server.client_session import ClientSession
from tailrace.server.client_text import check_text
from tailrace.server.connected import Client
from tailrace.server.host_based_access import Arrival, Method, rule_for
from tailrace.server.instance import Instance
from tailrace.server.link import ClientLink
from tailrace.server.roles import Role
from tailrace.server.session_parameters import SessionParameters, options_of
from tailrace.server.tls import Tls
from tailrace.settings import parse_bool
from tailrace.wire.fields import VIOLATION
from tailrace.wire.messages import (
    Authentication,
    AuthenticationAnswer,
    BackendKeyData,
    NegotiateProtocolVersion,
    ReadyForQuery,
)
from tailrace.wire.startup import (
    PROTOCOL_3_0,
    PROTOCOL_3_2,
    CancelRequest,
    GSSENCRequest,
    SSLRequest,
    StartupMessage,
)

_NO_PARAMETERS = frozenset({"user", "database", "replication", "options"})


@dataclass(slots=True)
class Startup:
    """What a client asked for."""

    user: str
    database: str
    is_walsender: bool
    is_physical: bool
    parameters: list[tuple[str, str]] = field(default_factory=list)


async def start(
    link: ClientLink, instance: Instance, client: Client, tls: Tls | None, deadline: asyncio.Timeout
) -> ClientSession | None:
    """The session; None for a client that only wanted to cancel another's command, or went. `deadline` is when it has to have shown who it is.
    Raises TailraceError for one that is not let in."""
    packet = await _first_packet(link, tls)
    if packet is None:
        return None
    if isinstance(packet, CancelRequest):
        instance.clients.cancel(packet.pid, packet.secret)
        return None
    negotiated = _negotiated(packet)
    if negotiated is not None:
        link.send(negotiated)
    asked = _asked(packet)
    instance.clients.check_room()
    end_point = tls.end_point if tls is not None and link.is_encrypted else None
    role = await _authenticated(link, instance, asked, end_point, deadline)
    client.user, client.database, client.is_walsender = asked.user, asked.database, asked.is_walsender
    link.send(Authentication(OK))
    session = await _admitted(link, instance, client, role, asked)
    link.send(*session.parameters.news(), BackendKeyData(client.pid, client.secret), ReadyForQuery())
    await link.flush()
    return session


async def _first_packet(link: ClientLink, tls: Tls | None) -> StartupMessage | CancelRequest | None:
    while True:
        packet = await link.receive()
        if isinstance(packet, SSLRequest):
            is_local = link.address[0] is None
            await link.answer_encryption(None if tls is None or is_local or link.is_encrypted else tls.context)
        elif isinstance(packet, GSSENCRequest):
            await link.answer_encryption(None)
        elif packet is None or isinstance(packet, StartupMessage | CancelRequest):
            return packet


def _negotiated(packet: StartupMessage) -> NegotiateProtocolVersion | None:
    """For a client that asks for more than there is."""
    if packet.protocol > PROTOCOL_3_2 or packet.unknown_options:
        return NegotiateProtocolVersion(PROTOCOL_3_2 if packet.protocol > PROTOCOL_3_0 else PROTOCOL_3_0, packet.unknown_options)
    return None


def _asked(packet: StartupMessage) -> Startup:
    parameters = packet.parameters
    for value in parameters.values():
        check_text(value)
    user = parameters.get("user", "")
    if not user:
        raise UsageError("no PostgreSQL user name specified in startup packet", sqlstate="28000")
    replication = parameters.get("replication", "false")
    meaning = None if replication == "database" else parse_bool(replication)
    if meaning is None and replication != "database":
        raise UsageError(
            f'invalid value for parameter "replication": "{replication}"', sqlstate="22023",
            hint='Valid values are: "false", 0, "true", 1, "database".',
        )  # fmt: skip
    rest = [
        (name, value) for name, value in parameters.items() if name not in _NO_PARAMETERS and not name.startswith("_pq_.")
    ]  # fmt: skip
    return Startup(
        user, parameters.get("database") or user, is_walsender=replication == "database" or bool(meaning),
        is_physical=bool(meaning), parameters=[*options_of(parameters.get("options", "")), *rest],
    )  # fmt: skip


async def _authenticated(
    link: ClientLink, instance: Instance, asked: Startup, end_point: bytes | None, deadline: asyncio.Timeout
) -> Role:
    """The role, once the client has shown that it is its own."""
    address, _ = link.address
    arrival = Arrival(asked.user, asked.database, address, link.is_encrypted, asked.is_physical)
    settings = instance.settings
    method = rule_for(settings.rules, arrival).method
    if method is Method.PEER:
        uid = link.system_user
        check_peer(asked.user, "" if uid is None else pwd.getpwuid(uid).pw_name)
    elif method in (Method.SCRAM, Method.MD5):
        failed = instance.failed_logins
        failed.check(address)
        try:
            await _exchange(link, ScramExchange(asked.user, settings.roles.find(asked.user), end_point))
        except UsageError:
            deadline.reschedule(None)  # it has answered in time: what it waits for now is our doing
            await asyncio.sleep(failed.add(address))
            raise
        failed.clear(address)
    return settings.roles.role(asked.user)


async def _exchange(link: ClientLink, exchange: ScramExchange) -> None:
    has_shown = False
    while not has_shown:
        link.send(exchange.challenge)
        await link.flush()
        answer = await link.receive()
        if not isinstance(answer, AuthenticationAnswer):
            raise PeerError("client has gone in the midst of its authentication", sqlstate=VIOLATION)
        has_shown = exchange.answer(answer.data)
    link.send(exchange.challenge)


async def _admitted(link: ClientLink, instance: Instance, client: Client, role: Role, asked: Startup) -> ClientSession:
    """What a role is let into: a database that there is, and replication."""
    if asked.is_walsender and not role.privileges.replication:
        if supports(instance.major, WAL_SENDERS_EXPLAINED):
            raise UsageError(
                "permission denied to start WAL sender", sqlstate="42501",
                detail="Only roles with the REPLICATION attribute may start a WAL sender process.",
            )  # fmt: skip
        raise UsageError("must be superuser or replication role to start walsender", sqlstate="42501")
    if asked.is_walsender:
        instance.clients.check_wal_senders()
    parameters = SessionParameters(instance.fixed_parameters(asked.user), instance.major)
    session = ClientSession(instance, client, link, role, parameters, asked.is_walsender, asked.is_physical)
    if not asked.is_physical:
        role.privileges.check_database(asked.database)
        await session.in_thread(session.database().check_exists)
    session.set_parameter("wal_sender_timeout", f"{instance.settings.wal_sender_timeout}s")
    for name, value in asked.parameters:
        session.set_parameter(name, value)
    parameters.started()
    return session
