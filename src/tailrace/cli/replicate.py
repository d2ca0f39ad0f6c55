"""`tailrace replicate`: a lake of a server, from the connection string to following it.

What other verbs do one by one, in order: the server is examined (`doctor`), its tables are copied and its log followed (`mirror`), and how far the
lake is can be asked for (`cli/status_page.py`). On the server nothing is made that stays.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from tailrace.cli.doctor import check_server
from tailrace.cli.mirror import AskedLake, AskedSlot, mirror
from tailrace.cli.slot import exists
from tailrace.cli.status_page import LakeStanding, status_page
from tailrace.publications.subscription import publications_in
from tailrace.replication.apply_worker import Pace, Until
from tailrace.storage.open_store import open_store
from tailrace.storage.state_location import StateLocation


def replicate(asked: AskedSlot, to: AskedLake, pace: Pace, until: Until, status: str, *, as_json: bool) -> int:
    """Until what is asked for is in the lake, or a signal comes; gives the exit status. The server is examined before there is a slot; later trouble
    is met as it comes."""
    to.open(stages_here=True)  # what is wrong with it is said first
    if not exists(asked.name, asked.state):
        check_server(asked.source, asked.database, _published_there(asked, to))
    standing = LakeStanding(to.url, f"database {asked.database}")
    with ExitStack() as stack:
        if status:
            url = stack.enter_context(status_page(status, standing))
            _tell(f"status at {url}, and {url}metrics for Prometheus")
        _tell(f"slot and received log are kept in {asked.state}")
        return mirror(asked, to, pace, until, as_json=as_json, watcher=standing)


def state_of(lake: str, database: str) -> Path:
    """Where the state location of this lake is if nobody says: below XDG_STATE_HOME or ~/.local/state, by the lake's URL."""
    home = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state")
    known_by = hashlib.sha256(open_store(lake, {}).url.encode()).hexdigest()[:10]
    return home / "tailrace" / f"{re.sub(r'[^A-Za-z0-9_.-]', '_', database)}-{known_by}"


def _published_there(asked: AskedSlot, to: AskedLake) -> Sequence[str] | None:
    """The publications that the server must have, whose tables are copied. None where some are defined in the state location: which, nobody has
    looked."""
    if StateLocation(asked.state).publications.path.is_dir():
        return None
    return publications_in(to.publications)


def _tell(line: str) -> None:
    sys.stderr.write(f"tailrace: {line}\n")
