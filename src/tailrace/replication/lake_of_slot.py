"""Which lake a slot keeps: written down beside the state location's slots, since the slot confirms what that lake has.

In: a slot, and a lake's URL. Out: a file `lakes/<slot>` in the location. A slot that is used with another lake by a slip of the pen would begin that
one anew, and go past what the first one has.
"""

from __future__ import annotations

from pathlib import Path

from tailrace.errors import UsageError
from tailrace.storage.whole_file import make_folder, write_whole

FOLDER = "lakes"


def check_lake(state: Path, slot: str, url: str) -> None:
    """Note that the slot keeps this lake. Raises UsageError where it keeps another."""
    path = state / FOLDER / slot
    try:
        noted = path.read_text().strip()
    except FileNotFoundError:
        make_folder(path.parent)
        write_whole(path, f"{url}\n".encode())
        return
    if noted != url:
        raise UsageError(
            f'replication slot "{slot}" keeps lake "{noted}", not "{url}"',
            hint=f'Give each lake a slot of its own: --slot NAME, or another state location. If the lake was moved there, remove "{path}".',
            sqlstate="55000",
        )  # fmt: skip


def forget_lake(state: Path, slot: str) -> None:
    """Of a slot that is not there any more."""
    (state / FOLDER / slot).unlink(missing_ok=True)
