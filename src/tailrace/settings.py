"""Values of options and of configuration parameters as PostgreSQL reads them.

In: what somebody wrote. Out: the value; or UsageError with PostgreSQL's words for it. It has two readers of Booleans:
`parse_bool` (`utils/adt/bool.c`) reads those of parameters, of storage options, of the type itself and of test_decoding's
options; `defGetBoolean` (`commands/define.c`) reads those of commands, of pgoutput's options and of a publication's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.majors import BOUNDS_WITH_UNITS, NEWEST, supports
from tailrace.model import Lsn

WORK_MEM = 64 << 20
"""PostgreSQL's default of logical_decoding_work_mem, in bytes."""
_INT_MAX, _HUGE = 2**31 - 1, 1e18
_BOOLEANS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
_SPACES = " \t\n\v\f\r"
_C_INTEGER = re.compile(r"[+-]?(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)")
_C_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_PLACEHOLDER = re.compile(r"%(.?)", re.DOTALL)
_UNITS: Mapping[str, Mapping[str, float]] = {
    "ms": {"d": 86_400_000, "h": 3_600_000, "min": 60_000, "s": 1000, "ms": 1, "us": 1 / 1000},
    "s": {"d": 86_400, "h": 3600, "min": 60, "s": 1, "ms": 1 / 1000, "us": 1 / 1_000_000},
    "B": {"TB": 1 << 40, "GB": 1 << 30, "MB": 1 << 20, "kB": 1 << 10, "B": 1},
    "kB": {"TB": 1 << 30, "GB": 1 << 20, "MB": 1 << 10, "kB": 1, "B": 1 / 1024},
}
"""For the unit that a parameter is kept in, how much of it the units are that its values may be written in; the largest comes first."""


def parse_bool(text: str) -> bool | None:
    """Any unique prefix of true, false, yes, no, on, off, 1 and 0, in any case (`parse_bool_with_len`); None for anything
    else."""
    word = text.lower()
    meanings = {meaning for each, meaning in _BOOLEANS.items() if word and each.startswith(word)}
    return meanings.pop() if len(meanings) == 1 else None


def replace_percent_placeholders(name: str, text: str, values: Mapping[str, str]) -> str:
    """The value of a parameter that is a command, with what stands for its placeholders (`common/percentrepl.c`). Raises UsageError for others."""

    def replaced(match: re.Match[str]) -> str:
        if match[1] == "%":
            return "%"
        if match[1] in values:
            return values[match[1]]
        detail = (
            f'String contains unexpected placeholder "%{match[1]}".'
            if match[1]
            else 'String ends unexpectedly after escape character "%".'
        )
        raise UsageError(f'invalid value for parameter "{name}": "{text}"', detail=detail)

    return _PLACEHOLDER.sub(replaced, text)


def bool_option(name: str, value: str | None) -> bool:
    """The Boolean option of an output plugin that reads it with `parse_bool`, as test_decoding does; without a value it is
    true."""
    meaning = True if value is None else parse_bool(value.strip())
    if meaning is None:
        raise UsageError(f'could not parse value "{value}" for parameter "{name}"', sqlstate="22023")
    return meaning


def def_get_boolean(name: str, value: str | int | None, values: str = "a Boolean value") -> bool:
    """The Boolean option of a command; without a value it is true. `values` are those that an error says it takes."""
    if value is None:
        return True
    if value in (0, 1) and isinstance(value, int):
        return bool(value)
    if isinstance(value, str) and value.lower() in ("true", "on", "false", "off"):
        return value.lower() in ("true", "on")
    raise UsageError(f"{name} requires {values}", sqlstate="42601")


def parse_lsn(text: str) -> Lsn:
    """A position in the log (`pg_lsn_in`). Raises UsageError (22P02)."""
    try:
        return Lsn.parse(text)
    except ValueError as error:
        raise UsageError(str(error), sqlstate="22P02") from None


# -- integers, as parameters have them -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Integer:
    """What an integer parameter can be, in its unit: that of a number without one. Without a unit it takes none."""

    least: int
    most: int = _INT_MAX
    unit: str = ""


_WORK_MEM = Integer(64, unit="kB")


def parse_int(text: str) -> int | None:
    """An integer as C writes it, or a fraction, which is rounded, without a unit (`parse_int` in `utils/misc/guc.c`); None for anything else."""
    return _integer(text, {})[0]


def read_integer(name: str, value: str, kind: Integer, major: int = NEWEST) -> int:
    """The value of a parameter, in its unit. Raises UsageError (22023) in the words of this major (`parse_and_validate_value`)."""
    number, hint = _integer(value, _UNITS.get(kind.unit, {}))
    if number is None:
        raise UsageError(f'invalid value for parameter "{name}": "{value}"', hint=hint, sqlstate="22023")
    if not kind.least <= number <= kind.most:
        found, *bounds = (f"{each} {kind.unit}".rstrip() for each in (number, kind.least, kind.most))
        least, most = bounds if supports(major, BOUNDS_WITH_UNITS) else (kind.least, kind.most)
        raise UsageError(f'{found} is outside the valid range for parameter "{name}" ({least} .. {most})', sqlstate="22023")
    return number


def show_integer(number: int, unit: str) -> str:
    """In the largest unit of which it is a whole number, as SHOW prints it (`convert_int_from_base_unit`)."""
    if not unit or number <= 0:
        return str(number)
    shown, size = next((each, int(size)) for each, size in _UNITS[unit].items() if size <= 1 or number % size == 0)
    return f"{number // size}{shown}"


def _integer(text: str, units: Mapping[str, float]) -> tuple[int | None, str]:
    """The integer that is written, or None and a hint. A fraction of a unit is rounded to whole ones of the next smaller unit."""
    number, unit = _number(text.lstrip(_SPACES))
    if number is None or (unit and not units):
        return None, ""
    if unit and unit not in units:
        *most, last = [f'"{each}"' for each in units][::-1]
        return None, f"Valid units for this parameter are {', '.join(most)}, and {last}."
    if unit:
        number *= units[unit]
        smaller = next((size for size in units.values() if size < units[unit]), None)
        number = number if smaller is None else round(number / smaller) * smaller
    if not -_INT_MAX - 1 <= round(number) <= _INT_MAX:
        return None, "Value exceeds integer range."
    return round(number), ""


def _number(text: str) -> tuple[float | None, str]:
    """The number that a text begins with (`strtol`, and `strtod` where that stops at a point or an e, or has no room), and what stands behind."""
    found = _C_INTEGER.match(text)
    if found and text[found.end() : found.end() + 1] not in (".", "e", "E"):
        number = _whole(found[0])
    else:
        found = _C_FLOAT.match(text)
        if found is None:
            return None, ""
        number = float(found[0])
    if math.isinf(number):
        return None, ""
    return max(-_HUGE, min(number, _HUGE)), text[found.end() :].strip(_SPACES)


def _whole(digits: str) -> float:
    """An integer as C writes it; infinity for one that is beyond all numbers. Python's `int` reads no thousands of decimal digits."""
    unsigned = digits.lstrip("+-")
    base = 16 if unsigned[1:2] in ("x", "X") else 8 if unsigned[0] == "0" else 10
    try:
        return float(digits) if base == 10 else float(int(digits, base))
    except OverflowError:
        return math.inf


def parse_work_mem(value: str, major: int = NEWEST) -> int:
    """logical_decoding_work_mem in bytes: a number without a unit is one of kB."""
    return read_integer("logical_decoding_work_mem", value, _WORK_MEM, major) << 10
