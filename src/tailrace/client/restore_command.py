"""`restore_command`: a shell command that brings a file of a server's archive, as PostgreSQL's standbys run it (`access/transam/xlogarchive.c`,
RestoreArchivedFile; manual, "Recovery", `restore_command`).

In: the name of a segment or of a history file. Out: the file, in a directory, or that it is not there. The command runs in that directory, as a
server runs it in its data directory.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tailrace.dataclass import dataclass
from tailrace.errors import PeerError
from tailrace.settings import replace_percent_placeholders

RESTORED = ".RECOVERYXLOG"
"""Where the command puts what it brings; the server's name for it, and hidden as what is no segment yet."""
_NAME = "restore_command"
_PLAIN = re.compile(r"[\w@+=:,./-]+", re.ASCII)
"""What a shell takes for one word, as it is."""
_ENDS_FROM = 126
"""From this status on the command could not be run, or the shell says that a signal ended it."""
_CANNOT_RUN = {126: "command not executable", 127: "command not found"}
_LOOK_EVERY = 0.1


@dataclass(frozen=True, slots=True)
class RestoreCommand:
    """`text` is as postgresql.conf has it, with %f, %p, %r and %%."""

    text: str

    @classmethod
    def parse(cls, text: str) -> RestoreCommand:
        """Raises UsageError for placeholders that there are not (`replace_percent_placeholders`)."""
        replace_percent_placeholders(_NAME, text, dict.fromkeys("fpr", ""))
        return cls(text)

    def bring(self, name: str, directory: Path, restart: str, is_stopping: Callable[[], bool]) -> Path | None:
        """The file of this `name`, under another in `directory`; None where the archive does not have it, or where it is to stop meanwhile.
        `restart` is the oldest file that is still needed. Raises PeerError where the command cannot be run, or a signal ended it: whether there
        is such a file is not known then."""
        path = directory / RESTORED
        path.unlink(missing_ok=True)
        # The name in the directory does for the shell, whatever the directory is called; but pgBackRest takes it only in a server's own.
        target = str(path.absolute()) if _PLAIN.fullmatch(str(path.absolute())) else RESTORED
        command = replace_percent_placeholders(_NAME, self.text, {"f": name, "p": target, "r": restart})
        status = _run(command, directory, is_stopping)
        if is_stopping():
            path.unlink(missing_ok=True)
            return None
        if status == 0:
            if path.is_file():
                return path
            raise PeerError(
                f'could not stat file "{path}": No such file or directory',
                detail='"restore_command" returned a zero exit status, but stat() failed.',
                hint="It must copy the file %f of the archive to %p.", context=f"restore_command: {self.text}", sqlstate="58P01",
            )  # fmt: skip
        path.unlink(missing_ok=True)
        if status < 0 or status >= _ENDS_FROM:
            raise PeerError(
                f'could not restore file "{name}" from archive: {_in_words(status)}', context=f"restore_command: {self.text}", sqlstate="XX000"
            )  # fmt: skip
        return None


def _run(command: str, directory: Path, is_stopping: Callable[[], bool]) -> int:
    """Its status, as a shell gives it. What it prints goes to standard error: standard output is for rows."""
    process = subprocess.Popen(
        command, shell=True, cwd=directory, stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno(), start_new_session=True
    )  # fmt: skip
    while True:
        try:
            return process.wait(_LOOK_EVERY)
        except subprocess.TimeoutExpired:
            if is_stopping():
                _end(process)
                return process.wait()
        except BaseException:  # who is interrupted leaves nothing behind that goes on writing
            _end(process)
            raise


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)


def _in_words(status: int) -> str:
    """As `wait_result_to_str` says it."""
    if status < 0:
        return f"child process was terminated by signal {-status}: {signal.strsignal(-status) or 'unrecognized signal'}"
    return _CANNOT_RUN.get(status, f"child process exited with exit code {status}")
