"""What a verb says on standard error besides errors: warnings, and how far it is, where a person looks at it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import TYPE_CHECKING

from tailrace import kernels
from tailrace.dataclass import dataclass
from tailrace.model import Lsn

if TYPE_CHECKING:
    from rich.status import Status

COMPILING = "compiling kernels for this machine, once: up to a minute"


@dataclass(slots=True)
class Progress:
    """What is told while a verb works. Says nothing unless stderr is a terminal, and counts only if the rows go elsewhere. With an
    `end` it says how much of the way from `begin` on is behind."""

    noun: str
    shown: bool = field(default_factory=lambda: sys.stderr.isatty())  # noqa: PLW0108 - the stream of today, not of the import
    status: Status | None = None
    total: int = 0
    begin: Lsn = Lsn(0)
    end: Lsn | None = None

    def tell(self, line: str) -> None:
        """Print a line that stays."""
        if self.status is not None:
            self.status.console.print(line, highlight=False, markup=False)
        elif self.shown:
            sys.stderr.write(f"{line}\n")

    def tell_of_compiling(self) -> None:
        """Whoever waits is told why, in a log of what a verb said, too."""
        if self.shown:
            self.tell(COMPILING)
        else:
            sys.stderr.write(f"tailrace: {COMPILING}\n")

    def show(self, line: str) -> None:
        """Put this where the count is shown."""
        if self.status is not None:
            self.status.update(line)

    def add(self, more: int, reached: Lsn | None = None) -> None:
        """So many more, with all that commits before `reached`."""
        self.total += more
        if self.status is not None:
            done = "" if reached is None or self.end is None else f", {self._percentage(reached, self.end)} %"
            self.status.update(f"{self.total:,} {self.noun}{done}")

    def _percentage(self, reached: Lsn, end: Lsn) -> int:
        return 100 * min(max(0, reached - self.begin), end - self.begin) // max(1, end - self.begin)


def warn(message: str) -> None:
    """Something is passed over or put right, and the verb goes on."""
    sys.stderr.write(f"tailrace: warning: {message}\n")


@contextmanager
def counted(noun: str, *, is_alone: bool = False) -> Iterator[Progress]:
    """A progress that is told how many more there are; `is_alone` where the verb prints nothing meanwhile."""
    progress = Progress(noun)
    kernels.before_compiling.append(progress.tell_of_compiling)
    if not progress.shown or (sys.stdout.isatty() and not is_alone):
        yield progress
        return
    from rich.console import Console  # noqa: PLC0415 - it takes a tenth of a second, and only a terminal shows it

    with Console(stderr=True).status("reading the log") as progress.status:
        yield progress
    progress.status = None
    progress.tell(f"{progress.total:,} {noun}")
