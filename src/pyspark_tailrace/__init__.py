"""Makes `spark.read.format("tailrace")` work without registration: Spark looks for `DefaultSource` in modules named `pyspark_…`."""

from tailrace.spark.datasource import TailraceSource


class DefaultSource(TailraceSource):
    """Spark's name for "the source of this module"."""
