"""What stands between a client and a real server of S3's protocol, and is not as good as the server: it drops conditions, answers, or asks to wait.

In: the server's endpoint. Out: another endpoint, for requests without signatures. State: what it does to the next requests that put something.
"""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_SLOW_DOWN = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
_CONFLICT = b"<?xml version='1.0'?><Error><Code>ConditionalRequestConflict</Code><Message>A conflicting operation is on its way.</Message></Error>"


class StoreProxy(ThreadingHTTPServer):
    """`is_deaf`: it takes conditions out. `lost`: so many puts are done, and nobody is told. `refused`: so many are not done, and the client is to
    come again. While it `is_away` nobody gets an answer. `puts` are those that the server did."""

    daemon_threads = True

    def __init__(self, endpoint: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behind = endpoint.removeprefix("http://")
        self.endpoint = f"http://127.0.0.1:{self.server_address[1]}"
        self.is_deaf = self.is_away = False
        self.lost, self.refused, self.puts = 0, 0, 0

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is none."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: StoreProxy

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        proxy = self.server
        if proxy.is_away:
            self.close_connection = True
            self.connection.close()
            return
        if self.command == "PUT" and proxy.refused:
            proxy.refused -= 1
            code, answer = (503, _SLOW_DOWN) if proxy.refused % 2 else (409, _CONFLICT)
            self._answer(code, [], answer)
            return
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")}
        if proxy.is_deaf:
            headers = {name: value for name, value in headers.items() if not name.lower().startswith("if-")}
        connection = http.client.HTTPConnection(proxy.behind)
        connection.request(self.command, self.path, body, headers)
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        if self.command == "PUT" and answer.status == 200:
            proxy.puts += 1
        if self.command == "PUT" and proxy.lost:
            proxy.lost -= 1
            self.close_connection = True
            self.connection.close()
            return
        self._answer(answer.status, answer.getheaders(), data)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass_on

    def _answer(self, status: int, headers: list[tuple[str, str]], data: bytes) -> None:
        self.send_response(status)
        length = str(len(data))
        for name, value in headers:
            if name.lower() == "content-length":
                length = value
            elif name.lower() not in ("transfer-encoding", "connection", "date", "server"):
                self.send_header(name, value)
        self.send_header("Content-Length", length)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


@contextmanager
def store_proxy(endpoint: str) -> Iterator[StoreProxy]:
    proxy = StoreProxy(endpoint)
    thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join()
