"""What the two sides of a connection say to each other once it has started (manual, "Message Formats"): one class a message.

`wire.formats` says how each is written; which may come when, `wire.connection`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from tailrace.dataclass import dataclass

# -- both sides ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CopyData:
    data: bytes


@dataclass(frozen=True, slots=True)
class CopyDone:
    pass


# -- the frontend ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AuthenticationAnswer:
    """A password, or a step of SASL: only who asked knows which (`PasswordMessage`, `SASLInitialResponse`, `SASLResponse`)."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Query:
    text: str


@dataclass(frozen=True, slots=True)
class Parse:
    """`types` are those that the frontend gives its parameters; 0: it does not say."""

    name: str
    text: str
    types: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Bind:
    """No format at all: text; one: it is that of all; otherwise one for each. A value of None is NULL."""

    portal: str
    statement: str
    formats: tuple[int, ...] = ()
    values: tuple[bytes | None, ...] = ()
    result_formats: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Describe:
    """`kind` is `S`, a prepared statement, or `P`, a portal."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Execute:
    """At most `limit` rows; 0: all."""

    portal: str
    limit: int = 0


@dataclass(frozen=True, slots=True)
class Close:
    """`kind` as in `Describe`."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Flush:
    pass


@dataclass(frozen=True, slots=True)
class Sync:
    pass


@dataclass(frozen=True, slots=True)
class FastpathCall:
    """`FunctionCall`, which nobody uses any more."""

    data: bytes


@dataclass(frozen=True, slots=True)
class CopyFail:
    reason: str


@dataclass(frozen=True, slots=True)
class Terminate:
    pass


# -- the backend -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Authentication:
    """What is asked for, or said of it: `kind` is AUTH_REQ_… of `libpq/protocol.h`."""

    kind: int
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class NegotiateProtocolVersion:
    """`newest` is the protocol that the backend has; `options` are those that it does not know."""

    newest: int
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BackendKeyData:
    """With both a CancelRequest can be made."""

    pid: int
    secret: bytes


@dataclass(frozen=True, slots=True)
class ParameterStatus:
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class ReadyForQuery:
    """`status` is `I`, idle; `T`, in a transaction block; `E`, in one that has failed."""

    status: str = "I"


@dataclass(frozen=True, slots=True)
class FieldDescription:
    """A column of a result. `table` and `attnum` are zero for what is no column of a table."""

    name: str
    type: int
    typlen: int = -1
    typmod: int = -1
    format: int = 0
    table: int = 0
    attnum: int = 0


@dataclass(frozen=True, slots=True)
class RowDescription:
    fields: tuple[FieldDescription, ...]


@dataclass(frozen=True, slots=True)
class DataRow:
    values: tuple[bytes | None, ...]


@dataclass(frozen=True, slots=True)
class CommandComplete:
    tag: str


@dataclass(frozen=True, slots=True)
class EmptyQueryResponse:
    pass


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """Texts by field code (`wire.error_fields`)."""

    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class NoticeResponse:
    """As `ErrorResponse`."""

    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class NotificationResponse:
    pid: int
    channel: str
    payload: str


@dataclass(frozen=True, slots=True)
class CopyInResponse:
    """`format` is 0 for text, 1 for binary; `formats` are the columns'."""

    format: int = 0
    formats: tuple[int, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class CopyOutResponse:
    format: int = 0
    formats: tuple[int, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class CopyBothResponse:
    """A walsender says no formats."""

    format: int = 0
    formats: tuple[int, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class ParseComplete:
    pass


@dataclass(frozen=True, slots=True)
class BindComplete:
    pass


@dataclass(frozen=True, slots=True)
class CloseComplete:
    pass


@dataclass(frozen=True, slots=True)
class NoData:
    pass


@dataclass(frozen=True, slots=True)
class PortalSuspended:
    pass


@dataclass(frozen=True, slots=True)
class ParameterDescription:
    types: tuple[int, ...]
