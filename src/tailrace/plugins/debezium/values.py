"""What a column is to Kafka Connect: its schema there, and its values as JSON literals (Debezium, PostgreSQL connector, "Data
type mappings")."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import field, replace
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.model import Column, PgType
from tailrace.plugins.debezium.binary import base64_texts, little_endian
from tailrace.plugins.debezium.numbers import are_special, decimal_literals, special_named, with_points
from tailrace.plugins.debezium.options import ADAPTIVE, CONNECT, DOUBLE, HEX, PRECISE, STRING, DebeziumOptions
from tailrace.plugins.debezium.zoned_times import zoned_texts
from tailrace.plugins.json_text import columns as form
from tailrace.plugins.json_text.columns import printed
from tailrace.plugins.json_text.strings import json_string
from tailrace.types import oids
from tailrace.types.style import TextStyle
from tailrace.types.times.calendar import UNIX_TO_POSTGRES_DAYS, UNIX_TO_POSTGRES_USECS
from tailrace.types.times.interval import interval_parts
from tailrace.types.times.text import times_in_utc
from tailrace.types.typmods import numeric_typmod
from tailrace.types.values import Texts, Values

_MONTH_DAYS = 365.25 / 12
_LATEST, _EARLIEST = 9223372036825200, -9223372036832400
"""What the JDBC driver makes of infinite time stamps, in milliseconds."""
_MOST_BITS = 2**31 - 1
_MILLIS, _MICROS = 3, 6
"""Digits of a second that milliseconds and microseconds have."""
_TIME = PgType(oids.TIME, "pg_catalog", "time", "time without time zone", "b", 8, 8)


@dataclass(frozen=True)
class FieldConverter:
    """How a column is written: `kind` and `name` of its Connect schema (no name: a plain one) with parameters and a doc, and what
    makes literals of its values. `fallback` is the literal that stands for a value that is not there and cannot be null; empty:
    that of the kind."""

    kind: str
    text_of: Callable[[Values], tuple[Texts, int]]
    name: str = ""
    parameters: dict[str, str] = field(default_factory=dict)
    fields: tuple[dict[str, Any], ...] = ()
    doc: str = ""
    fallback: str = ""

    def schema(self, *, optional: bool) -> dict[str, Any]:
        """As Connect's JSON converter writes it."""
        fields = {"fields": list(self.fields)} if self.fields else {}
        named = {"name": self.name, "version": 1} if self.name else {}
        doc = {"doc": self.doc} if self.doc else {}
        parameters = {"parameters": self.parameters} if self.parameters else {}
        return {"type": self.kind, **fields, "optional": optional, **named, **doc, **parameters}

    def absent(self, *, optional: bool) -> str:
        """The literal that stands for a value that an old key lacks."""
        return "null" if optional else self.fallback or _FALLBACKS[self.kind]

    def unavailable(self, placeholder: str) -> str:
        """The literal that stands for a value which the log does not have."""
        if self.kind == "bytes":
            placeholder = base64.b64encode(placeholder.encode()).decode()
        return json_string(placeholder)


def resolved(column: Column) -> tuple[PgType, int]:
    """The type that a column's values are of in the end, and its modifier: that of the domain, where one gives it."""
    pg_type, typmod = column.live_type, column.typmod
    while pg_type.kind == "d" and pg_type.element is not None:
        typmod = typmod if typmod >= 0 else pg_type.typmod
        pg_type = pg_type.element
    return pg_type, typmod


@dataclass(frozen=True)
class ValueConverters:
    """Finds out how columns are written. `style` and `codec` are those of what is written as text."""

    options: DebeziumOptions
    style: TextStyle
    codec: str

    def of(self, column: Column) -> FieldConverter:
        pg_type, typmod = resolved(column)
        if pg_type.oid in _PLAIN:
            kind, how = _PLAIN[pg_type.oid]
            return FieldConverter(kind, lambda stored: (self._printed(stored, column), how))
        if pg_type.oid in _FLOATS:
            return FieldConverter(
                _FLOATS[pg_type.oid], lambda stored: (with_points(self._printed(stored, column)), form.NUMBER_OR_NAME)
            )
        make = _MADE.get(pg_type.oid)
        if make is not None:
            return make(self, column, typmod)
        parameters = {"allowed": ",".join(label for _, label in pg_type.labels)} if pg_type.kind == "e" else {}
        name = "io.debezium.data.Enum" if pg_type.kind == "e" else _NAMES.get(pg_type.name, "")
        return FieldConverter("string", lambda stored: (self._printed(stored, column), form.STRING), name, parameters)

    def _printed(self, stored: Values, column: Column) -> Texts:
        return printed(stored, column.live_type, self.style, self.codec)

    # -- by type -----------------------------------------------------------------------------------------------------------------

    def numeric(self, column: Column, typmod: int) -> FieldConverter:
        mode, declared = self.options.decimals, numeric_typmod(typmod)
        scale = max(declared[1], 0) if declared else 0
        if mode == STRING:
            return FieldConverter(
                "string", lambda stored: (special_named(self._printed(stored, column)), form.STRING), fallback=f'"{0:.{scale}f}"'
            )
        if mode == DOUBLE:
            return FieldConverter("double", lambda stored: (with_points(self._printed(stored, column)), form.NUMBER_OR_NAME))

        def text_of(stored: Values) -> tuple[Texts, int]:
            texts = self._printed(stored, column)
            if column.not_null:
                _check_finite(texts, stored, column)
            return decimal_literals(texts, stored.valid, variable=declared is None), form.BARE

        if declared is None:
            fields = (
                {"type": "int32", "optional": False, "field": "scale"},
                {"type": "bytes", "optional": False, "field": "value"},
            )
            return FieldConverter(
                "struct", text_of, "io.debezium.data.VariableScaleDecimal", fields=fields, doc="Variable scaled decimal",
                fallback=f'{{"scale":0,"value":{_NO_CENTS}}}',
            )  # fmt: skip
        parameters = {"scale": str(scale), "connect.decimal.precision": str(declared[0])}
        return FieldConverter("bytes", text_of, _DECIMAL, parameters, fallback=_NO_CENTS)

    def money(self, column: Column, typmod: int) -> FieldConverter:
        def precisely(stored: Values) -> tuple[Texts, int]:
            return decimal_literals(Texts.of_numbers(stored.as_dtype("<i8")), stored.valid, variable=False), form.BARE

        mode = self.options.decimals
        if mode == PRECISE:
            return FieldConverter("bytes", precisely, _DECIMAL, {"scale": "2"}, fallback=_NO_CENTS)
        if mode == STRING:
            return FieldConverter("string", lambda stored: (_hundredths(stored.as_dtype("<i8")), form.STRING), fallback='"0.00"')
        return FieldConverter("double", lambda stored: (_hundredths(stored.as_dtype("<i8")), form.BARE))

    def bytea(self, column: Column, typmod: int) -> FieldConverter:
        if self.options.binaries == HEX:
            style = replace(self.style, bytea_output="hex")
            return FieldConverter("string", lambda stored: (printed(stored, column.live_type, style, self.codec), form.HEX))
        kind = "bytes" if self.options.binaries == "bytes" else "string"
        return FieldConverter(kind, lambda stored: (base64_texts(*stored.payloads), form.STRING))

    def bits(self, column: Column, typmod: int) -> FieldConverter:
        pg_type, _ = resolved(column)
        if pg_type.oid == oids.BIT and typmod == 1:

            def as_boolean(stored: Values) -> tuple[Texts, int]:
                texts = self._printed(stored, column)
                return Texts(
                    texts.offsets, np.where(texts.data == ord("1"), np.uint8(ord("t")), np.uint8(ord("f")))
                ), form.BOOLEAN

            return FieldConverter("boolean", as_boolean)
        length = {"length": str(typmod if typmod >= 0 else _MOST_BITS)}
        return FieldConverter(
            "bytes", lambda stored: (base64_texts(*little_endian(self._printed(stored, column))), form.STRING), "io.debezium.data.Bits", length
        )  # fmt: skip

    def date(self, column: Column, typmod: int) -> FieldConverter:
        name = "org.apache.kafka.connect.data.Date" if self.options.times == CONNECT else "io.debezium.time.Date"
        # In 32 bits, as there: infinity runs over.
        return FieldConverter(
            "int32", lambda stored: (Texts.of_numbers(stored.as_dtype("<i4") + np.int32(UNIX_TO_POSTGRES_DAYS)), form.BARE), name
        )

    def time(self, column: Column, typmod: int) -> FieldConverter:
        if self.options.times == CONNECT:
            kind, name = "int32", "org.apache.kafka.connect.data.Time"
        elif self.options.times == ADAPTIVE and 0 <= typmod <= _MILLIS:
            kind, name = "int32", "io.debezium.time.Time"
        else:
            return FieldConverter(
                "int64", lambda stored: (Texts.of_numbers(stored.as_dtype("<i8")), form.BARE), "io.debezium.time.MicroTime"
            )
        return FieldConverter(kind, lambda stored: (Texts.of_numbers(stored.as_dtype("<i8") // 1000), form.BARE), name)

    def timestamp(self, column: Column, typmod: int) -> FieldConverter:
        in_millis = self.options.times == CONNECT or 0 <= typmod <= _MILLIS
        name = "io.debezium.time.Timestamp" if in_millis else "io.debezium.time.MicroTimestamp"

        def text_of(stored: Values) -> tuple[Texts, int]:
            micros = stored.as_dtype("<i8")
            unit = 1000 if in_millis else 1
            since_epoch = micros // unit + UNIX_TO_POSTGRES_USECS // unit  # in this order, or the latest of all would run over
            bounds = np.iinfo(np.int64)
            latest, earliest = (moment * 1000 // unit for moment in (_LATEST, _EARLIEST))
            since_epoch = np.where(micros == bounds.max, latest, np.where(micros == bounds.min, earliest, since_epoch))
            return Texts.of_numbers(since_epoch), form.BARE

        return FieldConverter(
            "int64", text_of, "org.apache.kafka.connect.data.Timestamp" if self.options.times == CONNECT else name
        )

    def timestamptz(self, column: Column, typmod: int) -> FieldConverter:
        style, digits = replace(self.style, date_style="ISO, MDY", time_zone="UTC"), typmod if typmod >= 0 else _MICROS

        def text_of(stored: Values) -> tuple[Texts, int]:
            return zoned_texts(printed(stored, column.live_type, style, self.codec), digits), form.STRING

        return FieldConverter("string", text_of, "io.debezium.time.ZonedTimestamp", fallback='"1970-01-01T00:00:00Z"')

    def timetz(self, column: Column, typmod: int) -> FieldConverter:
        def text_of(stored: Values) -> tuple[Texts, int]:
            of_day = printed(times_in_utc(stored), _TIME, self.style, self.codec)
            return Texts.joined(of_day, "Z", rows=len(stored)), form.STRING

        return FieldConverter("string", text_of, "io.debezium.time.ZonedTime", fallback='"00:00:00Z"')

    def interval(self, column: Column, typmod: int) -> FieldConverter:
        def text_of(stored: Values) -> tuple[Texts, int]:
            micros, days, months = interval_parts(stored)
            # In the order in which Debezium adds them up, in double precision as it does.
            minutes, rest = np.abs(micros) // 60_000_000, np.abs(micros) % 60_000_000
            sign = np.where(micros < 0, -1.0, 1.0)
            in_minutes = ((months * _MONTH_DAYS + days) * 24 + sign * (minutes // 60)) * 60 + sign * (minutes % 60)
            seconds = in_minutes * 60 + sign * (rest // 1_000_000)
            return Texts.of_numbers(_long(seconds * 1e6 + sign * (rest % 1_000_000))), form.BARE

        return FieldConverter("int64", text_of, "io.debezium.time.MicroDuration")


def _check_finite(texts: Texts, stored: Values, column: Column) -> None:
    """NaN and infinities become null, which a column that is not null cannot be."""
    special = np.flatnonzero(are_special(texts) & stored.valid)
    if len(special):
        raise UsageError(
            f'numeric value "{texts.to_list()[special[0]]}" of column "{column.name}", which is not null, has no form in bytes',
            hint="Choose decimal.handling.mode=double or string.",
            sqlstate="22003",
        )


def _long(numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    """As Java casts them: what does not fit becomes the nearest that does."""
    fits = np.abs(numbers) < 2.0**63
    bound = np.where(numbers > 0, np.iinfo(np.int64).max, np.iinfo(np.int64).min)
    return np.where(fits, np.where(fits, numbers, 0).astype(np.int64), bound)


def _hundredths(cents: NDArray[np.int64]) -> Texts:
    """With a point before the last two digits."""
    size = np.abs(cents).astype(np.uint64)
    rest = pc.utf8_lpad(Texts.of_numbers(size % np.uint64(100)).to_arrow(), 2, "0")
    sign = Texts.of_choices(("", "-"), (cents < 0).astype(np.int64), np.ones(len(cents), np.bool_))
    return Texts.joined(sign, size // np.uint64(100), ".", Texts.of_arrow(rest), rows=len(cents))


_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_PLAIN = {
    oids.BOOL: ("boolean", form.BOOLEAN), oids.INT2: ("int16", form.BARE), oids.INT4: ("int32", form.BARE),
    oids.INT8: ("int64", form.BARE), oids.OID: ("int64", form.BARE),
}  # fmt: skip
_FLOATS = {oids.FLOAT4: "float", oids.FLOAT8: "double"}
_NO_CENTS = '"AA=="'
_FALLBACKS = {
    "boolean": "false", "int16": "0", "int32": "0", "int64": "0", "float": "0.0", "double": "0.0", "bytes": '""', "string": '""',
}  # fmt: skip
_MADE: dict[int, Callable[[ValueConverters, Column, int], FieldConverter]] = {
    oids.NUMERIC: ValueConverters.numeric,
    oids.MONEY: ValueConverters.money,
    oids.BYTEA: ValueConverters.bytea,
    oids.BIT: ValueConverters.bits,
    oids.VARBIT: ValueConverters.bits,
    oids.DATE: ValueConverters.date,
    oids.TIME: ValueConverters.time,
    oids.TIMESTAMP: ValueConverters.timestamp,
    oids.TIMESTAMPTZ: ValueConverters.timestamptz,
    oids.TIMETZ: ValueConverters.timetz,
    oids.INTERVAL: ValueConverters.interval,
}
_NAMES = {
    "json": "io.debezium.data.Json", "jsonb": "io.debezium.data.Json", "xml": "io.debezium.data.Xml", "uuid": "io.debezium.data.Uuid",
    "ltree": "io.debezium.data.Ltree",
}  # fmt: skip
