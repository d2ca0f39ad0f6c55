"""`tailrace` as a program on the PATH that is forked from a process which has imported already what verbs need (`support/forked.py` says why). For
scripts of a shell: for what a test starts by itself there is `support.forked`.

    with quick_commands(folder) as path: subprocess.run(["bash", "-c", ...], env={"PATH": path, ...})

The program is a few lines that hand words, folder, environment and standard streams over a socket to the process that forks, pass on what signals
come, and end with its status. One message a connection: its length, a JSON, three file descriptors; then signals that way, and a status back.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.forked import be_command

PROGRAM = """#!{python} -IS
import json, os, signal, socket, sys
with socket.socket(socket.AF_UNIX) as there:
    there.connect({address!r})
    asked = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(there, [len(asked).to_bytes(8)], [0, 1, 2])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: there.send(bytes([number])))
    there.sendall(asked)
    status = there.recv(1)
sys.exit(status[0] if status else 255)
"""


@contextmanager
def quick_commands(folder: Path) -> Iterator[str]:
    """A PATH that begins with where the program is, in this folder, for as long as it works."""
    address, program = folder / "forks", folder / "tailrace"
    program.write_text(PROGRAM.format(python=sys.executable, address=str(address)))
    program.chmod(0o755)
    found_by = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    words = [sys.executable, "-c", "from support.quick_commands import serve; serve()", address]
    with subprocess.Popen(words, env=found_by) as process:
        try:
            while not address.exists():
                assert process.poll() is None
                time.sleep(0.05)
            yield f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        finally:
            process.terminate()


def serve() -> None:
    """Fork for whoever comes, until a signal ends it."""
    import support.verbs_loaded  # noqa: PLC0415 - that is what takes a second

    assert support.verbs_loaded
    woken, wakes = socket.socketpair()
    wakes.setblocking(False)
    signal.set_wakeup_fd(wakes.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    children: dict[socket.socket, int] = {}
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(sys.argv[1])
        listening.listen(16)
        while True:
            ready, _, _ = select.select([listening, woken, *children], [], [])
            for each in ready:
                if each is listening:
                    there, _ = listening.accept()
                    children[there] = _forked(there, [listening, woken, wakes, *children])
                elif each is woken:
                    woken.recv(100)
                    _tell_status(children)
                elif each in children:  # signals; SIGKILL where the program is gone
                    for number in each.recv(10) or [signal.SIGKILL]:
                        os.kill(children[each], number)


def _forked(there: socket.socket, others: list[socket.socket]) -> int:
    length, streams, _, _ = socket.recv_fds(there, 8, 3)
    asked = b""
    while len(asked) < int.from_bytes(length):
        asked += there.recv(1 << 20)
    if child := os.fork():
        for each in streams:
            os.close(each)
        return child
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for each in (there, *others):
            each.close()
        for number, each in enumerate(streams):
            os.dup2(each, number)
            os.close(each)
        words, folder, environment = json.loads(asked)
        be_command(words, environment, folder)
    finally:
        os._exit(70)


def _tell_status(children: dict[socket.socket, int]) -> None:
    for there, child in list(children.items()):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            del children[there]
            code = os.waitstatus_to_exitcode(status)
            with there:
                there.send(bytes([code if code >= 0 else 128 - code]))
