"""A client shows who it is: SCRAM-SHA-256 (RFC 5802, 7677; `libpq/auth-scram.c`), or by whom it was let in.

In: a rule, a role, and what the client answers. Out: nothing, or UsageError (28P01, 28000). Who asks for a role that there is not, or that
has no password, goes through the same exchange, and fails at its end, so nobody learns which roles there are.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import b64decode

from scramp import ScramException, ScramMechanism  # type: ignore[import-untyped]

from tailrace.errors import PeerError, UsageError
from tailrace.server.roles import Role
from tailrace.wire.fields import VIOLATION, Body, read_i32, read_rest, read_string
from tailrace.wire.messages import Authentication

OK, SASL, SASL_CONTINUE, SASL_FINAL = 0, 10, 11, 12
"""AUTH_REQ_… of `libpq/protocol.h`."""
MECHANISM = "SCRAM-SHA-256"
_ITERATIONS = 4096
_DOOMED = secrets.token_bytes(32)
"""Of this process: a role that is not there has the same salt whenever it is asked for (`mock_scram_secret`)."""


class ScramExchange:
    """One client's. What it is sent next is `challenge`; `answer` takes what it says, and is True once it has shown who it is."""

    def __init__(self, user: str, role: Role | None) -> None:
        self._user = user
        self._is_doomed = role is None or not role.password
        facts = _mock(user) if role is None or not role.password else _verifier(role.password)
        self._server = ScramMechanism(mechanism=MECHANISM).make_server(lambda _: facts)
        self._has_begun = False
        self.challenge = Authentication(SASL, f"{MECHANISM}\0\0".encode())

    def answer(self, data: bytes) -> bool:
        """Raises UsageError (28P01) where the password is another."""
        try:
            if not self._has_begun:
                self._has_begun = True
                self._take_first(_initial_response(data))
                self.challenge = Authentication(SASL_CONTINUE, self._server.get_server_first().encode())
                return False
            self._server.set_client_final(data.decode("ascii"))
        except (ScramException, UnicodeDecodeError):
            raise _failed(self._user) from None
        if self._is_doomed:
            raise _failed(self._user)
        self.challenge = Authentication(SASL_FINAL, self._server.get_server_final().encode())
        return True

    def _take_first(self, first: str) -> None:
        """libpq leaves the name empty, which scramp takes for an error: it is given another, and what is signed stays as it was sent."""
        self._server.set_client_first(first.replace(",n=,", ",n=-,", 1))
        self._server.client_first_bare = first[first.find(",n=") + 1 :]


def _failed(user: str) -> UsageError:
    return UsageError(f'password authentication failed for user "{user}"', sqlstate="28P01")


def _initial_response(data: bytes) -> str:
    """SASLInitialResponse: the mechanism, then the client's first message. The name in that does not count: the startup packet's does."""
    body = Body(data)
    mechanism = read_string(body)
    if mechanism != MECHANISM:
        raise PeerError("client selected an invalid SASL authentication mechanism", sqlstate=VIOLATION)
    read_i32(body)
    return read_rest(body).decode("ascii")


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
