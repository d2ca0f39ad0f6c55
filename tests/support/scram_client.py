"""The client's half of SCRAM-SHA-256, made by hand, so that it can say what no driver says of channel binding.

with RawClient(port, tls=context, login=ScramLogin("secret", "SCRAM-SHA-256", "y,,"), user="a", database="b") as client:
    client.greeting[-1]  # ReadyForQuery, or an error
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode

from tailrace.server.authentication import SASL, SASL_CONTINUE
from tailrace.wire import messages as m

NONCE = "abcdefghijklmnopqrstuvwx"


class ScramLogin:
    """`header` begins its first message, and `bound` is what its last one repeats of it, with what binds: the header alone, if it is not given.
    State: what `offered` the server has."""

    def __init__(self, password: str, mechanism: str, header: str, bound: bytes | None = None) -> None:
        self._password, self._mechanism, self._header = password, mechanism, header
        self._bound = header.encode() if bound is None else bound
        self.offered: list[str] = []

    def answer(self, challenge: m.Authentication) -> m.AuthenticationAnswer | None:
        if challenge.kind == SASL:
            self.offered = challenge.data.decode().rstrip("\0").split("\0")
            first = f"{self._header}n=,r={NONCE}".encode()
            return m.AuthenticationAnswer(self._mechanism.encode() + b"\0" + len(first).to_bytes(4, "big") + first)
        if challenge.kind == SASL_CONTINUE:
            return m.AuthenticationAnswer(self._final(challenge.data.decode()).encode())
        return None

    def _final(self, server_first: str) -> str:
        told = dict(word.split("=", 1) for word in server_first.split(","))
        final = f"c={b64encode(self._bound).decode()},r={told['r']}"
        salted = hashlib.pbkdf2_hmac("sha256", self._password.encode(), b64decode(told["s"]), int(told["i"]))
        key = hmac.digest(salted, b"Client Key", "sha256")
        signed = f"n=,r={NONCE},{server_first},{final}".encode()
        signature = hmac.digest(hashlib.sha256(key).digest(), signed, "sha256")
        proof = bytes(one ^ other for one, other in zip(key, signature, strict=True))
        return f"{final},p={b64encode(proof).decode()}"
