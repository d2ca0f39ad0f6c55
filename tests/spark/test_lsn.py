"""Positions in Spark read and print as pg_lsn, by columns and by SQL functions."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from tailrace.errors import UsageError
from tailrace.model import Lsn
from tailrace.spark import lsn_text, lsn_value, register

pytestmark = pytest.mark.spark
VALUES = (0, 1, 0x9, 0x10, 0x16B3748, 0xFFFFFFFF, 1 << 32, (0x10 << 32) - 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
WRONG = ("", "/", "1/", "/1", "1", "zz/1", "123456789/0", "0/123456789", " 1/2", "1/2 ", "1/2\n", "1/2/3", "-1/2")


def signed(lsn: int) -> int:
    """As a bigint."""
    return lsn - (1 << 64) if lsn >> 63 else lsn


def test_there_and_back(spark: SparkSession) -> None:
    register(spark)
    rows = [(signed(each), str(Lsn(each)), str(Lsn(each)).lower().zfill(10)) for each in VALUES] + [(None, None, None)]
    frame = spark.createDataFrame(rows, "lsn bigint, text string, padded string")
    told = frame.select(
        "lsn", "text", lsn_text("lsn"), lsn_text(frame.lsn), sql.expr("lsn_text(lsn)"),
        lsn_value(frame.text), lsn_value(frame.padded), sql.expr("lsn_value(text)"), sql.expr("lsn_value(padded)"),
    ).collect()  # fmt: skip
    assert frame.select(lsn_text(frame.lsn)).columns == ["lsn_text"]
    assert len(told) == len(VALUES) + 1
    for row in told:
        assert tuple(row) == (row[0], row[1], row[1], row[1], row[1], row[0], row[0], row[0], row[0])
    assert Lsn.parse(rows[4][2]) == VALUES[4]


def test_a_text_is_a_value_to_compare_with(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(signed(each),) for each in VALUES if each < 1 << 63], "lsn bigint")
    assert frame.where(frame.lsn >= lsn_value("0/10")).count() == 6
    assert [row.lsn for row in frame.where(frame.lsn < lsn_value("0/10")).orderBy("lsn").collect()] == [0, 1, 9]
    there_and_back = [lsn_text(lsn_value(str(Lsn(each)))).alias(str(each)) for each in VALUES]
    assert list(spark.range(1).select(there_and_back).collect()[0]) == [str(Lsn(each)) for each in VALUES]
    assert spark.range(1).select(lsn_value("FFFFFFFF/FFFFFFFF")).collect()[0][0] == -1


def test_what_is_no_position(spark: SparkSession) -> None:
    register(spark)
    frame = spark.createDataFrame([(each,) for each in WRONG], "text string")
    for text in WRONG:
        with pytest.raises(ValueError, match="pg_lsn"):
            Lsn.parse(text)
        with pytest.raises(UsageError, match="invalid input syntax for type pg_lsn"):
            lsn_value(text)
    for value in (lsn_value(frame.text), sql.expr("lsn_value(text)")):
        for text in WRONG[::4]:
            with pytest.raises(Exception, match='invalid input syntax for type pg_lsn: "'):
                frame.where(frame.text == text).select(value).collect()
