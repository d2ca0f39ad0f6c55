"""A client shows who it is: SCRAM-SHA-256 (RFC 5802, 7677; `libpq/auth-scram.c`), over TLS bound to the connection if it likes, or by whom it was
let in.

In: a rule, a role, and what the client answers. Out: nothing, or UsageError (28P01, 28000), or PeerError for messages that are none. Who asks for a
role that there is not, or that has no password, goes through the same exchange, and fails at its end, so nobody learns which roles there are.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from base64 import b64decode

from scramp import ScramException, ScramMechanism  # type: ignore[import-untyped]

from tailrace.errors import PeerError, UsageError
from tailrace.server.channel_binding import END_POINT, check_binding, read_header
from tailrace.server.roles import Role
from tailrace.wire.fields import VIOLATION, Body, read_i32, read_rest, read_string
from tailrace.wire.messages import Authentication

OK, SASL, SASL_CONTINUE, SASL_FINAL = 0, 10, 11, 12
"""AUTH_REQ_… of `libpq/protocol.h`."""
MECHANISM, BOUND_MECHANISM = "SCRAM-SHA-256", "SCRAM-SHA-256-PLUS"
_ITERATIONS = 4096
_DOOMED = secrets.token_bytes(32)
"""Of this process: a role that is not there has the same salt whenever it is asked for (`mock_scram_secret`)."""
_NAME = re.compile(r"\An=[^,]*")


class ScramExchange:
    """One client's. What it is sent next is `challenge`; `answer` takes what it says, and is True once it has shown who it is. `end_point` is the
    hash of the certificate that its connection has been encrypted with; with None there is nothing to bind to."""

    def __init__(self, user: str, role: Role | None, end_point: bytes | None = None) -> None:
        self._user, self._end_point = user, end_point
        self._bound_to: bytes | None = None
        self._is_doomed = role is None or not role.password
        self._facts = _mock(user) if role is None or not role.password else _verifier(role.password)
        self._offered = [MECHANISM] if end_point is None else [BOUND_MECHANISM, MECHANISM]
        self._header = ""
        self.challenge = Authentication(SASL, b"".join(b"%s\0" % name.encode() for name in (*self._offered, "")))

    def answer(self, data: bytes) -> bool:
        """Raises UsageError (28P01) where the password is another, PeerError where the connection is, or the message is none."""
        try:
            if not self._header:
                self._take_first(*_initial_response(data))
                self.challenge = Authentication(SASL_CONTINUE, self._server.get_server_first().encode())
                return False
            final = data.decode("ascii")
            check_binding(final, self._header, self._bound_to)
            self._server.set_client_final(final)
        except (ScramException, UnicodeDecodeError):
            raise _failed(self._user) from None
        if self._is_doomed:
            raise _failed(self._user)
        self.challenge = Authentication(SASL_FINAL, self._server.get_server_final().encode())
        return True

    def _take_first(self, mechanism: str, first: str) -> None:
        """libpq leaves the name empty, which scramp takes for an error: it is given another, and what is signed stays as it was sent."""
        if mechanism not in self._offered:
            raise PeerError("client selected an invalid SASL authentication mechanism", sqlstate=VIOLATION)
        self._bound_to = self._end_point if mechanism == BOUND_MECHANISM else None
        self._header = read_header(first, is_chosen=self._bound_to is not None, is_offered=self._end_point is not None)
        binding = None if self._bound_to is None else (END_POINT, self._bound_to)
        self._server = ScramMechanism(mechanism=mechanism).make_server(lambda _: self._facts, channel_binding=binding)
        bare = first[len(self._header) :]
        self._server.set_client_first(self._header + _NAME.sub("n=-", bare))
        self._server.client_first_bare = bare


def _failed(user: str) -> UsageError:
    return UsageError(f'password authentication failed for user "{user}"', sqlstate="28P01")


def _initial_response(data: bytes) -> tuple[str, str]:
    """SASLInitialResponse: the mechanism, and the client's first message. The name in that does not count: the startup packet's does."""
    body = Body(data)
    mechanism = read_string(body)
    read_i32(body)
    return mechanism, read_rest(body).decode("ascii")


def _verifier(text: str) -> tuple[bytes, bytes, bytes, int]:
    """`SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>`, as scramp takes it."""
    _, salted, keys = text.split("$")
    iterations, salt = salted.split(":")
    stored, server = keys.split(":")
    return b64decode(salt), b64decode(stored), b64decode(server), int(iterations)


def _mock(user: str) -> tuple[bytes, bytes, bytes, int]:
    """What a role could have that is not there."""
    salt = hmac.new(_DOOMED, user.encode("utf-8", "surrogateescape"), hashlib.sha256).digest()[:16]
    return salt, secrets.token_bytes(32), secrets.token_bytes(32), _ITERATIONS


def check_peer(user: str, system_user: str) -> None:
    """Raise UsageError (28000) unless the client's process is the user's whose role it wants."""
    if user != system_user:
        raise UsageError(f'Peer authentication failed for user "{user}"', sqlstate="28000")
