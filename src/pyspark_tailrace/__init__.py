"""Makes `spark.read.format("tailrace")` work without registration: Spark looks for `DefaultSource` in modules named `pyspark_…`.

It does so, in a process of its own, for every source that it is asked for, others' included; so the name is here, and the source itself is
imported by who wants one. That process, too, is kept for a while and then let go.
"""

from typing import Any

from pyspark.sql.datasource import DataSource


class DefaultSource(DataSource):
    """Spark's name for "the source of this module"."""

    def __new__(cls, options: dict[str, str]) -> Any:
        from tailrace.spark.datasource import TailraceSource  # noqa: PLC0415 - see above

        return TailraceSource(options)

    @classmethod
    def name(cls) -> str:
        from tailrace.spark.workers import settle  # noqa: PLC0415 - see above

        settle()
        return "tailrace"
