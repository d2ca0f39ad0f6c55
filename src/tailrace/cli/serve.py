"""`tailrace serve`: a server of slots in this process, until a signal ends it; SIGHUP has its files read again."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tailrace import kernels
from tailrace.cli.choice import On
from tailrace.cli.engine import runner_for
from tailrace.cli.log_at_hand import log_at_hand
from tailrace.cli.progress import COMPILING
from tailrace.client.catalog_files import ServerFiles
from tailrace.client.running_transactions import is_standby, value_of
from tailrace.dataclass import dataclass
from tailrace.errors import PeerError, TailraceError
from tailrace.pipeline.runner import Runner
from tailrace.replication.slot_location import SlotLocation
from tailrace.server.host_based_access import Method, parse_rules
from tailrace.server.instance import Instance
from tailrace.server.log import ServerLog
from tailrace.server.malloc import keep_what_is_freed
from tailrace.server.roles import Role, parse_roles
from tailrace.server.server import SlotServer, check_addresses
from tailrace.server.settings import ServerSettings
from tailrace.server.tls import load_tls
from tailrace.sources.dsn import without_password


@dataclass(frozen=True, slots=True)
class AccessFiles:
    """What SIGHUP has read again."""

    hba: Path | None
    roles: Path | None

    def read_into(self, settings: ServerSettings) -> ServerSettings:
        """The settings with what the files say. Raises UsageError for one that is damaged."""
        if self.hba is not None:
            settings = replace(settings, rules=parse_rules(self.hba.read_text("utf-8", "surrogateescape"), str(self.hba)))
        if self.roles is not None:
            settings = replace(settings, roles=parse_roles(self.roles.read_text("utf-8", "surrogateescape"), str(self.roles)))
        return settings


def serve_slots(source: str, settings: ServerSettings, files: AccessFiles, on: On, *, only_check: bool) -> None:
    """Until SIGINT or SIGTERM; of a server's log, until it cannot be received any more, which is raised."""
    keep_what_is_freed()
    settings = files.read_into(settings)
    log, ends = ServerLog(), _Shutdown()
    kernels.before_compiling.append(lambda: log.say(0, "LOG", COMPILING))

    def runner(size: int) -> Runner:
        return runner_for(on, size, lambda _: None)

    def say(text: str) -> None:
        log.say(0, "LOG", text)

    if not settings.state.exists():
        asyncio.run(check_addresses(settings))
    with log_at_hand(source, settings.state, say, tell=say, on_failure=ends.come) as (path, reception):
        instance = Instance(replace(settings, source=path), runner, log)
        SlotLocation.open_or_create(settings.state, instance.system, warn=lambda text: log.say(0, "WARNING", text))
        if only_check:
            sys.stdout.write(_said_of(instance, source))
            return
        asyncio.run(_served(SlotServer(instance), instance, files, ends))
        if reception is not None:
            reception.check()


class _Shutdown:
    """The moment at which a server is to end, from whichever thread it comes."""

    def __init__(self) -> None:
        self._has_come = threading.Event()
        self._wake: Callable[[], object] | None = None

    def come(self) -> None:
        self._has_come.set()
        if self._wake is not None:
            self._wake()

    async def wait(self) -> None:
        """In the event loop."""
        loop, woken = asyncio.get_running_loop(), asyncio.Event()
        self._wake = lambda: loop.call_soon_threadsafe(woken.set)
        if not self._has_come.is_set():
            await woken.wait()


async def _served(server: SlotServer, instance: Instance, files: AccessFiles, ends: _Shutdown) -> None:
    loop = asyncio.get_running_loop()
    before = instance.settings
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ends.come)

    def read_again() -> None:
        try:
            server.reload(files.read_into(before))
        except (TailraceError, OSError) as error:
            instance.log.say(0, "LOG", f"configuration files were not read again: {error}")

    loop.add_signal_handler(signal.SIGHUP, read_again)
    await server.start()
    loop.set_exception_handler(server.failed_unheard)
    await ends.wait()
    if not await server.stop():
        instance.log.say(0, "LOG", "statements were still being carried out, and have come to nothing")
        os._exit(0)  # the interpreter would wait for their threads; what is confirmed is on disk


def _said_of(instance: Instance, source: str) -> str:
    """What would be served, and to whom."""
    settings = instance.settings
    load_tls(settings.tls)
    location = SlotLocation.open(settings.state)
    lines = [
        f"log: {without_password(source)}, system {instance.system}, PostgreSQL {instance.major}",
        f"slots: {', '.join(slot.name for slot in location.slots()) or 'none yet'}, in {settings.state}",
        f"addresses: {', '.join(f'{each}:{settings.port}' for each in settings.listen_addresses)}",
        f"encryption: {'offered' if settings.tls else 'none'}",
    ]
    for rule in settings.rules:
        where = "by Unix socket" if rule.kind == "local" else (
            "from anywhere" if rule.networks is None else f"from {', '.join(map(str, rule.networks))}"
        )  # fmt: skip
        databases, users = (",".join(word.text for word in words) for words in (rule.databases, rule.users))
        lines.append(f"access: {users} to {databases} {where}: {rule.method.value}")
        is_open = rule.method is Method.TRUST and rule.kind != "local"
        if is_open and (rule.networks is None or not all(network.is_loopback for network in rule.networks)):
            lines.append("warning: the rule above trusts whoever comes from other machines")
    lines.append(f"first copies by subscribers: {_said_of_copies(instance)}")
    lines += [_said_of_role(name, role) for name, role in (settings.roles.known or {}).items()]
    return "\n".join(lines) + "\n"


def _said_of_copies(instance: Instance) -> str:
    """What a subscriber gets that asks for its tables' rows."""
    log = instance.snapshots.log
    if log is None:
        return "none, as the log is read from files: let them subscribe WITH (copy_data = false)"
    try:
        with ServerFiles.connected(log.dsn) as server:
            if is_standby(value_of(server.connection)):
                return "none, as the server is in recovery: let them subscribe WITH (copy_data = false), or serve its primary"
    except PeerError as error:
        return f"none, as the server says: {error.message}"
    return "made by the server"


def _said_of_role(name: str, role: Role) -> str:
    may = role.privileges
    rights = ["replication" if may.replication else "no replication"]
    restricted = (("databases", may.databases), ("slots", may.slots), ("publications", may.publications))
    rights += [f"{what} {','.join(names) or 'none'}" for what, names in restricted if names is not None]
    return f"role: {name}, {'; '.join([*rights, 'with password' if role.password else 'without password'])}"
