"""DebeziumOptions by the names of Debezium's properties, with its defaults; what differs from it says docs/guides/json.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.settings import bool_option

PRECISE, DOUBLE, STRING = "precise", "double", "string"
ADAPTIVE, MICROSECONDS, CONNECT = "adaptive", "adaptive_time_microseconds", "connect"
BYTES, BASE64, HEX = "bytes", "base64", "hex"

_WORDS = {
    "decimal.handling.mode": ("decimals", (PRECISE, DOUBLE, STRING)),
    "time.precision.mode": ("times", (ADAPTIVE, MICROSECONDS, CONNECT)),
    "binary.handling.mode": ("binaries", (BYTES, BASE64, HEX)),
    "interval.handling.mode": ("intervals", ("numeric", "string")),
}
_OPERATIONS = {"c": "c", "u": "u", "d": "d", "t": "t"}
_REFUSED = {
    "interval.handling.mode": ("string", "Intervals are numbers of microseconds."),
    "tombstones.on.delete": (True, "A tombstone is a key without a value, and rows have no keys here."),
    "provide.transaction.metadata": (True, "Events of a transaction are not counted; their order is that of the rows."),
}
"""What is not supported, and why."""


@dataclass(frozen=True, slots=True)
class DebeziumOptions:
    """`skipped` are operations (c u d t) that are not written."""

    topic_prefix: str = "tailrace"
    with_schemas: bool = False
    decimals: str = PRECISE
    times: str = ADAPTIVE
    binaries: str = BYTES
    unavailable: str = "__debezium_unavailable_value"
    skipped: frozenset[str] = field(default=frozenset("t"))


def parse_options(options: Mapping[str, str | None]) -> DebeziumOptions:
    """Raises UsageError for names and values that are none, or not supported."""
    given: dict[str, object] = {}
    for name, value in options.items():
        if name in ("tombstones.on.delete", "provide.transaction.metadata"):
            _check_supported(name, bool_option(name, value))
        elif name == "schemas.enable":
            given["with_schemas"] = bool_option(name, value)
        elif name == "skipped.operations":
            given["skipped"] = _skipped(name, value or "")
        elif name in _WORDS:
            attribute, words = _WORDS[name]
            if value not in words:
                hint = f"It is one of {', '.join(words)}."
                raise UsageError(f'could not parse value "{value}" for parameter "{name}"', hint=hint, sqlstate="22023")
            _check_supported(name, value)
            given[attribute] = value
        elif name in ("topic.prefix", "unavailable.value.placeholder") and value:
            given["topic_prefix" if name == "topic.prefix" else "unavailable"] = value
        else:
            raise UsageError(f'option "{name}" = "{value if value is not None else "(null)"}" is unknown', sqlstate="22023")
    given.pop("intervals", None)
    return DebeziumOptions(**given)  # type: ignore[arg-type]


def _check_supported(name: str, value: object) -> None:
    if name in _REFUSED and _REFUSED[name][0] == value:
        raise UsageError(f"{name}={str(value).lower()} is not supported", hint=_REFUSED[name][1], sqlstate="0A000")


def _skipped(name: str, value: str) -> frozenset[str]:
    items = [item.strip() for item in value.split(",")]
    if items == ["none"]:
        return frozenset()
    if wrong := [item for item in items if item not in _OPERATIONS]:
        hint = "It is a list of c, u, d and t, or none."
        raise UsageError(f'could not parse value "{wrong[0]}" for parameter "{name}"', hint=hint, sqlstate="22023")
    return frozenset(items)


MEANINGS = {
    "topic.prefix": "the name of the source, and what names of schemas begin with (tailrace)",
    "schemas.enable": "beside each payload its Kafka Connect schema, as Connect's JSON converter writes it (off; the converter's default is on)",
    "decimal.handling.mode": "numeric and money as bytes in base64 (precise), double or string (precise)",
    "time.precision.mode": "adaptive, adaptive_time_microseconds or connect (adaptive)",
    "binary.handling.mode": "bytea and contents of messages as base64 (bytes, base64) or hex (bytes)",
    "interval.handling.mode": "numeric: microseconds; string is refused",
    "unavailable.value.placeholder": "what stands for a TOASTed value that the log does not have (__debezium_unavailable_value)",
    "skipped.operations": "of c, u, d, t those that are not told, or none (t)",
    "tombstones.on.delete, provide.transaction.metadata": "off; on is refused",
}
"""For the reference."""
