"""A receiver at work beside what its process does otherwise.

In: a `Receiver` that has not run yet. Out: a `Reception`, which says whether the log still comes in, and waits until it is there up to an LSN.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tailrace.client.receiver import Receiver, received_upto
from tailrace.dataclass import dataclass
from tailrace.errors import PeerError, UsageError
from tailrace.model import Lsn
from tailrace.storage.wakeup import ReaderSocket

_IN_USE = "55006"
_AGAIN = 0.5
"""Seconds after which who finds another process receiving looks again."""
_PATIENCE, _POLL = 60.0, 0.02
"""Seconds in which what is received must come nearer, and from one look to the next where the receiver does not say that there is more."""


@dataclass(slots=True)
class Reception:
    """`failure` is why no more comes in."""

    directory: Path
    failure: BaseException | None = None
    receiver: Receiver | None = None

    @property
    def is_ours(self) -> bool:
        """Whether it is this process that receives."""
        return self.receiver is not None and self.receiver.is_at_work

    def check(self) -> None:
        """Raise what ended it."""
        if self.failure is not None:
            raise self.failure

    def wait(self, lsn: Lsn, check: Callable[[], None] = lambda: None) -> None:
        """Until the log is there up to `lsn`, which the server has, whoever receives it. Raises what ended it, what `check` raises meanwhile, and
        PeerError (08006) where nothing more comes."""
        if (received_upto(self.directory) or Lsn(0)) >= lsn:
            return
        farthest, since = Lsn(0), time.monotonic()
        with ReaderSocket(self.directory, has_more=True) as socket:
            while (now := received_upto(self.directory) or Lsn(0)) < lsn:
                self.check()
                check()
                if now > farthest:  # who begins again and again where he was comes no nearer
                    farthest, since = now, time.monotonic()
                if time.monotonic() - since > _PATIENCE:
                    raise PeerError(f"the server's log did not come up to {lsn}", sqlstate="08006", lsn=lsn)
                socket.wait(_POLL)


@contextmanager
def receiving(receiver: Receiver, on_failure: Callable[[], None] = lambda: None) -> Iterator[Reception]:
    """Within the block the log comes in: by a thread of this process, unless another process does it already, and once that ends. `on_failure` is
    called when something has ended it."""
    reception, ends = Reception(receiver.directory, receiver=receiver), threading.Event()

    def work() -> None:
        while not receiver.is_stopping:
            try:
                receiver.run()
            except BaseException as error:
                if isinstance(error, UsageError) and error.sqlstate == _IN_USE:
                    ends.wait(_AGAIN)
                    continue
                reception.failure = error
                on_failure()
                return

    thread = threading.Thread(target=work, name="tailrace receiver", daemon=True)
    thread.start()
    try:
        yield reception
    finally:
        receiver.stop()
        ends.set()
        thread.join()
