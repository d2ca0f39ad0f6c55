"""TimeZone settings that are no names of zones: what the server takes, and prints then, and what it refuses."""

from __future__ import annotations

import random

import numpy as np
import psycopg
import pytest

from support.servers import Server
from tailrace.errors import UsageError
from tailrace.model import PgType
from tailrace.types.registry import TextStyle, format_values
from tailrace.types.values import Values

pytestmark = pytest.mark.matrix
STAMPTZ = PgType(1184, "pg_catalog", "timestamptz", "timestamp with time zone", "b", 8, 8)
DAY = 86_400_000_000
NUMBERS = (
    "-7.5", "7.5", "+7.5", "8", "+08", "-8", "1e1", ".5", "5.", "0x10", "0x1.8p2", " 5", "7.123456", "-7.1234567", "0.0000001", "-0", "167.99",
    "-100",
    "interval '5 hours'", "INTERVAL '-7:30'", "interval '5'", "interval'5:30'", "interval   '-3.5 hours'", "interval '-5:30:15.9'",
    "interval '5 hours 30 minutes'", "interval '2h -30m 15s'",
)  # fmt: skip
STRINGS = (
    "FOO+3", "UTC+3", "foo3", "AB3", "<+07>-07", "<-0330>3:30", "<AB>3", "<>3", "<A B>3", "05:30", "+05:30", "-5:30", "5:3", "0:0", "24:00",
    "100:00", "FOO25", "FOO167:59", "-15:59:60", "GMT+5", "UTC0", "FOO 3", "F1O3", "ABCDEFGHIJKLMNO3", "<Abcdefghijklmno>3", "FOO0003",
    "CET-1CEST", "FOO3BAR", "foo3bar2", "FOO3BAR3", "ABC3DE", "5 ", "5 hours", "1 2", "FOO3.5", "00:00:00.5", "05:30 foo", "FOO3 BAR", "XXX-2<+03>-3",
    "EST5EDT,M3.2.0,M11.1.0", "EST5EDT,M3.2.0/2,M11.1.0/2", "EST5EDT4,M3.2.0,M11.1.0", "EST5EDT4;M3.2.0,M11.1.0", "CET-1CEST,M3.5.0,M10.5.0/3",
    "AEST-10AEDT,M10.1.0,M4.1.0/3", "<-03>3<-02>,M3.5.0/-2,M10.5.0/-1", "FOO3BAR4,M10.1.0/-1,M3.3.0/25:30:15", "FOO3BAR4,M10.5.0,M3.5.6",
    "FOO3BAR,J60,J300", "FOO3BAR,60,300/3", "FOO3BAR,59,J59", "<+0330>-3:30<+0430>,J79/24,J263/24", "EST5EDT,J1/0,J365/25", "EST5EDT,0/0,J365/25",
    "FOO3BAR,0/0,365/24", "FOO3BAR,M2.5.1,M2.4.0", "FOO3BAR,M3.2.0,M11.1.0/-167", "FOO3BAR,J1/-167,J365/167", "FOO3BAR,J365/167,J1/-167",
    "FOO3BAR,J1,J1", "FOO3BAR-20,365/167,365/166", "IST-1GMT0,M10.5.0,M3.5.0/1",
)  # fmt: skip
NAMED = ("utc", "gmt", "zulu", "america/new_york", "EUROPE/BERLIN", ":Asia/Kathmandu", "est5edt", "etc/gmt+5", "Factory")
REFUSED = (
    "Z", "ABC", "FOO168", "FOO168:00", "FOO+-3", "FOO3:", "FOO3:60", "FOO3BAR,", "FOO3BAR,M3.2.0", "FOO3BAR,M3.2.0,M11.1.0,", "FOO3BAR3x",
    "FOO3BAR,M13.2.0,M11.1.0", "FOO3BAR,M3.6.0,M11.1.0", "FOO3BAR,M3.2.7,M11.1.0", "FOO3BAR;M3.2.0;M11.1.0", "FOO3BAR,J366,J1", "FOO3BAR,J0,J1",
    "FOO3BAR,366,J1", "EST5EDT,M3.2.0,M11.1.0/168", "EST5EDT,M3.2,M11.1.0", "<FOO3", "FOO3<BAR", "FOO3<>", "168", "-168", "1e400", "0x1p5000", "nan",
    "-inf", "+", "-", ".", '""', "default", "local", "Foo/Bar", "Europe/berlin/", "../UTC", ":FOO3", "interval 5", "interval '1 mon'",
    "interval '2 days'", "interval '5:30", "interval '168 hours'", "interval ''", "-05:30:15", "FOO3:5:6", "FOO24:59:59", "FOO-3:30:15BAR",
    "F" * 250 + "3:00:00",
)  # fmt: skip


def _stamps() -> list[int]:
    """From 1800 to 2500, with each hour around changes of some years; and the ends of time."""
    draw = random.Random(7)
    found = [draw.randint(-200 * 365 * DAY, 500 * 365 * DAY) for _ in range(400)]
    for year in (-230, -30, 24, 25, 169, 470, 769, 771, 2400):
        january = year * 146_097 * DAY // 400
        found += [
            january + day * DAY + hour * 3600_000_000
            for day in (-8, -1, 0, 1, 59, 66, 67, 68, 72, 300, 307, 365)
            for hour in range(24)
        ]
    return sorted([*found, -211_813_488_000_000_000, 9_223_371_331_199_999_999, -(2**63), 2**63 - 1])


@pytest.mark.parametrize("major", [14, 18])
def test_zones_without_a_name(major: int) -> None:
    stamps = _stamps()
    values = Values(np.ones(len(stamps), np.bool_), fixed=np.array(stamps, np.int64).view(np.uint8).reshape(-1, 8))
    different = []
    with Server(major) as server, server.connect() as connection:
        connection.execute("CREATE TEMP TABLE t (row int, at timestamptz)")
        with connection.cursor().copy("COPY t FROM STDIN") as copy:
            for row, text in enumerate(format_values(values, STAMPTZ).to_list()):
                copy.write_row((row, text))
        for form in ("ISO", "Postgres", "SQL"):
            connection.execute(f"SET DateStyle = '{form}'")
            for zone in (*NUMBERS, *STRINGS, *NAMED):
                connection.execute("SELECT set_config('TimeZone', %s, false)", [zone])
                theirs = [text for (text,) in connection.execute("SELECT at::text FROM t ORDER BY row").fetchall()]
                ours = format_values(values, STAMPTZ, TextStyle(time_zone=zone, date_style=form)).to_list()
                for stamp, expected, got in zip(stamps, theirs, ours, strict=True):
                    # data of named zones is another build's: only of our years it is surely the same
                    if got != expected and (zone not in NAMED or 10 * 365 * DAY < stamp < 30 * 365 * DAY):
                        different.append((zone, stamp, expected, got))
    assert different[:10] == []


@pytest.mark.parametrize("major", [14, 18])
def test_what_is_no_zone(major: int) -> None:
    values = Values(np.ones(1, np.bool_), fixed=np.zeros((1, 8), np.uint8))
    with Server(major) as server, server.connect() as connection:
        for zone in REFUSED:
            with pytest.raises(psycopg.Error) as theirs:
                connection.execute("SELECT set_config('TimeZone', %s, false)", [zone])
            with pytest.raises(UsageError) as ours:
                format_values(values, STAMPTZ, TextStyle(time_zone=zone))
            if theirs.value.sqlstate == "22023":  # interval_in has words of its own
                assert ours.value.message == theirs.value.diag.message_primary, zone
                assert ours.value.sqlstate == "22023"
