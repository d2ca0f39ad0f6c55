"""`tailrace messages`: messages of logical replication (pgoutput) made readable."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TextIO

from tailrace.cli.tables import write_json
from tailrace.dataclass import dataclass
from tailrace.errors import TailraceError, UsageError
from tailrace.logicalproto.message_flow import MessageReader
from tailrace.logicalproto.printing import MessagePrinter
from tailrace.logicalproto.protocol import all_streaming

_BEFORE_HEX = re.compile(r"(?:([0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8})[|\t](\d+)[|\t])?\\?\\x")
"""The digits are not matched: a regular expression would keep a hundred bytes for each pair of them."""
_CUT = re.compile(r"[0-9a-f]*\.\.\.\((\d+) bytes\)")
_EXPECTED = "Expecting lsn|xid|\\x…, as psql -At prints the rows of pg_logical_slot_get_binary_changes, \\x… alone, or JSON with a payload in hex."


@dataclass(frozen=True, slots=True)
class MessageLine:
    """A line of the file, with its number, and LSN and xid where it has them. `cut` is the length of a message that the recorder did not keep."""

    number: int
    payload: bytes
    lsn: str = ""
    xid: str = ""
    cut: int = 0


def print_messages(file: Path | None, proto_version: int, *, as_json: bool) -> None:
    """A line a message of the file, or of standard input."""
    reader = MessageReader(proto_version, all_streaming(proto_version))
    printer = MessagePrinter()
    opened = nullcontext(sys.stdin) if file is None else file.open(encoding="utf-8", errors="surrogateescape")
    with opened as stream:
        for line in _lines(stream):
            if line.cut:
                words = f"(a message of {line.cut} bytes, which the recorder has cut)"
                _write(line, {"message": None, "bytes": line.cut}, words, as_json)
                continue
            try:
                message = reader.read(line.payload)
            except TailraceError as error:
                error.context = f"{error.context}, line {line.number}"
                raise
            fields = printer.fields(message) if as_json else {}
            _write(line, fields, "" if as_json else printer.text(message), as_json)


def _write(line: MessageLine, fields: dict[str, Any], text: str, as_json: bool) -> None:
    if as_json:
        write_json({**({"lsn": line.lsn} if line.lsn else {}), **fields})
    else:
        sys.stdout.write("\t".join([*([line.lsn, line.xid] if line.lsn else []), text]) + "\n")


def _lines(stream: Iterable[str] | TextIO) -> Iterator[MessageLine]:
    """What is in each line that is not empty. Raises UsageError for one that has no message."""
    for number, text in enumerate(stream, 1):
        line = text.strip()
        if not line:
            continue
        found = _json_line(number, line) if line.startswith("{") else _hex_line(number, line)
        if found is not None:
            yield found


def _hex_line(number: int, line: str) -> MessageLine:
    match = _BEFORE_HEX.match(line)
    digits = line[match.end() :] if match is not None else ""
    if match is None or not digits.isalnum():  # fromhex() would pass over white space
        raise _no_message(number)
    try:
        return MessageLine(number, bytes.fromhex(digits), match[1] or "", match[2] or "")
    except ValueError:
        raise _no_message(number) from None


def _json_line(number: int, line: str) -> MessageLine | None:
    """None for the first line of a capture, which says how it was made."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        raise _no_message(number) from None
    if number == 1 and "note" in fields and "payload" not in fields:
        return None
    payload = fields.get("payload")
    if not isinstance(payload, str):
        raise _no_message(number)
    if cut := _CUT.fullmatch(payload):
        return MessageLine(number, b"", cut=int(cut[1]))
    try:
        return MessageLine(number, bytes.fromhex(payload))
    except ValueError:
        raise _no_message(number) from None


def _no_message(number: int) -> UsageError:
    return UsageError(f"line {number} has no message of logical replication", hint=_EXPECTED, sqlstate="22P02")
