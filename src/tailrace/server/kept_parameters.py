"""Parameters that a session keeps and shows, and that mean nothing here: what each is before anybody sets it, and what it can be
(`guc_tables.c`).

In: a value as somebody wrote it. Out: the value as SHOW prints it, or UsageError (22023) in the server's words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from tailrace.errors import UsageError
from tailrace.server.client_text import clean_ascii
from tailrace.settings import Integer, parse_bool, read_integer, show_integer

Reader = Callable[[str, str, int], str]
"""What a parameter of this name is, from what was written, for a major."""
TIMEOUT = Integer(0, unit="ms")
_SWITCH = {"true": "on", "yes": "on", "1": "on", "false": "off", "no": "off", "0": "off"}


def _boolean(name: str, value: str, major: int) -> str:
    meaning = parse_bool(value)
    if meaning is None:
        raise UsageError(f'parameter "{name}" requires a Boolean value', sqlstate="22023")
    return "on" if meaning else "off"


def _integer(kind: Integer, name: str, value: str, major: int) -> str:
    return show_integer(read_integer(name, value, kind, major), kind.unit)


def _one_of(available: str, also: Mapping[str, str], name: str, value: str, major: int) -> str:
    """One of what is available, or what is taken for one of these and not told."""
    word = value.lower()
    if word in available.split(", "):
        return word
    if word not in also:
        raise UsageError(
            f'invalid value for parameter "{name}": "{value}"', hint=f"Available values: {available}.", sqlstate="22023"
        )  # fmt: skip
    return also[word]


def _text(name: str, value: str, major: int) -> str:
    return value


def _printable(name: str, value: str, major: int) -> str:
    return clean_ascii(value)


_timeout = partial(_integer, TIMEOUT)
_isolation = partial(_one_of, "serializable, repeatable read, read committed, read uncommitted", {})
_level = partial(
    _one_of, "debug5, debug4, debug3, debug2, debug1, log, notice, warning, error", {"debug": "debug2", "info": "info"}
)

KEPT: Mapping[str, tuple[str, Reader]] = {
    "application_name": ("", _printable),
    "backslash_quote": ("safe_encoding", partial(_one_of, "safe_encoding, on, off", _SWITCH)),
    "client_min_messages": ("notice", _level),
    "default_transaction_isolation": ("read committed", _isolation),
    "default_transaction_read_only": ("off", _boolean),
    "enable_seqscan": ("on", _boolean),
    "geqo": ("on", _boolean),
    "idle_in_transaction_session_timeout": ("0", _timeout),
    "idle_session_timeout": ("0", _timeout),
    "jit": ("off", _boolean),
    "lc_messages": ("C", _text),
    "lc_monetary": ("C", _text),
    "lc_numeric": ("C", _text),
    "lc_time": ("C", _text),
    "lock_timeout": ("0", _timeout),
    "row_security": ("on", _boolean),
    "session_replication_role": ("origin", partial(_one_of, "origin, replica, local", {})),
    "standard_conforming_strings": ("on", _boolean),
    "statement_timeout": ("0", _timeout),
    "synchronous_commit": ("on", partial(_one_of, "local, remote_write, remote_apply, on, off", _SWITCH)),
    "tcp_keepalives_idle": ("0", partial(_integer, Integer(0, unit="s"))),
    "transaction_isolation": ("read committed", _isolation),
    "transaction_read_only": ("off", _boolean),
    "transaction_timeout": ("0", _timeout),
    "wal_sender_timeout": ("1min", _timeout),
}
"""What it is by default, and what reads it."""
OF_TRANSACTION = ("transaction_isolation", "transaction_read_only")
"""GUC_NO_RESET_ALL: RESET ALL leaves them as they are."""
