"""Where the stages run: in this process or on Spark. The choice alone; what it rests on is asked by whoever makes it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tailrace.errors import UsageError

SPARK_CORES = 8
SPARK_BYTES = 8 << 30
"""From so many cores and so much WAL on, Spark on this machine is worth its start (`benchmarks/first_contact.py --crossover`)."""
_GIGABYTE, _MEGABYTE = 1e9, 1e6


class On(StrEnum):
    """What can be asked for."""

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

    Both use all cores of the machine. Threads of this process start at once and hand over results for nothing, but Python runs in one of them at
    a time; Spark's processes take seconds to start and a copy of every result, and do not wait for each other.
    """
    told = f"{size / _GIGABYTE:.1f} GB" if size >= _GIGABYTE else f"{size / _MEGABYTE:.0f} MB"
    if asked is On.SPARK and not installed:
        raise UsageError("Spark is not installed", hint="pip install 'tailrace[spark]', or --on local.")
    if asked is not On.AUTO:
        return Choice(asked is On.SPARK, f"--on {asked}")
    if configured and installed:
        return Choice(True, configured)
    if configured:
        return Choice(False, f"{configured}, but pyspark is not installed")
    if size >= SPARK_BYTES and cores >= SPARK_CORES and installed:
        return Choice(True, f"{told} of WAL, {cores} cores")
    return Choice(False, f"{told} of WAL, {cores} cores")
