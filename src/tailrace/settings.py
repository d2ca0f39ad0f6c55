"""Values of options and of configuration parameters as PostgreSQL reads them.

In: what somebody wrote. Out: the value; or UsageError with PostgreSQL's words for it. It has two readers of Booleans:
`parse_bool` (`utils/adt/bool.c`) reads those of parameters, of storage options, of the type itself and of test_decoding's
options; `defGetBoolean` (`commands/define.c`) reads those of commands, of pgoutput's options and of a publication's.
"""

from __future__ import annotations

import re

from tailrace.errors import UsageError
from tailrace.majors import KILOBYTES, NEWEST, said_by
from tailrace.model import Lsn

WORK_MEM = 64 << 20
"""PostgreSQL's default of logical_decoding_work_mem, in bytes."""
_LEAST_WORK_MEM, _MOST_WORK_MEM = 64 << 10, (2**31 - 1) << 10
_BOOLEANS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
_KB = {"": 1, "kb": 1, "mb": 1 << 10, "gb": 1 << 20, "tb": 1 << 30}
_SPACES = " \t\n\v\f\r"


def parse_bool(text: str) -> bool | None:
    """Any unique prefix of true, false, yes, no, on, off, 1 and 0, in any case (`parse_bool_with_len`); None for anything
    else."""
    word = text.lower()
    meanings = {meaning for each, meaning in _BOOLEANS.items() if word and each.startswith(word)}
    return meanings.pop() if len(meanings) == 1 else None


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


def parse_int(text: str) -> int | None:
    """An integer as C writes it, or a fraction, which is rounded (`parse_int` in `utils/misc/guc.c`, without a unit); None for
    anything else."""
    digits = text.strip(_SPACES)
    if re.fullmatch(r"[+-]?0[0-7]+", digits):
        return int(digits, 8)
    if re.fullmatch(r"[+-]?(0[xX][0-9a-fA-F]+|\d+)", digits):
        return int(digits, 0)
    return round(float(digits)) if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", digits) else None


def parse_work_mem(value: str, major: int = NEWEST) -> int:
    """logical_decoding_work_mem in bytes: a number without a unit is one of kB (`utils/misc/guc.c`)."""
    match = re.fullmatch(r"\s*(\d+)\s*([kMGT]B|B)?\s*", value)
    if match is None:
        has_unit = re.match(r"\s*\d", value) is not None
        hint = 'Valid units for this parameter are "B", "kB", "MB", "GB", and "TB".' if has_unit else ""
        raise UsageError(f'invalid value for parameter "logical_decoding_work_mem": "{value}"', hint=hint, sqlstate="22023")
    size = int(match[1]) if match[2] == "B" else int(match[1]) * _KB[(match[2] or "").lower()] << 10
    if size > _MOST_WORK_MEM:
        message = f'invalid value for parameter "logical_decoding_work_mem": "{value}"'
        raise UsageError(message, hint="Value exceeds integer range.", sqlstate="22023")
    if size < _LEAST_WORK_MEM:
        unit = said_by(major, KILOBYTES)
        bounds = f'the valid range for parameter "logical_decoding_work_mem" (64{unit} .. 2147483647{unit})'
        raise UsageError(f"{size >> 10} kB is outside {bounds}", sqlstate="22023")
    return size
