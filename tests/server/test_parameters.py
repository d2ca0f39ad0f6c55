"""Parameters of a session: what they take, what they go back to, and what clients are told of it, as on the server."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.raw_client import RawClient, said
from support.served import Served
from support.servers import Server
from tailrace.wire import messages as m

pytestmark = pytest.mark.postgres
MAJORS = [pytest.param(each, marks=[] if each == 18 else pytest.mark.matrix) for each in (18, 14, 15, 16, 17)]
OPTIONS = "-c datestyle=SQL,DMY -c search_path=pg_catalog -c statement_timeout=7000 -c wal_sender_timeout=1h"
WHO = {
    "user": "postgres", "database": "postgres", "application_name": "first", "extra_float_digits": "2", "TimeZone": "Europe/Rome",
    "options": OPTIONS,
}  # fmt: skip
_TIMES = (
    "-1", "0", "1", "'1.5min'", "'x'", "' 5 s '", "'5 x'", "'5 smin'", "'5 s x'", "''", "2147483647", "2147483648", "-2147483649", "1e3",
    "1e400", "'08'", "'010'", "'0x10'", "'0x'", "'.5s'", "'1.s'", "'1e'", "'+1'", "'--1'", "'1499.6us'", "'1500.7us'", "'0.5us'", "'2.5ms'",
    "'1h 2min'", "'25d'", "'24.85513d'", "'1H'", "'inf'", "'nan'", "on", "'99999999999999999999'", "'99999999999999999999us'", "'1_000'",
    "'1e18d'", "90000", "'٣'", f"'{'9' * 5000}'", f"'0x{'f' * 5000}'",
)  # fmt: skip
_SWITCHES = (
    "on", "off", "TRUE", "'f'", "'o'", "'of'", "1", "0", "2", "''", "' on'", "'x'", "local", "Remote_Write", "'remote_apply '", "safe_encoding",
)  # fmt: skip
_LEVELS = ("debug5", "DEBUG", "info", "log", "fatal", "panic", "'noti'", "warning", "error", "''")
_ISOLATION = ("'serializable'", "'REPEATABLE READ'", "'read  committed'", "'x'", "'read uncommitted'")
_SIZES = ("1", "'0.1MB'", "64", "'65537B'", "'1TB'", "'2TB'", "'3000GB'", "'1mb'", "'x'", "2147483647", "'100 kB'", "-1")
_TAKEN = {
    ("wal_sender_timeout", "lock_timeout"): _TIMES,
    ("statement_timeout", "idle_session_timeout", "idle_in_transaction_session_timeout"): ("-1", "'1.5h'", "'x'", "0"),
    (
        "row_security",
        "default_transaction_read_only",
        "synchronous_commit",
        "geqo",
        "enable_seqscan",
        "backslash_quote",
    ): _SWITCHES,
    ("client_min_messages",): _LEVELS,
    ("default_transaction_isolation",): _ISOLATION,
    ("session_replication_role",): ("replica", "LOCAL", "origin", "x"),
    ("extra_float_digits",): ("4", "-16", "'1.5'", "'2.5'", "'1x'", "'0x2'", "-15"),
    ("logical_decoding_work_mem",): _SIZES,
}
TAKEN = [
    text for names, values in _TAKEN.items() for name in names for value in values for text in (f"SET {name} = {value}", f"SHOW {name}")
]  # fmt: skip
REFUSED = (
    "SET jit = 2", "SET tcp_keepalives_idle = -1", "SET tcp_keepalives_idle = '1.5 x'", "SET transaction_isolation = 'x'",
    "SET transaction_read_only = maybe", "SET \"Statement_Timeout\" = 'x'", "SELECT set_config('ROW_SECURITY', 'x', false)",
    "SELECT set_config('Lock_Timeout', '-1', false)", "SELECT set_config('Client_Min_Messages', 'x', false)",
    "SELECT set_config('Extra_Float_Digits', '4', false)", "RESET nonesuch", "RESET server_version",
)  # fmt: skip
_SHOWN = (
    "datestyle", "timezone", "intervalstyle", "search_path", "application_name", "statement_timeout", "extra_float_digits", "bytea_output",
    "wal_sender_timeout", "row_security", "logical_decoding_work_mem", "client_encoding",
)  # fmt: skip
_CHANGES = (
    "SET datestyle = 'German'", "SET timezone = 'Asia/Tokyo'", "SET intervalstyle = 'iso_8601'", "SET search_path = a, b",
    "SET application_name = 'second'", "SET statement_timeout = 1000000", "SET extra_float_digits = 0", "SET bytea_output = 'escape'",
    "SET wal_sender_timeout = 0", "SET row_security = off", "SET default_transaction_read_only = on",
    "SET logical_decoding_work_mem = '64kB'", "SET client_encoding = 'SQL_ASCII'",
)  # fmt: skip
_SHOW = tuple(f"SHOW {name}" for name in _SHOWN)
RESETS = (
    *_SHOW, *_CHANGES, *_SHOW, *(f"RESET {name}" for name in _SHOWN), *_SHOW,
    *_CHANGES, *(f"SET {name} = DEFAULT" for name in _SHOWN), *_SHOW, "SET application_name = DEFAULT",
    *_CHANGES, "SELECT set_config('datestyle', NULL, false), set_config('row_security', NULL, false)",
    "SET ROLE postgres", "RESET ALL", *_SHOW, "SHOW role", *_CHANGES, "DISCARD ALL", *_SHOW, "SHOW role", "RESET ROLE",
    "DISCARD PLANS", "DISCARD SEQUENCES", "DISCARD TEMP", "SET TIME ZONE DEFAULT", "SHOW timezone", "SET TIME ZONE LOCAL", "SET NAMES DEFAULT",
    "BEGIN", "DISCARD ALL", "ROLLBACK",
)  # fmt: skip
SINCE_16 = ("RESET transaction_isolation", "RESET transaction_read_only", "SET transaction_isolation = DEFAULT", "RESET ALL")
"""Before, they go back, with a warning outside of a transaction block."""


def _answer(client: RawClient, text: str) -> list[str]:
    """With what it is told of parameters, which comes in the order of the server's own list."""
    client.send(m.Query(text))
    told = list(client.until(m.ReadyForQuery))
    statuses = sorted(f"S {each.name}={each.value}" for each in told if isinstance(each, m.ParameterStatus))
    answers = [said(each) for each in told if not isinstance(each, m.ParameterStatus)]
    has_failed = any(each.startswith("E ") for each in answers)
    left_out = ("N DEBUG", "T[") if has_failed else ("N DEBUG",)  # the server describes a row before it makes it
    return [*(each for each in answers if not each.startswith(left_out)), *statuses]


def _greeted(client: RawClient) -> set[tuple[str, str]]:
    told = [(each.name, each.value) for each in client.greeting if isinstance(each, m.ParameterStatus)]
    return {(name, "" if name in ("server_version", "is_superuser") else value) for name, value in told}


@pytest.mark.parametrize("major", MAJORS)
def test_parameters(major: int, tmp_path: Path) -> None:
    with (
        Server(major) as server,
        Served(server.data_dir, tmp_path / "state") as served,
        RawClient(served.port, **WHO) as here,
        RawClient(server.port, **WHO) as there,
    ):
        assert _greeted(here) == _greeted(there)
        for text in (*RESETS, *TAKEN, *REFUSED, *(SINCE_16 if major >= 16 else ())):
            assert _answer(here, text) == _answer(there, text), text


def test_others_see_the_name_that_is_reset(tmp_path: Path) -> None:
    with (
        Server(18) as server,
        Served(server.data_dir, tmp_path / "state") as served,
        served.connect() as other,
        served.connect(application_name="first") as client,
    ):
        for reset in ("RESET ALL", "DISCARD ALL", "RESET application_name"):
            client.execute("SET application_name = 'second'")
            client.execute(reset.encode(), prepare=True)
            assert ("first",) in other.execute("SELECT application_name FROM pg_stat_activity").fetchall(), reset


def test_how_long_a_receiver_may_be_silent(tmp_path: Path) -> None:
    """It is the command's option unless the client has one of its own."""
    with (
        Server(18) as server,
        Served(server.data_dir, tmp_path / "state", "--wal-sender-timeout", "90") as served,
        served.connect() as client,
    ):
        for text, shown in (("SELECT 1", "90s"), ("SET wal_sender_timeout = 0", "0"), ("RESET wal_sender_timeout", "90s")):
            client.execute(text.encode())
            assert client.execute("SHOW wal_sender_timeout").fetchone() == (shown,)
