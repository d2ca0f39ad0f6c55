"""Where a verb works: by what it is chosen."""

from __future__ import annotations

import pytest

from tailrace.cli.choice import On, choose
from tailrace.errors import UsageError

SMALL, LARGE, FEW, MANY = 400_000, 8 << 30, 2, 64
CHOICES = [
    # WAL, cores, configured, asked, installed; on Spark?, why
    (SMALL, FEW, "", On.AUTO, True, False, "0.4 MB of WAL, 2 cores, no Spark master configured"),
    (LARGE, MANY, "", On.AUTO, True, False, "8.6 GB of WAL, 64 cores, no Spark master configured"),
    (LARGE, MANY, "", On.AUTO, False, False, "8.6 GB of WAL, 64 cores, no Spark master configured"),
    (SMALL, FEW, "MASTER is yarn", On.AUTO, True, True, "MASTER is yarn"),
    (LARGE, MANY, "MASTER is yarn", On.AUTO, True, True, "MASTER is yarn"),
    (SMALL, FEW, "MASTER is yarn", On.AUTO, False, False, "MASTER is yarn, but pyspark is not installed"),
    (LARGE, MANY, "MASTER is yarn", On.LOCAL, True, False, "--on local"),
    (SMALL, FEW, "", On.SPARK, True, True, "--on spark"),
]


@pytest.mark.parametrize(("size", "cores", "configured", "asked", "installed", "on_spark", "reason"), CHOICES)
def test_the_choice(size: int, cores: int, configured: str, asked: On, installed: bool, on_spark: bool, reason: str) -> None:
    chosen = choose(size, cores, configured, asked, installed=installed)
    assert (chosen.on_spark, chosen.reason) == (on_spark, reason)


def test_spark_is_asked_for_and_not_there() -> None:
    with pytest.raises(UsageError, match="Spark is not installed"):
        choose(SMALL, FEW, "", On.SPARK, installed=False)
