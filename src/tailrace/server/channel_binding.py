"""What ties a password's exchange to the TLS connection it goes through, so that nobody in the middle passes it on: the hash of the server's
certificate, tls-server-end-point (RFC 5929; `be_tls_get_certificate_hash`), and what a client says of it in its messages
(`read_client_first_message`, `read_client_final_message` in `libpq/auth-scram.c`).

In: a certificate, and a client's messages. Out: the hash, and the message's header; or PeerError in the server's words.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode

from asn1crypto.x509 import Certificate  # type: ignore[import-untyped]

from tailrace.errors import PeerError
from tailrace.wire.fields import VIOLATION

END_POINT = "tls-server-end-point"
_NO_HASH = ("ed25519", "ed448")
_WEAK = ("md5", "sha1")
_SHOWN = 30


def end_point_of(certificate: bytes) -> bytes | None:
    """The hash of a certificate (DER), by the hash function of its signature, or SHA-256 for MD5 and SHA-1. None for one whose signature has no
    hash function of its own, or one that is not known here: what would bind to it is not defined. PostgreSQL offers a binding then, too, and fails
    when a client takes it."""
    algorithm = Certificate.load(certificate)["signature_algorithm"]
    if algorithm["algorithm"].native in _NO_HASH:
        return None
    try:
        name = algorithm.hash_algo
    except ValueError:
        return None
    return hashlib.new("sha256" if name in _WEAK else name, certificate).digest()


def read_header(first: str, *, is_chosen: bool, is_offered: bool) -> str:
    """What a client's first message says before its name. `is_chosen` says whether it chose a mechanism that binds. Raises PeerError."""
    flag, rest = first[:1], first[1:]
    if flag not in ("n", "y", "p"):
        raise _malformed(f'Unexpected channel-binding flag "{_letter(flag)}".')
    if flag == "p":
        rest = _behind_binding(rest, is_chosen)
    else:
        if is_chosen:
            raise _malformed(
                "The client selected SCRAM-SHA-256-PLUS, but the SCRAM message does not include channel binding data."
            )
        if flag == "y" and is_offered:
            raise PeerError(
                "SCRAM channel binding negotiation error", sqlstate="28000",
                detail="The client supports SCRAM channel binding but thinks the server does not.  "
                "However, this server does support channel binding.",
            )  # fmt: skip
        if rest[:1] != ",":
            raise _malformed(f'Comma expected, but found character "{_letter(rest[:1])}".')
        rest = rest[1:]
    if rest.startswith("a"):
        raise PeerError("client uses authorization identity, but it is not supported", sqlstate="0A000")
    if not rest.startswith(","):
        raise _malformed(f'Unexpected attribute "{_letter(rest[:1])}" in client-first-message.')
    return first[: len(first) - len(rest) + 1]


def _behind_binding(rest: str, is_chosen: bool) -> str:
    if not is_chosen:
        raise _malformed(
            "The client selected SCRAM-SHA-256 without channel binding, but the SCRAM message includes channel binding data."
        )
    if not rest.startswith("="):
        raise _malformed('Expected character "=" for attribute "p".')
    kind, _, behind = rest[1:].partition(",")
    if kind != END_POINT:
        shown = "".join(letter if "!" <= letter <= "~" else "?" for letter in kind[:_SHOWN])
        raise PeerError(f'unsupported SCRAM channel-binding type "{shown}"', sqlstate=VIOLATION)
    return behind


def check_binding(final: str, header: str, end_point: bytes | None) -> None:
    """Raise PeerError unless a client's last message repeats its header, and has the hash where it is bound."""
    attribute = "c=" + b64encode(header.encode() + (end_point or b"")).decode()
    if final.partition(",")[0] == attribute:
        return
    if not final.startswith("c"):
        raise _malformed(f'Expected attribute "c" but found "{_letter(final[:1])}".')
    if end_point is not None:
        raise PeerError("SCRAM channel binding check failed", sqlstate="28000")
    raise PeerError("unexpected SCRAM channel-binding attribute in client-final-message", sqlstate=VIOLATION)


def _malformed(detail: str) -> PeerError:
    return PeerError("malformed SCRAM message", detail=detail, sqlstate=VIOLATION)


def _letter(text: str) -> str:
    """A character for an error, or its number (`sanitize_char`)."""
    return f"'{text}'" if text and "!" <= text <= "~" else f"0x{ord(text) if text else 0:02x}"
