"""A client of the protocol itself: messages out, messages in, nothing in between; and what it was answered, as the recorder of
`tests/cases/replication_answers.jsonl.xz` wrote it.

    with RawClient(port, user="postgres", database="postgres", replication="database") as client:
        client.query("IDENTIFY_SYSTEM")  # "T[systemid:25, …] | D['7…', '1', …] | C IDENTIFY_SYSTEM | Z I"
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

from support.scram_client import ScramLogin
from tailrace.wire import messages as m
from tailrace.wire.connection import Connection
from tailrace.wire.formats import Side
from tailrace.wire.startup import PROTOCOL_3_0, SSLRequest, StartupMessage

_SECONDS = 60


class RawClient:
    """State: the socket, and its end of the conversation. `login` answers what it is asked for before it is let in. `greeting` is what came up to the
    first ReadyForQuery, or the error in its place."""

    def __init__(
        self,
        port: int,
        *,
        tls: ssl.SSLContext | None = None,
        protocol: int = PROTOCOL_3_0,
        login: ScramLogin | None = None,
        **parameters: str,
    ) -> None:
        self._login = login
        self.socket: socket.socket = socket.create_connection(("127.0.0.1", port), _SECONDS)
        self._end = Connection(Side.FRONTEND)
        if tls is not None:
            self.send(SSLRequest())
            assert self.socket.recv(1) == b"S"
            self._end.encryption_answered()
            self.socket = tls.wrap_socket(self.socket, server_hostname="127.0.0.1")
        self.send(StartupMessage(protocol, parameters))
        self.greeting = list(self.until(m.ReadyForQuery))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.socket.close()

    def send(self, *messages: Any) -> None:
        for message in messages:
            self.socket.sendall(self._end.send(message))

    def message(self) -> Any:
        """The next; None once the server has closed the connection."""
        while (message := self._end.next_message()) is None:
            try:
                data = self.socket.recv(1 << 16)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self._end.receive(data)
        return message

    def until(self, kind: type) -> Iterator[Any]:
        """All up to one of this kind, it included, or to the end of the connection."""
        while (message := self.message()) is not None:
            yield message
            if isinstance(message, m.Authentication) and self._login and (answer := self._login.answer(message)):
                self.send(answer)
            if isinstance(message, kind):
                return

    def query(self, text: str) -> str:
        """What it is answered. A stream that begins is ended at once."""
        self.send(m.Query(text))
        told = []
        for message in self.until(m.ReadyForQuery):
            if isinstance(message, m.CopyBothResponse):
                self.send(m.CopyDone())
            if not isinstance(message, m.ParameterStatus):
                told.append(said(message))
        return " | ".join(told)


def said(message: Any) -> str:
    """A message in the recorder's words."""
    match message:
        case m.RowDescription():
            return "T[" + ", ".join(f"{field.name}:{field.type}" for field in message.fields) + "]"
        case m.DataRow():
            return "D[" + ", ".join(repr(None if value is None else value.decode()) for value in message.values) + "]"
        case m.CommandComplete():
            return f"C {message.tag}"
        case m.ReadyForQuery():
            return f"Z {message.status}"
        case m.EmptyQueryResponse():
            return "I "
        case m.CopyBothResponse():
            return "W 000000"
        case m.CopyDone():
            return "c"
        case m.CopyData():
            return "d"
        case m.ErrorResponse() | m.NoticeResponse():
            return _fields("E" if isinstance(message, m.ErrorResponse) else "N", dict(message.fields))
    return type(message).__name__


_MORE = (("D", " DETAIL: "), ("H", " HINT: "), ("W", " CONTEXT: "), ("P", " POS:"))


def _fields(letter: str, fields: dict[str, str]) -> str:
    return f"{letter} {fields['S']} {fields['C']}: {fields['M']}" + "".join(
        f"{word}{fields[code]}" for code, word in _MORE if code in fields
    )
