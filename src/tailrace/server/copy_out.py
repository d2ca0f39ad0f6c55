"""COPY … TO STDOUT, carried out by the live server whose log is served: its rows go through to the client, as they come (`DoCopyTo` in
`commands/copyto.c`).

In: a CopyStmt, and the session. Out: its tag, behind its rows. Under a snapshot of the block they are those that it sees; else those of the moment.
Where the client goes or cancels, or is too late, the server is told to end it.
"""

from __future__ import annotations

from typing import Any

from tailrace.client.source_session import SourceCopy, SourceSession
from tailrace.errors import UsageError
from tailrace.server.client_session import IDLE, ClientSession
from tailrace.server.source_snapshots import no_server
from tailrace.server.transactions import REPEATABLE
from tailrace.sql.copy_command import CopyCommand, copy_command
from tailrace.storage.state_location import definitions_in
from tailrace.types.encodings.server_encodings import NAMES, SQL_ASCII, UNCONVERTED
from tailrace.wire.frames import frame_rows
from tailrace.wire.messages import CopyDone, CopyOutResponse

_OF_TEXT = ("DateStyle", "TimeZone", "IntervalStyle", "bytea_output", "extra_float_digits", "client_encoding")
"""Parameters that say what values look like; search_path stays empty, so that names among the values have their schemas."""


async def copy_out(statement: Any, text: str, session: ClientSession) -> str:
    """Raises UsageError: what the server says; (0A000) where there is none, or for another COPY; (42501)."""
    command = await session.in_thread(_command, statement, text, session)
    source, block = session.block.source, session.block
    if block.is_lost:
        raise UsageError("the snapshot of this transaction is gone, since a statement has failed", sqlstate="25000")
    if source is not None:
        return await _rows_of(source, command, session)
    source = await session.in_thread(session.instance.snapshots.session, session.client.database)
    try:
        await session.in_thread(source.begin)
        keeps = session.status != IDLE and session.parameters.kept["transaction_isolation"] in REPEATABLE
        if keeps:
            block.source = source
        return await _rows_of(source, command, session)
    finally:
        if block.source is not source:
            source.let_go()


def _command(statement: Any, text: str, session: ClientSession) -> CopyCommand:
    database, instance = session.database(), session.instance
    if instance.snapshots.log is None:
        raise no_server()
    session.role.privileges.check_replication(instance.major)
    here = database.catalogs(None, session.parameters.of_text.style).here
    definitions = definitions_in(database.state, here.system, here.database_oid)
    return copy_command(statement, text, here, definitions, session.role.privileges)


async def _rows_of(source: SourceSession, command: CopyCommand, session: ClientSession) -> str:
    link, interrupt = session.link, session.interrupt
    with interrupt.telling(source.cancel):
        copy = await session.in_thread(_begun, source, command, {name: session.parameters.show(name)[1] for name in _OF_TEXT})
        form = int(copy.is_binary)
        link.send(CopyOutResponse(form, (form,) * copy.columns))
        while (framed := await session.in_thread(_framed, copy)) is not None:
            interrupt.check()
            await link.send_frames(framed)
            if link.is_gone:
                raise UsageError("connection to client lost", sqlstate="08006")
    link.send(CopyDone())
    return copy.tag


def _begun(source: SourceSession, command: CopyCommand, parameters: dict[str, str]) -> SourceCopy:
    if parameters["client_encoding"] == NAMES[SQL_ASCII] and source.encoding not in UNCONVERTED:
        parameters |= {"client_encoding": "UTF8"}  # as streams have it for such a client
    source.set(parameters)
    source.check_unchanged(command.oid, command.table)
    return source.copy_out(command.text)


def _framed(copy: SourceCopy) -> memoryview | None:
    """The next rows as messages; None: there are no more."""
    rows = copy.rows()
    return None if rows is None else frame_rows(rows)
