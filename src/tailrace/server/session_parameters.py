"""Parameters of a client's session: those that change how values look (`sql.parameters`), and what else a server's client sets or asks for
(`utils/misc/guc.c`, `guc_tables.c`).

What has no meaning here is kept and shown, and nothing else is done (`kept_parameters`): timeouts of locks, planner settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.majors import (
    PARAMETERS_SPELLED_AS_DEFINED,
    SCRAM_ITERATIONS,
    SEARCH_PATH_REPORTED,
    TRANSACTION_NOT_RESET,
    supports,
)
from tailrace.server.kept_parameters import KEPT, OF_TRANSACTION, TIMEOUT
from tailrace.server.parameter_facts import ParameterFacts, parameter_facts
from tailrace.settings import Integer, read_integer
from tailrace.sql.parameters import Parameters
from tailrace.types.style import spelled_encoding
from tailrace.wire.messages import ParameterStatus

_SHOWN_ONLY = (
    "server_version", "server_version_num", "server_encoding", "integer_datetimes", "in_hot_standby", "is_superuser",
    "session_authorization", "wal_level", "wal_segment_size", "data_directory_mode", "max_wal_senders", "max_replication_slots",
    "max_connections", "block_size", "wal_block_size", "max_identifier_length", "max_index_keys", "scram_iterations", "ssl", "port",
    "synchronous_standby_names",
)  # fmt: skip
_NOT_SHOWN = ("is_superuser", "session_authorization")
"""GUC_NO_SHOW_ALL."""
_REPORTED = (
    "in_hot_standby", "integer_datetimes", "TimeZone", "IntervalStyle", "is_superuser", "application_name",
    "default_transaction_read_only", "DateStyle", "standard_conforming_strings", "session_authorization", "client_encoding",
    "server_version", "server_encoding",
)  # fmt: skip
"""GUC_REPORT, of which clients are told at once and whenever it changes."""
_OF_TEXT = (
    "DateStyle", "TimeZone", "IntervalStyle", "bytea_output", "extra_float_digits", "search_path", "client_encoding",
    "logical_decoding_work_mem",
)  # fmt: skip
KNOWN = frozenset({*KEPT, *_SHOWN_ONLY, *_OF_TEXT})
"""All that there are in one major or another."""
_REPORTED_SINCE = {"scram_iterations": SCRAM_ITERATIONS, "search_path": SEARCH_PATH_REPORTED}


@dataclass(slots=True)
class SessionParameters:
    """`of_text` are those of `sql.parameters`, `kept` those that mean nothing here; `fixed` are the server's own. Those that its major has not are
    left out. State: what they are, what they were when the session had started, to which RESET goes back (`reset_val`), and what the client has
    been told."""

    fixed: Mapping[str, str]
    major: int
    of_text: Parameters = field(default_factory=Parameters)
    kept: Mapping[str, str] = field(default_factory=lambda: {name: value for name, (value, _) in KEPT.items()})
    _of_text_at_start: Parameters = field(default_factory=Parameters)
    _kept_at_start: Mapping[str, str] = field(default_factory=dict)
    _told: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = parameter_facts(self.major)
        self.kept = {name: value for name, value in self.kept.items() if name in known}
        self.fixed = {name: value for name, value in self.fixed.items() if name in known or name in _NOT_SHOWN}
        self.started()

    def started(self) -> None:
        """All that the client has asked for in its startup packet is set: what there is now is the session's default (PGC_S_CLIENT)."""
        self._of_text_at_start, self._kept_at_start = self.of_text, self.kept

    def set(self, name: str, value: str | None) -> None:
        """One of them; None: as it was when the session had started. Raises UsageError (42704, 22023, 55P02, 0A000)."""
        key = name.lower()
        if key == "session_authorization" and value is None:
            return
        if key in _SHOWN_ONLY and (key in _NOT_SHOWN or key in parameter_facts(self.major)):
            raise UsageError(f'parameter "{key}" cannot be changed', sqlstate="55P02")
        if key == "client_encoding" and value is not None:
            _check_encoding(value)
        if key in self.kept:
            self.kept = {**self.kept, key: self._of_start(key) if value is None else self._read(name, value)}
        elif value is None:
            self.of_text = self.of_text.reset(name, self._of_text_at_start)
        else:
            self.of_text = self.of_text.under(name, value, self.major)

    def _of_start(self, key: str) -> str:
        if key in OF_TRANSACTION and supports(self.major, TRANSACTION_NOT_RESET):
            raise UsageError(f'parameter "{key}" cannot be reset', sqlstate="0A000")
        return self._kept_at_start[key]

    def _read(self, name: str, value: str) -> str:
        key = name.lower()
        return KEPT[key][1](key if supports(self.major, PARAMETERS_SPELLED_AS_DEFINED) else name, value, self.major)

    def reset_all(self) -> None:
        """All as they were when the session had started, but for those that belong to a transaction, and the role."""
        self.of_text = self.of_text.reset_all(self._of_text_at_start)
        self.kept = {**self._kept_at_start, **{name: self.kept[name] for name in OF_TRANSACTION}}

    @property
    def sender_timeout(self) -> float:
        """wal_sender_timeout in seconds; 0: none."""
        return read_integer("wal_sender_timeout", self.kept["wal_sender_timeout"], TIMEOUT) / 1000

    @property
    def statement_timeout(self) -> float:
        """In seconds; 0: none."""
        return read_integer("statement_timeout", self.kept["statement_timeout"], TIMEOUT) / 1000

    def show(self, name: str) -> tuple[str, str]:
        """The parameter's own spelling, and its value. Raises UsageError (42704)."""
        key = name.lower()
        if key in self.fixed:
            return key, self.fixed[key]
        if key in self.kept:
            return key, self.kept[key]
        return self.of_text.shown(name)

    def all(self) -> list[tuple[str, str, str]]:
        """What SHOW ALL shows: all that there is here, with descriptions."""
        return [(*self.show(each.name), each.short_desc) for each in self._shown()]

    def settings(self) -> list[dict[str, object]]:
        """The rows of pg_settings."""
        beginning = SessionParameters(self.fixed, self.major, self._of_text_at_start, self._kept_at_start)
        found = []
        for each in self._shown():
            value, reset = (_in_base_unit(each, held.show(each.name)[1]) for held in (self, beginning))
            source = "session" if value != reset else "default" if value == each.boot_val else "command line"
            found.append({**each.values, "setting": value, "reset_val": reset, "source": source, "pending_restart": False})
        return found

    def _shown(self) -> list[ParameterFacts]:
        """In the order of their names. Those that SHOW ALL shows pg_settings has, too."""
        facts = parameter_facts(self.major)
        names = sorted([*self.fixed, *self.kept, *(name.lower() for name in _OF_TEXT)])
        return [facts[name] for name in names if name not in _NOT_SHOWN]

    def news(self) -> list[ParameterStatus]:
        """What the client has not been told of, or was told otherwise."""
        since = [name for name, capability in _REPORTED_SINCE.items() if supports(self.major, capability)]
        now = dict(self.show(name) for name in (*_REPORTED, *since))
        news = [ParameterStatus(name, value) for name, value in now.items() if self._told.get(name) != value]
        self._told = now
        return news


def _in_base_unit(each: ParameterFacts, shown: str) -> str:
    """A number as pg_settings has it, of what SHOW prints."""
    return shown if each.unit is None else str(read_integer(each.name, shown, Integer(-1, unit=each.unit)))


def _check_encoding(value: str) -> None:
    if spelled_encoding(value) not in ("UTF8", "SQL_ASCII"):
        raise UsageError(
            f'invalid value for parameter "client_encoding": "{value}"',
            detail=f"Conversion between {value} and UTF8 is not supported.", sqlstate="22023",
        )  # fmt: skip


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
