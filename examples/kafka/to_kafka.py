"""What a slot gives, to Kafka by Spark's own sink: `python to_kafka.py STATE SLOT CHECKPOINT kafka kafka.bootstrap.servers=HOST:PORT topic=changes`.

Spark needs the connector: `--packages org.apache.spark:spark-sql-kafka-0-10_2.13:VERSION of Spark`. Any other format of a sink does, too.
"""

import sys

from pyspark.sql import functions as F

from tailrace.spark import lsn_text
from tailrace.spark.session import session


def start(spark, state, slot, checkpoint, sink="kafka", options=None, plugin="test_decoding"):
    """A query that sends the rows that there are, and ends. The key keeps a transaction in one partition, in order; the header says where a row
    stands. Kafka's sink is at least once: what follows a crash may repeat a batch."""
    rows = spark.readStream.format("tailrace").options(state=state, slot=slot, plugin=plugin).load()
    messages = rows.select(
        rows.xid.cast("string").alias("key"),
        rows.data.alias("value"),
        F.array(F.struct(F.lit("lsn").alias("key"), lsn_text(rows.lsn).cast("binary").alias("value"))).alias("headers"),
    )
    writer = messages.writeStream.format(sink).options(**(options or {}))
    return writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()


if __name__ == "__main__":
    state, slot, checkpoint, sink, *pairs = sys.argv[1:]
    start(session(), state, slot, checkpoint, sink, dict(pair.split("=", 1) for pair in pairs)).awaitTermination()
