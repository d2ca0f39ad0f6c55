"""Slots of ours beside slots of the server's, on one running server: both are asked for the same, and what they give is compared."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from support.acquired import looked
from support.servers import Server
from tailrace.cli.verbs.slot import create
from tailrace.model import Lsn
from tailrace.plugins.printing import print_rows, up_to_zero
from tailrace.plugins.test_decoding import TestDecoding
from tailrace.replication.acquired_slot import AcquiredSlot
from tailrace.replication.next_window import Limit
from tailrace.replication.output_position import POSITION, Position
from tailrace.settings import WORK_MEM

TAILRACE = Path(sys.executable).with_name("tailrace")
THEIRS = "theirs"


def create_both(server: Server, name: str, state: Path, *, two_phase: bool = False) -> None:
    """A slot of ours called `name`, and one of the server's: nothing is written between the two but by the server itself."""
    server.sql("SELECT pg_create_logical_replication_slot(%s, 'test_decoding', false, %s)", [THEIRS, two_phase])
    create(name, server.data_dir, state, server.dbname, two_phase=two_phase)


def theirs(server: Server, upto: str | None = None, changes: int | None = None, options: Mapping[str, str] | None = None) -> str:
    """What the server's slot gives, row by row."""
    words = [word for pair in (options or {}).items() for word in pair]
    with server.connect() as connection:
        rows = connection.execute(
            "SELECT lsn::text, xid::text, data FROM pg_logical_slot_get_changes(%s, %s, %s, VARIADIC %s::text[])",
            [THEIRS, upto, changes, words],
        ).fetchall()
    return "".join(f"{lsn}\t{xid}\t{data}\n" for lsn, xid, data in rows)


def peeked(server: Server, slot: str = THEIRS) -> list[tuple[str, str, str]]:
    """What the server's slot would give: LSN, xid and text."""
    return server.sql(f"SELECT lsn::text, xid::text, data FROM pg_logical_slot_peek_changes('{slot}', NULL, NULL)")  # type: ignore[return-value]


def peeked_text(server: Server, slot: str = THEIRS) -> str:
    """Its text alone, a line a row."""
    return "".join(f"{data}\n" for _, _, data in peeked(server, slot))


def ours(
    consumer: AcquiredSlot, upto: Lsn | None = None, options: Mapping[str, str] | None = None, *, plugin: TestDecoding | None = None,
    work_mem: int = WORK_MEM,
) -> str:  # fmt: skip
    """What a consumer of our slot takes, and confirms. A plugin remembers what it was given before."""
    plugin = plugin or TestDecoding()
    plugin.context.work_mem = work_mem
    plugin.context.two_phase, plugin.context.two_phase_since = consumer.slot.two_phase, int(consumer.slot.two_phase_at)
    plugin.startup(dict(options or {}), consumer.major)
    taken = []
    for window in looked(consumer, plugin.demand, Limit(upto)):
        for lines in window.lines(plugin):
            texts = up_to_zero(lines.texts)
            taken.append(print_rows(lines.lsn, lines.xid, texts.offsets, texts.data).tobytes())
    consumer.confirm(consumer.read_upto)
    return b"".join(taken).decode()


def is_confirmed(file: Path, text: str) -> bool:
    """Whether all of this text counts in the file of `slot receive`: who is ended before takes the rest of the file away."""
    position = file.with_name(file.name + POSITION)
    return position.exists() and Position.read(position.read_bytes(), str(position)).length >= len(text.encode())
