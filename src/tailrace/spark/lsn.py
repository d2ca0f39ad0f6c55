"""Positions in the log as PostgreSQL prints them, and back, in Spark's own expressions: no Python runs for a row, and Spark may fold them.

A position is a bigint in DataFrames. It orders as pg_lsn does up to 7FFFFFFF/FFFFFFFF; text does not (0/9 stands behind 0/10 there).
"""

from __future__ import annotations

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as sql

from tailrace.settings import parse_lsn

_FORM = "^[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}"
_WRONG = 'invalid input syntax for type pg_lsn: "'
_FUNCTIONS = (
    "lsn_text(lsn BIGINT) RETURNS STRING RETURN concat(hex(shiftrightunsigned(lsn, 32)), '/', hex(lsn & 4294967295L))",
    f"lsn_value(text STRING) RETURNS BIGINT RETURN CASE WHEN regexp_extract(text, '{_FORM}', 0) = text AND text <> ''"
    " THEN shiftleft(CAST(conv(split_part(text, '/', 1), 16, 10) AS BIGINT), 32) | CAST(conv(split_part(text, '/', 2), 16, 10) AS BIGINT)"
    f" WHEN text IS NOT NULL THEN CAST(raise_error(concat('{_WRONG}', text, '\"')) AS BIGINT) END",
)


def text_of(lsn: Column | str) -> Column:
    # A small number is an int, which has no 32 bits to shift out.
    column = (sql.col(lsn) if isinstance(lsn, str) else lsn).cast("bigint")
    text = sql.concat(sql.hex(sql.shiftrightunsigned(column, 32)), sql.lit("/"), sql.hex(column.bitwiseAND(sql.lit(0xFFFFFFFF))))
    return text.alias("lsn_text")


def value_of(text: Column | str) -> Column:
    if isinstance(text, str):
        return sql.lit(_signed(text)).cast("bigint")
    high, low = (sql.conv(sql.split_part(text, sql.lit("/"), sql.lit(place)), 16, 10).cast("bigint") for place in (1, 2))
    wrong = sql.raise_error(sql.concat(sql.lit(_WRONG), text, sql.lit('"'))).cast("bigint")
    whole = sql.shiftleft(high, 32).bitwiseOR(low)
    is_one = (sql.regexp_extract(text, _FORM, 0) == text) & (text != "")  # what does not match extracts nothing
    return sql.when(is_one, whole).when(text.isNotNull(), wrong)


def _signed(text: str) -> int:
    lsn = int(parse_lsn(text))
    return lsn - (1 << 64) if lsn >> 63 else lsn


def register_functions(spark: SparkSession) -> None:
    for function in _FUNCTIONS:
        spark.sql(f"CREATE OR REPLACE TEMPORARY FUNCTION {function}")
