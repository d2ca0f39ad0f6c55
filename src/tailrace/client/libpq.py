"""libpq, as far as a replication connection needs it, called by ctypes.

In: a connection string. Out: what libpq's own functions answer, under the names that psycopg's module `pq` gives them. psycopg would do as well, and
is used wherever its libpq is not found as a file of its own; but it brings a class for each of PostgreSQL's types along, and to import them takes
longer than to receive a hundred megabytes. Only libpq's documented functions are called, of which none has changed since version 5.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from ctypes import (
    CDLL,
    CFUNCTYPE,
    POINTER,
    PyDLL,
    Structure,
    byref,
    c_char_p,
    c_int,
    c_ssize_t,
    c_void_p,
    py_object,
    pythonapi,
    string_at,
)
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

OK = 0
"""CONNECTION_OK (`ConnStatusType`)."""
COMMAND_OK, TUPLES_OK, COPY_OUT, COPY_IN, COPY_BOTH = 1, 2, 3, 4, 8
"""PGRES_* (`ExecStatusType`)."""
SQLSTATE, MESSAGE_PRIMARY, MESSAGE_DETAIL, MESSAGE_HINT = (ord(code) for code in "CMDH")
"""PG_DIAG_* (`postgres_ext.h`)."""
_READ_ONLY = 0x100
"""PyBUF_READ (`cpython/object.h`)."""
_FILES = ("../psycopg_binary.libs/libpq-*.so*", ".dylibs/libpq*.dylib")
"""Where psycopg's wheels have the library, seen from the package: of Linux, of macOS."""


class LibpqError(Exception):
    """What a function of libpq failed with."""


Messages = Iterator[memoryview | None]
"""What a COPY brings, up to its end: libpq's own memory, which stays until the next is asked for. None where none is at hand."""


class Libpq(NamedTuple):
    """A connection's class, the reader of connection strings, what both raise, what reads a connection's COPY, and what says whether there is more
    than its socket shows: psycopg's, or those of this module."""

    connection: Any
    conninfo: Any
    errors: tuple[type[Exception], ...]
    messages: Callable[[Any], Messages]
    has_unread: Callable[[Any], bool]


@cache
def libpq() -> Libpq:
    """Raises ModuleNotFoundError where there is no psycopg."""
    path = libpq_file()
    if path is not None:
        try:
            _Functions.load(path)
        except (OSError, AttributeError):  # the file is of another machine, or is no libpq
            pass
        else:
            return Libpq(PGconn, Conninfo, (LibpqError,), PGconn.messages, PGconn.has_unread)
    return _psycopgs()


def _psycopgs() -> Libpq:
    from psycopg import OperationalError, ProgrammingError, pq  # noqa: PLC0415 - see the module

    return Libpq(pq.PGconn, pq.Conninfo, (OperationalError, ProgrammingError), _psycopgs_messages, lambda _: False)


def _psycopgs_messages(connection: Any) -> Messages:
    while True:
        length, data = connection.get_copy_data(1)
        if length == 0:
            connection.consume_input()
            length, data = connection.get_copy_data(1)
        if length < 0:
            return
        yield data if length else None


def libpq_file() -> str | None:
    """The libpq that psycopg would use, if that is the one in its wheel."""
    if os.environ.get("PSYCOPG_IMPL", "binary") not in ("", "binary") or find_spec("psycopg_c") is not None:
        return None
    spec = find_spec("psycopg_binary")
    places = spec.submodule_search_locations if spec is not None else None
    found = [path for place in places or () for pattern in _FILES for path in Path(place).glob(pattern)]
    return str(found[0]) if len(found) == 1 else None


class _OptionStructure(Structure):
    """PQconninfoOption: what is said of a parameter."""

    _fields_ = (
        ("keyword", c_char_p), ("envvar", c_char_p), ("compiled", c_char_p), ("val", c_char_p), ("label", c_char_p), ("dispchar", c_char_p),
        ("dispsize", c_int),
    )  # fmt: skip


class _Option(NamedTuple):
    keyword: bytes
    val: bytes | None


_Options = POINTER(_OptionStructure)
_Receiver = CFUNCTYPE(None, c_void_p, c_void_p)
_no_notice = _Receiver(lambda *_: None)
"""libpq itself would print them, between the lines of whoever runs this."""

_WAIT: dict[str, tuple[Any, ...]] = {
    "PQconnectdb": (c_void_p, c_char_p),
    "PQgetResult": (c_void_p, c_void_p),
    "PQsendQuery": (c_int, c_void_p, c_char_p),
    "PQputCopyData": (c_int, c_void_p, c_char_p, c_int),
    "PQputCopyEnd": (c_int, c_void_p, c_char_p),
    "PQflush": (c_int, c_void_p),
}
"""Functions that may wait for the server, each with what it returns and what it takes. Other threads go on meanwhile."""
_DO_NOT_WAIT: dict[str, tuple[Any, ...]] = {
    "PQfinish": (None, c_void_p),
    "PQstatus": (c_int, c_void_p),
    "PQsocket": (c_int, c_void_p),
    "PQerrorMessage": (c_char_p, c_void_p),
    "PQconninfo": (_Options, c_void_p),
    "PQconninfoParse": (_Options, c_char_p, POINTER(c_void_p)),
    "PQconninfoFree": (None, _Options),
    "PQsetNoticeReceiver": (c_void_p, c_void_p, _Receiver, c_void_p),
    "PQconsumeInput": (c_int, c_void_p),
    "PQisBusy": (c_int, c_void_p),
    "PQgetCopyData": (c_int,),  # it is given C's types; to have ctypes look whether they are takes longer than the function
    "PQfreemem": (None, c_void_p),
    "PQresultStatus": (c_int, c_void_p),
    "PQresultErrorMessage": (c_char_p, c_void_p),
    "PQresultErrorField": (c_char_p, c_void_p, c_int),
    "PQntuples": (c_int, c_void_p),
    "PQnfields": (c_int, c_void_p),
    "PQgetisnull": (c_int, c_void_p, c_int, c_int),
    "PQgetvalue": (c_void_p, c_void_p, c_int, c_int),
    "PQgetlength": (c_int, c_void_p, c_int, c_int),
    "PQclear": (None, c_void_p),
    "PQsslStruct": (c_void_p, c_void_p, c_char_p),
}
"""The others. They keep the interpreter's lock, since it may take a while to get it back where other threads are busy."""
_OPENSSLS: dict[str, tuple[Any, ...]] = {"SSL_set_read_ahead": (None, c_void_p, c_int), "SSL_has_pending": (c_int, c_void_p)}
"""Functions of the OpenSSL that libpq has loaded, if it has."""


class _Functions:
    """libpq's, by their names, once they are loaded."""

    by_name: dict[str, Any] = {}  # noqa: RUF012 - a process has one libpq

    @classmethod
    def load(cls, path: str) -> None:
        library = PyDLL(path)
        made = _declared(CDLL(path), _WAIT) | _declared(library, _DO_NOT_WAIT)
        with suppress(AttributeError):
            made |= _declared(library, _OPENSSLS)
        cls.by_name = made


def _declared(library: CDLL, functions: dict[str, tuple[Any, ...]]) -> dict[str, Any]:
    made = {}
    for name, (result, *arguments) in functions.items():
        function = made[name] = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return made


def _call(name: str, *arguments: Any) -> Any:
    return _Functions.by_name[name](*arguments)


_view = pythonapi.PyMemoryView_FromMemory
_view.restype, _view.argtypes = py_object, (c_void_p, c_ssize_t, c_int)


class Conninfo:
    """Connection strings."""

    @classmethod
    def parse(cls, conninfo: bytes) -> list[_Option]:
        """Every parameter that there is; `val` is None of those that the string does not name. Raises LibpqError."""
        said = c_void_p()
        options = _call("PQconninfoParse", conninfo, byref(said))
        if options:
            return list(_taken(options))
        message = string_at(said.value).decode("utf-8", "replace") if said.value else "out of memory"
        _call("PQfreemem", said)
        raise LibpqError(message.strip())


def _taken(options: Any) -> Iterator[_Option]:
    """What stands in an array of libpq's, which is freed then."""
    at = 0
    while (keyword := options[at].keyword) is not None:
        yield _Option(keyword, options[at].val)
        at += 1
    _call("PQconninfoFree", options)


class PGresult:
    """An answer to a command."""

    def __init__(self, raw: int) -> None:
        self._raw = raw

    def __del__(self) -> None:
        _call("PQclear", self._raw)

    @property
    def status(self) -> int:
        return int(_call("PQresultStatus", self._raw))

    @property
    def error_message(self) -> bytes:
        return bytes(_call("PQresultErrorMessage", self._raw))

    def error_field(self, code: int) -> bytes | None:
        field: bytes | None = _call("PQresultErrorField", self._raw, code)
        return field

    @property
    def ntuples(self) -> int:
        return int(_call("PQntuples", self._raw))

    @property
    def nfields(self) -> int:
        return int(_call("PQnfields", self._raw))

    def get_value(self, row: int, column: int) -> bytes | None:
        """None for NULL."""
        if _call("PQgetisnull", self._raw, row, column):
            return None
        return string_at(_call("PQgetvalue", self._raw, row, column), _call("PQgetlength", self._raw, row, column))


class PGconn:
    """A connection. State: whether it is one still, and whether OpenSSL reads ahead of libpq."""

    def __init__(self, raw: int) -> None:
        self._raw: int | None = raw
        self._process, self._is_read_ahead = os.getpid(), False
        _call("PQsetNoticeReceiver", raw, _no_notice, None)

    @classmethod
    def connect(cls, conninfo: bytes) -> PGconn:
        """`status` says whether it is one."""
        raw = _call("PQconnectdb", conninfo)
        if not raw:
            raise MemoryError
        return cls(raw)

    def __del__(self) -> None:
        if os.getpid() == self._process:  # a forked child would end its parent's session
            self.finish()

    def finish(self) -> None:
        raw, self._raw = self._raw, None
        if raw is not None:
            _call("PQfinish", raw)

    @property
    def status(self) -> int:
        return int(_call("PQstatus", self._raw))

    @property
    def socket(self) -> int:
        return int(_call("PQsocket", self._raw))

    @property
    def error_message(self) -> bytes:
        return bytes(_call("PQerrorMessage", self._raw))

    @property
    def info(self) -> list[_Option]:
        """What it went by: every parameter, with its value if it has one."""
        return list(_taken(_call("PQconninfo", self._raw)))

    def send_query(self, command: bytes) -> None:
        self._unless_failed(_call("PQsendQuery", self._raw, command))

    def is_busy(self) -> int:
        return int(_call("PQisBusy", self._raw))

    def get_result(self) -> PGresult | None:
        raw = _call("PQgetResult", self._raw)
        return PGresult(raw) if raw else None

    def consume_input(self) -> None:
        self._unless_failed(_call("PQconsumeInput", self._raw))

    def messages(self) -> Messages:
        """A server's log is received by this loop, so it takes what it needs from nowhere but its own variables."""
        self._read_ahead()
        get, free, consume = (_Functions.by_name[name] for name in ("PQgetCopyData", "PQfreemem", "PQconsumeInput"))
        connection, message, is_async, view = c_void_p(self._raw), c_void_p(), c_int(1), _view
        to_message = byref(message)
        length = get(connection, to_message, is_async)
        while True:
            if length == 0:  # perhaps it has come by now: to look costs less than to wait for it
                self._unless_failed(consume(connection))
                length = get(connection, to_message, is_async)
            if length > 0:
                try:
                    yield view(message, length, _READ_ONLY)
                finally:
                    free(message)
                length = get(connection, to_message, is_async)
            elif length == 0:
                yield None
            else:
                self._unless_failed(length == -1)
                return

    def _read_ahead(self) -> None:
        """Over TLS, have OpenSSL read as much as has come, where else it reads a record's header, and then the record. From then on libpq must not
        wait for the server: what OpenSSL has read already does not come to the socket any more."""
        if "SSL_has_pending" in _Functions.by_name and (ssl := self._ssl()) is not None:
            _call("SSL_set_read_ahead", ssl, 1)
            self._is_read_ahead = True

    def has_unread(self) -> bool:
        """Whether OpenSSL has read something that libpq has not, which may be less than a record."""
        return self._is_read_ahead and (ssl := self._ssl()) is not None and bool(_call("SSL_has_pending", ssl))

    def _ssl(self) -> int | None:
        """None without TLS. libpq frees it with the connection, so nobody keeps it."""
        ssl: int | None = _call("PQsslStruct", self._raw, b"OpenSSL")
        return ssl

    def put_copy_data(self, data: bytes) -> None:
        self._unless_failed(_call("PQputCopyData", self._raw, data, len(data)) > 0)

    def put_copy_end(self) -> None:
        self._unless_failed(_call("PQputCopyEnd", self._raw, None) > 0)

    def flush(self) -> None:
        self._unless_failed(_call("PQflush", self._raw) >= 0)

    def _unless_failed(self, answer: int) -> int:
        if not answer:
            raise LibpqError(self.error_message.decode("utf-8", "replace").strip())
        return answer
