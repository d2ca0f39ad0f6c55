"""Logical messages with bytes that are no text: what PostgreSQL's outlets make of them, and ours."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from support.cases import DBNAME
from support.decoding import opened, text_of
from support.live import Slot
from support.normalise import print_rows
from support.servers import Server
from tailrace.plugins.test_decoding import TestDecoding

SAYS = r"""
CREATE TABLE t (id int PRIMARY KEY, v text);
BEGIN; INSERT INTO t VALUES (1, 'a'); SELECT pg_logical_emit_message(true, 'p', '\x00'::bytea); INSERT INTO t VALUES (2, 'b'); COMMIT;
SELECT pg_logical_emit_message(false, 'p', '\x6100620063'::bytea);
SELECT pg_logical_emit_message(true, 'p', '\x610a0000'::bytea);
SELECT pg_logical_emit_message(true, 'p', ''::bytea);
SELECT pg_logical_emit_message(true, 'p', 'whole');
"""
IN_HEX = "SELECT lsn, xid, data::text FROM pg_logical_slot_peek_binary_changes('s', NULL, NULL, 'force-binary', 'on')"


@pytest.mark.parametrize("major", [14, 18])
def test_zero_bytes(major: int, tmp_path: Path) -> None:
    """The SQL function prints a message up to the first, its binary sister and pg_recvlogical print it whole."""
    with Server(major, dbname=DBNAME) as server:
        server.checkpoint()
        slot = Slot.on(server)
        server.say(*SAYS.strip().replace("; ", ";\n").split("\n"))
        server.checkpoint()  # a message outside of transactions waits for somebody else to flush it
        as_text = slot.peek()
        in_hex = print_rows(server.sql(IN_HEX))
        streamed = _streamed(server, tmp_path / "streamed")
        server.stop()
        server.move_to(tmp_path / "data")
    pipeline = opened(tmp_path / "data", start_lsn=slot.start_lsn)
    assert text_of(pipeline, {}) == as_text
    assert text_of(pipeline, {"force-binary": "on"}) == in_hex
    plugin = TestDecoding()
    plugin.startup({}, major)
    assert b"".join(line + b"\n" for lines in pipeline.lines(plugin) for line in _rows(lines)) == streamed
    assert "content:a\n" in as_text
    assert b"content:a\0b\0c\n" in streamed


def _rows(lines) -> list[bytes]:  # type: ignore[no-untyped-def]
    offsets = lines.texts.offsets.tolist()
    return [lines.texts.data[a:b].tobytes() for a, b in zip(offsets, offsets[1:], strict=False)]


def _streamed(server: Server, output: Path) -> bytes:
    """What pg_recvlogical writes; its feedback moves the slot, so it comes last."""
    command = [
        str(server.bin("pg_recvlogical")), "-d", server.dsn(), "-S", "s", "--start", "--no-loop", "-f", str(output), "--endpos",
        server.flush_lsn(),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return output.read_bytes()
