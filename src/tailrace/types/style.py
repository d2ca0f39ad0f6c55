"""The settings of a session that change how PostgreSQL prints values (its GUCs of the same names)."""

from __future__ import annotations

from dataclasses import dataclass

from tailrace.errors import UsageError


@dataclass(frozen=True, slots=True)
class TextStyle:
    """How values look as text. The defaults are those of a fresh cluster, with TimeZone UTC."""

    date_style: str = "ISO, MDY"
    time_zone: str = "UTC"
    interval_style: str = "postgres"
    bytea_output: str = "hex"
    extra_float_digits: int = 1

    def __post_init__(self) -> None:
        if self.date_style.partition(",")[0].strip().upper() != "ISO":
            raise _refusal("DateStyle", self.date_style, "ISO")
        if self.interval_style != "postgres":
            raise _refusal("IntervalStyle", self.interval_style, "postgres")
        if self.bytea_output not in {"hex", "escape"}:
            raise _refusal("bytea_output", self.bytea_output, "hex, escape")
        if not 1 <= self.extra_float_digits <= 3:
            raise _refusal("extra_float_digits", str(self.extra_float_digits), "1, 2, 3 (all the same: shortest round trip)")

    @property
    def is_utc(self) -> bool:
        return self.time_zone.upper() in {"UTC", "GMT", "Z", "ETC/UTC", "ETC/GMT", "ZULU", "UCT", "UNIVERSAL"}


def _refusal(name: str, value: str, available: str) -> UsageError:
    return UsageError(f'invalid value for parameter "{name}": "{value}"', hint=f"Available values: {available}.")
