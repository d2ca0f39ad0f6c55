"""What stands between a client and a server, and lets nothing through from some moment on: a network that was cut without a word to anybody.

In: a server's port, and words of the client's at which it is cut: before the server has them, or before it answers. Out: a port. With no server there
is nobody behind it: a client is let in, and hears nothing.
"""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def proxy(server_port: int | None = None, silent_from: bytes = b"", unanswered_from: bytes = b"") -> Iterator[int]:
    """Within the block the port is listened at. What a client sends is passed on up to the message with `silent_from` in it; that with
    `unanswered_from` is the last that comes to the server."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ends = threading.Event()
        clients: list[socket.socket] = []

        def accept() -> None:
            while not ends.is_set():
                if select.select([listener], [], [], 0.05)[0]:
                    clients.append(listener.accept()[0])
                    if server_port is not None:
                        threading.Thread(
                            target=_pass_on, args=(clients[-1], server_port, silent_from, unanswered_from, ends), daemon=True
                        ).start()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            ends.set()
            thread.join()
            for client in clients:
                client.close()


def _pass_on(client: socket.socket, port: int, silent_from: bytes, unanswered_from: bytes, ends: threading.Event) -> None:
    is_silent = False
    with socket.create_connection(("127.0.0.1", port)) as server, suppress(OSError):
        while not ends.is_set():
            for readable in select.select([client, server], [], [], 0.05)[0]:
                data = readable.recv(1 << 16)
                if not data:
                    client.shutdown(socket.SHUT_RDWR)
                    return
                is_silent = is_silent or (bool(silent_from) and readable is client and silent_from in data)
                if not is_silent:
                    (server if readable is client else client).sendall(data)
                is_silent = is_silent or (bool(unanswered_from) and readable is client and unanswered_from in data)
