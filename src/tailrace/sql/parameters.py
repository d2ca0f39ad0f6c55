"""Parameters of a session: SET, RESET and SHOW of what changes how values are printed, and of tailrace.as_of (`utils/misc/guc.c`).

In: names and values. Out: `Parameters`, which are never changed, only replaced.
"""

from __future__ import annotations

from dataclasses import replace

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.majors import NEWEST, PARAMETERS_SPELLED_AS_DEFINED, supports
from tailrace.model import Lsn
from tailrace.settings import Integer, parse_lsn, parse_work_mem, read_integer, show_integer
from tailrace.types.style import PARAMETERS, TextStyle, check_interval_style, read_date_style
from tailrace.types.times.zones import zone_of

AS_OF = "tailrace.as_of"
_WORK_MEM = "logical_decoding_work_mem"
_FLOAT_DIGITS = Integer(-15, 3)
_SHOWN = {
    "datestyle": "DateStyle", "timezone": "TimeZone", "intervalstyle": "IntervalStyle", "bytea_output": "bytea_output",
    "extra_float_digits": "extra_float_digits", "search_path": "search_path", "role": "role", "client_encoding": "client_encoding",
    "tailrace.collation_mismatch": "tailrace.collation_mismatch",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Parameters:
    """`style` is what values look like; `as_of` the moment of the catalogs, None: where the log ends."""

    style: TextStyle = TextStyle()
    as_of: Lsn | None = None
    work_mem: str = ""

    def knows(self, name: str) -> bool:
        return name.lower() in (*PARAMETERS, AS_OF, _WORK_MEM)

    def under(self, name: str, value: str | None, major: int = NEWEST) -> Parameters:
        """With a parameter set, or with None as it is by default. Raises UsageError in the words of this major."""
        if value is None:
            return self.reset(name, Parameters())
        name = self.shown(name)[0] if supports(major, PARAMETERS_SPELLED_AS_DEFINED) else name
        key = name.lower()
        if key == AS_OF:
            return replace(self, as_of=parse_lsn(value) if value else None)
        if key == _WORK_MEM:
            return replace(self, work_mem=show_integer(parse_work_mem(value, major) >> 10, "kB"))
        if key not in PARAMETERS:
            raise UsageError(f'unrecognized configuration parameter "{name}"', sqlstate="42704")
        if key == "datestyle":
            value = _date_style(self.style.date_style, value)
        if key == "intervalstyle":
            check_interval_style(value, name)
        if key == "extra_float_digits":
            value = str(read_integer(name, value, _FLOAT_DIGITS, major))
        return replace(self, style=_checked(self.style.under({key: value}), key))

    def reset(self, name: str, to: Parameters) -> Parameters:
        """With a parameter as `to` has it. Raises UsageError (42704)."""
        key = self.shown(name)[0].lower()
        if key == AS_OF:
            return replace(self, as_of=to.as_of)
        if key == _WORK_MEM:
            return replace(self, work_mem=to.work_mem)
        return replace(self, style=replace(self.style, **{PARAMETERS[key]: getattr(to.style, PARAMETERS[key])}))

    def reset_all(self, to: Parameters) -> Parameters:
        """As `to`, but for the role (GUC_NO_RESET_ALL)."""
        return replace(to, style=replace(to.style, role=self.style.role))

    def shown(self, name: str) -> tuple[str, str]:
        """The parameter's own spelling, and what SHOW prints."""
        key = name.lower()
        if key == AS_OF:
            return AS_OF, "" if self.as_of is None else str(self.as_of)
        if key == _WORK_MEM:
            return _WORK_MEM, self.work_mem or "64MB"
        if key not in PARAMETERS:
            raise UsageError(f'unrecognized configuration parameter "{name}"', sqlstate="42704")
        value = str(getattr(self.style, PARAMETERS[key]))
        return _SHOWN[key], (value or "none") if key == "role" else value

    @property
    def of_plugin(self) -> dict[str, str]:
        """As `DecodingContext.set_parameters` takes them."""
        values = {name: str(getattr(self.style, field)) for name, field in PARAMETERS.items()}
        return values | ({_WORK_MEM: self.work_mem} if self.work_mem else {})


def _checked(style: TextStyle, key: str) -> TextStyle:
    """A zone that does not exist would be found out by who prints a time."""
    if key == "timezone":
        try:
            zone_of(style.time_zone)
        except UsageError:
            message = f'invalid value for parameter "TimeZone": "{style.time_zone}"'
            raise UsageError(message, sqlstate="22023") from None
    return style


def _date_style(before: str, value: str) -> str:
    """What is not named stays as it was."""
    form, order = read_date_style(before)
    words = [word.strip().lower() for word in value.split(",")]
    named = read_date_style(value)
    orders = ("ymd", "dmy", "mdy", "us", "euro", "noneuro", "german")
    has_order = any(word.startswith(orders) for word in words)
    has_form = any(word.startswith(("iso", "sql", "postgres", "german")) for word in words)
    return f"{named[0] if has_form else form}, {named[1] if has_order else order}"
