"""The settings of a session that change how PostgreSQL prints values (its GUCs of the same names), and what a printer may ask. The search path
decides which names have their schema in front: types behind the names of columns, and what regclass and its kin print.

`names` is the one thing that values do not hold: the name behind the oid of a regclass, of a role in an aclitem and their like.
Who prints may pass a function (reg type's oid, oid) -> the name as that type's output function prints it, or None; this stage
never reads a catalog. It must survive pickling where printing happens in other processes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.majors import NEWEST
from tailrace.types.quoting import split_identifiers

if TYPE_CHECKING:  # the command line checks parameters before it loads what values are kept in
    from tailrace.types.values import Texts

_USER = "$user"
_CATALOG = "pg_catalog"
_TEMPORARY = "pg_temp"
DEFAULT_SEARCH_PATH = '"$user", public'
NameOf = Callable[[int, int], str | None]
ToClient = Callable[["Texts"], "Texts"]

_FORMS = {"iso": "ISO", "sql": "SQL", "german": "German"}
_ORDERS = {"ymd": "YMD", "dmy": "DMY", "mdy": "MDY", "us": "MDY"}
PARAMETERS = {
    "datestyle": "date_style", "timezone": "time_zone", "intervalstyle": "interval_style", "bytea_output": "bytea_output",
    "extra_float_digits": "extra_float_digits", "search_path": "search_path", "role": "role",
    "client_encoding": "client_encoding", "tailrace.collation_mismatch": "collation_mismatch",
}  # fmt: skip
"""PostgreSQL's parameters, in lower case as it compares them, and one of ours -> our fields."""
_SPELLED = {"UTF8": "UTF8", "UNICODE": "UTF8", "SQLASCII": "SQL_ASCII"}
_ENCODINGS = ("UTF8", "SQL_ASCII")
_INTERVALS = ("postgres", "postgres_verbose", "sql_standard", "iso_8601")
_UTC_NAMES = frozenset({"UTC", "GMT", "ETC/UTC", "ETC/GMT", "ZULU", "UCT", "UNIVERSAL"})


def spelled_encoding(name: str) -> str:
    """An encoding that a client may have, as PostgreSQL spells it: letters and digits alone count (`clean_encoding_name`). Another stays as it is."""
    return _SPELLED.get("".join(letter for letter in name.upper() if letter.isalnum()), name)


@dataclass(frozen=True, slots=True)
class TextStyle:
    """How values look as text. The defaults are those of a fresh cluster, with TimeZone UTC.

    `major` is the server whose output functions are imitated, where majors differ. `unknown_types` says what becomes of a type
    that no codec reads: `error`, or `hex`, which prints the stored bytes as bytea would. `search_path` decides which names are
    printed with their schema; `role` is whom "$user" in it stands for. `client_encoding` is UTF8, or SQL_ASCII: then the text of a database that does
    not know what its bytes mean (SQL_ASCII) is not checked. `to_client` converts the characters that are in binary forms, whose
    lengths are counted there (`pq_sendtext`); None leaves them in the database's encoding. `collation_mismatch` is no matter of text: whether a row
    filter is an `error` where this machine's locales are not those that the catalogs recorded, or they are taken (`ignore`).
    """

    date_style: str = "ISO, MDY"
    time_zone: str = "UTC"
    interval_style: str = "postgres"
    bytea_output: str = "hex"
    extra_float_digits: int = 1
    search_path: str = DEFAULT_SEARCH_PATH
    role: str = ""
    client_encoding: str = "UTF8"
    collation_mismatch: str = "error"
    major: int = NEWEST
    names: NameOf | None = field(default=None, compare=False)
    to_client: ToClient | None = field(default=None, compare=False)
    unknown_types: str = "error"

    def __post_init__(self) -> None:
        read_date_style(self.date_style)
        read_search_path(self.search_path)
        check_interval_style(self.interval_style)
        if self.bytea_output not in {"hex", "escape"}:
            raise _refusal("bytea_output", self.bytea_output, "escape, hex")
        if not -15 <= self.extra_float_digits <= 3:
            raise UsageError(
                f'{self.extra_float_digits} is outside the valid range for parameter "extra_float_digits" (-15 .. 3)',
                sqlstate="22023",
            )
        if self.client_encoding not in _ENCODINGS:
            raise _refusal("client_encoding", self.client_encoding, ", ".join(_ENCODINGS))
        if self.collation_mismatch not in {"error", "ignore"}:
            raise _refusal("tailrace.collation_mismatch", self.collation_mismatch, "error, ignore")
        if self.unknown_types not in {"error", "hex"}:
            raise _refusal("unknown_types", self.unknown_types, "error, hex")

    def under(self, parameters: Mapping[str, str]) -> TextStyle:
        """The same with these parameters set. Raises UsageError, in PostgreSQL's words, for names and values that are none."""
        values: dict[str, str | int] = {}
        for name, value in parameters.items():
            field_name = PARAMETERS.get(name.lower())
            if field_name is None:
                hint = f"The text of values depends on {', '.join(PARAMETERS)}."
                raise UsageError(f'unrecognized configuration parameter "{name}"', hint=hint, sqlstate="42704")
            try:
                values[field_name] = int(value) if field_name == "extra_float_digits" else value
                if field_name == "client_encoding":
                    values[field_name] = spelled_encoding(value)
            except ValueError:
                raise UsageError(f'invalid value for parameter "{name}": "{value}"', sqlstate="22023") from None
        return replace(self, **values)  # type: ignore[arg-type]

    @property
    def reads_utf8(self) -> bool:
        """Whether bytes that are no UTF-8 are refused."""
        return self.client_encoding == "UTF8"

    @property
    def schemas(self) -> tuple[str, ...]:
        """The search path, in order."""
        return read_search_path(self.search_path, self.role)

    @property
    def date_form(self) -> str:
        """ISO, SQL, Postgres or German."""
        return read_date_style(self.date_style)[0]

    @property
    def day_first(self) -> bool:
        """Whether SQL and Postgres dates put the day before the month."""
        return read_date_style(self.date_style)[1] == "DMY"

    @property
    def is_utc(self) -> bool:
        return self.time_zone.upper() in _UTC_NAMES

    def name_of(self, reg_type: int, oid: int) -> str | None:
        """What the reg type prints for the oid, if anybody knows."""
        return None if self.names is None else self.names(reg_type, oid)


@lru_cache(maxsize=64)
def read_date_style(text: str) -> tuple[str, str]:
    """The form and the order of the fields that a DateStyle names; what it does not name is ISO and MDY, for German DMY."""
    forms: list[str] = []
    orders: list[str] = []
    for word in text.lower().split(","):
        key = word.strip()
        if key in _FORMS:
            forms.append(_FORMS[key])
        elif key.startswith("postgres"):
            forms.append("Postgres")
        elif key in _ORDERS:
            orders.append(_ORDERS[key])
        elif key.startswith(("euro", "noneuro")):
            orders.append("DMY" if key.startswith("euro") else "MDY")
        elif key != "default":
            raise UsageError(f'invalid value for parameter "DateStyle": "{text}"', detail=f'Unrecognized key word: "{key}".')
    if len(set(forms)) > 1 or len(set(orders)) > 1:
        raise _refusal("DateStyle", text, "one form and one order, such as ISO, MDY")
    form = forms[0] if forms else "ISO"
    return form, orders[0] if orders else ("DMY" if form == "German" else "MDY")


def check_interval_style(value: str, name: str = "IntervalStyle") -> None:
    """Raise UsageError, which spells the parameter as `name`, unless it can have this value."""
    if value.lower() not in _INTERVALS:
        raise _refusal(name, value, ", ".join(_INTERVALS))


def _refusal(name: str, value: str, available: str) -> UsageError:
    return UsageError(f'invalid value for parameter "{name}": "{value}"', hint=f"Available values: {available}.")


def read_search_path(setting: str, role: str = "") -> tuple[str, ...]:
    """The schemas of a setting, in order. "$user" stands for `role`, if there is one; pg_catalog comes first where it is not named
    (`catalog/namespace.c`). Whoever reads the log has no temporary schema. Raises UsageError for what is no list of names."""
    names = split_identifiers(setting)
    if names is None:
        raise UsageError(
            f'invalid value for parameter "search_path": "{setting}"', hint="List syntax is invalid.", sqlstate="22023"
        )
    path = [role if name == _USER else name for name in names if name != _TEMPORARY]
    return tuple(dict.fromkeys(name for name in (path if _CATALOG in path else [_CATALOG, *path]) if name))


SEARCH_PATH = read_search_path(DEFAULT_SEARCH_PATH)
