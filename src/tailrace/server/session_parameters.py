"""Parameters of a client's session: those that change how values look (`sql.parameters`), and what else a server's client sets or asks for
(`utils/misc/guc.c`, `guc_tables.c`).

What has no meaning here is kept and shown, and nothing else is done: timeouts of statements, planner settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.server.client_text import clean_ascii
from tailrace.settings import parse_bool
from tailrace.sql.parameters import Parameters
from tailrace.types.style import spelled_encoding
from tailrace.wire.messages import ParameterStatus

_KEPT = {
    "application_name": "", "client_min_messages": "notice", "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off", "idle_in_transaction_session_timeout": "0", "idle_session_timeout": "0",
    "jit": "off", "lock_timeout": "0", "row_security": "on", "standard_conforming_strings": "on", "statement_timeout": "0",
    "synchronous_commit": "on", "transaction_isolation": "read committed", "transaction_read_only": "off",
    "wal_sender_timeout": "1min", "geqo": "on", "enable_seqscan": "on", "backslash_quote": "safe_encoding",
    "tcp_keepalives_idle": "0", "transaction_timeout": "0", "session_replication_role": "origin",
    "lc_messages": "C", "lc_monetary": "C", "lc_numeric": "C", "lc_time": "C",
}  # fmt: skip
_SHOWN_ONLY = (
    "server_version", "server_version_num", "server_encoding", "integer_datetimes", "in_hot_standby", "is_superuser",
    "session_authorization", "wal_level", "wal_segment_size", "data_directory_mode", "max_wal_senders", "max_replication_slots",
    "max_connections", "block_size", "wal_block_size", "max_identifier_length", "max_index_keys", "scram_iterations", "ssl", "port",
    "synchronous_standby_names",
)  # fmt: skip
_REPORTED = (
    "in_hot_standby", "integer_datetimes", "TimeZone", "IntervalStyle", "is_superuser", "application_name",
    "default_transaction_read_only", "DateStyle", "standard_conforming_strings", "session_authorization", "client_encoding",
    "server_version", "server_encoding",
)  # fmt: skip
"""GUC_REPORT, of which clients are told at once and whenever it changes."""
_MILLISECONDS = {"us": 0.001, "ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "": 1}


@dataclass(slots=True)
class SessionParameters:
    """`of_text` are those of `sql.parameters`; `fixed` are the server's own. `sender_timeout` is wal_sender_timeout in seconds."""

    fixed: Mapping[str, str]
    sender_timeout: float
    of_text: Parameters = field(default_factory=Parameters)
    kept: dict[str, str] = field(default_factory=lambda: dict(_KEPT))
    _told: dict[str, str] = field(default_factory=dict)

    def set(self, name: str, value: str | None, major: int) -> None:
        """One of them; None: its default. Raises UsageError (42704, 22023, 55P02)."""
        key = name.lower()
        if key == "session_authorization" and value is None:
            return
        if key in _SHOWN_ONLY:
            raise UsageError(f'parameter "{key}" cannot be changed', sqlstate="55P02")
        if key == "client_encoding" and value is not None:
            _check_encoding(value)
        if key not in self.kept:
            self.of_text = self.of_text.under(name, value, major)
            return
        if key == "wal_sender_timeout":
            self.sender_timeout = _seconds(key, value) if value is not None else self.sender_timeout
        if key in ("default_transaction_read_only", "standard_conforming_strings") and value is not None:
            meaning = parse_bool(value)
            if meaning is None:
                raise UsageError(f'parameter "{key}" requires a Boolean value', sqlstate="22023")
            value = "on" if meaning else "off"
        if key == "application_name" and value is not None:
            value = clean_ascii(value)
        self.kept[key] = _KEPT[key] if value is None else value

    def show(self, name: str) -> tuple[str, str]:
        """The parameter's own spelling, and its value. Raises UsageError (42704)."""
        key = name.lower()
        if key in self.fixed:
            return key, self.fixed[key]
        if key in self.kept:
            return key, self.kept[key]
        return self.of_text.shown(name)

    def all(self) -> list[tuple[str, str]]:
        """What SHOW ALL shows: all that there is here."""
        names = [
            *self.fixed,
            *self.kept,
            "DateStyle",
            "TimeZone",
            "IntervalStyle",
            "bytea_output",
            "extra_float_digits",
            "search_path",
        ]
        return sorted((self.show(name) for name in names), key=lambda pair: pair[0].lower())

    def news(self) -> list[ParameterStatus]:
        """What the client has not been told of, or was told otherwise."""
        now = dict(self.show(name) for name in _REPORTED)
        news = [ParameterStatus(name, value) for name, value in now.items() if self._told.get(name) != value]
        self._told = now
        return news


def _check_encoding(value: str) -> None:
    if spelled_encoding(value) not in ("UTF8", "SQL_ASCII"):
        raise UsageError(
            f'invalid value for parameter "client_encoding": "{value}"',
            detail=f"Conversion between {value} and UTF8 is not supported.", sqlstate="22023",
        )  # fmt: skip


def _seconds(name: str, value: str) -> float:
    """A time; a number without a unit is one of milliseconds."""
    digits = value.strip().rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = value.strip()[len(digits) :].strip()
    try:
        return float(digits) * _MILLISECONDS[unit] / 1000
    except (KeyError, ValueError):
        raise UsageError(
            f'invalid value for parameter "{name}": "{value}"', sqlstate="22023",
            hint='Valid units for this parameter are "us", "ms", "s", "min", "h", and "d".',
        ) from None  # fmt: skip


def options_of(text: str) -> list[tuple[str, str]]:
    """`-c name=value` and `--name=value`, parted by space that has no backslash before it (`pg_split_opts`, `process_postgres_switches`)."""
    words, word, is_escaped = [], "", False
    for letter in text + " ":
        if is_escaped or (letter != "\\" and not letter.isspace()):
            word, is_escaped = word + letter, False
        elif letter == "\\":
            is_escaped = True
        elif word:
            words.append(word)
            word = ""
    pairs, rest = [], iter(words)
    for each in rest:
        given = next(rest, "") if each == "-c" else each.removeprefix("-c") if each.startswith("-c") else each.removeprefix("--")
        name, equals, value = given.partition("=")
        if given == each or not equals:
            raise UsageError(f"invalid command-line argument for server process: {each}", sqlstate="42601")
        pairs.append((name.replace("-", "_"), value))
    return pairs
