"""Where the stages run: in this process or on Spark. The choice alone; what it rests on is asked by whoever makes it."""

from __future__ import annotations

from enum import StrEnum

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError

_GIGABYTE, _MEGABYTE = 1e9, 1e6


class On(StrEnum):
    """The values of the option --on."""

    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


@dataclass(frozen=True, slots=True)
class Choice:
    """Where, and why, as it is told to the person who waits."""

    on_spark: bool
    reason: str

    def __str__(self) -> str:
        return f"{'on Spark' if self.on_spark else 'in this process'} ({self.reason})"


def choose(size: int, cores: int, configured: str, asked: On, *, installed: bool = True) -> Choice:
    """Choose for `size` bytes of WAL on a machine with so many cores. `configured` says where somebody has configured a master or a Connect session,
    empty if nobody has; `installed`, whether there is a pyspark. Raises UsageError if Spark is asked for and is not installed.

    Spark on this machine has the cores that this process has, starts later and copies every result, so by itself it wins at no size
    (docs/decisions/008-where-it-runs.md); it is for machines that somebody has configured.
    """
    told = f"{size / _GIGABYTE:.1f} GB" if size >= _GIGABYTE else f"{size / _MEGABYTE:.1f} MB"
    if asked is On.SPARK and not installed:
        raise UsageError("Spark is not installed", hint="pip install 'tailrace[spark]', or --on local.")
    if asked is not On.AUTO:
        return Choice(asked is On.SPARK, f"--on {asked}")
    if configured and installed:
        return Choice(True, configured)
    if configured:
        return Choice(False, f"{configured}, but pyspark is not installed")
    return Choice(False, f"{told} of WAL, {cores} cores, no Spark master configured")
