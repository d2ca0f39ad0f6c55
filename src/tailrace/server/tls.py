"""What encrypts connections: the server's certificate and its private key, from files (`be_tls_init` in `libpq/be-secure-openssl.c`)."""

from __future__ import annotations

import os
import ssl
from contextlib import suppress
from pathlib import Path

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.server.channel_binding import end_point_of
from tailrace.server.settings import TlsFiles


@dataclass(frozen=True, slots=True)
class Tls:
    """`context` makes the handshakes, and `end_point` is what binds to the certificate that they show; None: nothing does. Both come together, as a
    connection goes on with what its handshake used, whatever has been read since."""

    context: ssl.SSLContext
    end_point: bytes | None


def load_tls(files: TlsFiles | None) -> Tls | None:
    """TLS 1.2 or newer, as the server has it by default. Raises UsageError (F0000)."""
    if files is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    for file, what in ((files.certificate, "server certificate file"), (files.key, "private key file")):
        if not file.is_file():
            raise UsageError(f'could not load {what} "{file}": No such file or directory', sqlstate="F0000")
    _check_rights(files.key)
    try:
        context.load_cert_chain(files.certificate, files.key, lambda: "")  # nobody is there who could be asked for a passphrase
        return Tls(context, end_point_of(_shown_certificate(context)))
    except (OSError, ValueError) as error:
        why = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        raise UsageError(f'could not load server certificate file "{files.certificate}": {why}', sqlstate="F0000") from None


def _shown_certificate(context: ssl.SSLContext) -> bytes:
    """The one that clients are shown, by a handshake with ourselves: the file may have many, or be another by now."""
    client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_context.check_hostname, client_context.verify_mode = False, ssl.CERT_NONE
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server)
    server = context.wrap_bio(to_server, to_client, server_side=True)
    for end in (client, server) * 3:
        with suppress(ssl.SSLWantReadError):
            end.do_handshake()
    certificate = client.getpeercert(binary_form=True)
    assert certificate is not None
    return certificate


def _check_rights(key: Path) -> None:
    """Raise UsageError (F0000) for a private key that others can read (`check_ssl_key_file_permissions`)."""
    found = key.stat()
    if found.st_uid not in (0, os.geteuid()):
        raise UsageError(f'private key file "{key}" must be owned by the database user or root', sqlstate="F0000")
    if found.st_mode & (0o037 if found.st_uid == 0 else 0o077):
        raise UsageError(
            f'private key file "{key}" has group or world access', sqlstate="F0000",
            detail="File must have permissions u=rw (0600) or less if owned by the database user, or permissions u=rw,g=r (0640) or less "
            "if owned by root.",
        )  # fmt: skip
