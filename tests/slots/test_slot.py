"""Slots: their names and the state of their WAL by PostgreSQL's rules, and files that are not as they were written."""

from __future__ import annotations

import random
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from tailrace.checksummed_file import FileKind
from tailrace.errors import CorruptFile, TailraceError, UnsupportedFile, UsageError
from tailrace.model import Lsn
from tailrace.plan.carried import Carried
from tailrace.slots.location import LOCATION_FILE, Settings, format_settings, parse_settings, read_location, write_location
from tailrace.slots.mark import MARK_FILE
from tailrace.slots.slot import SLOT_FILE, WAL_REMOVED, Slot, WalStatus, check_name, read_slot, wal_status, write_slot
from tailrace.slots.statistics import SlotStatistics
from tailrace.transactions.scanned_log import Earlier

SLOT = Slot(
    name="a_1", plugin="test_decoding", options={"include-xids": "0", "skip-empty-xacts": None, "ü": ""}, database="app",
    database_oid=16384, system=7_400_000_000_000_000_001, timeline=3, source="/backups/Größe", two_phase=True, two_phase_at=Lsn(7),
    temporary=False, restart_lsn=Lsn(1 << 40), confirmed_flush_lsn=Lsn(2**63 - 1), inactive_since=1_700_000_000_000_000,
)  # fmt: skip


OUTSIDE = 'outside the valid range for parameter "max_slot_wal_keep_size" (-1 .. 2147483647)'


def test_slots_come_back() -> None:
    for slot in (SLOT, replace(SLOT, invalidation_reason=WAL_REMOVED, options={}, temporary=True, inactive_since=0)):
        assert read_slot(write_slot(slot), "here") == slot
        assert list(read_slot(write_slot(slot), "here").options) == list(slot.options)
    assert type(read_slot(write_slot(SLOT), "here").restart_lsn) is Lsn


def test_a_slot_of_before_there_were_identities_and_statistics() -> None:
    facts = {field.name: getattr(SLOT, field.name) for field in fields(Slot) if field.name not in ("identity", "statistics")}
    assert read_slot(SLOT_FILE.write(facts, {}), "here") == SLOT
    assert read_slot(write_slot(replace(SLOT, identity="5")), "here").identity == "5"
    counted = replace(SLOT, statistics=SlotStatistics(5, 400, 2, 7, 300))
    assert read_slot(write_slot(counted), "here") == counted


def test_what_is_damaged_is_never_believed() -> None:
    written = write_slot(SLOT)
    dice = random.Random(5)
    for at in [*range(32), *(dice.randrange(len(written)) for _ in range(300))]:
        damaged = bytearray(written)
        damaged[at] ^= dice.randint(1, 255)
        with pytest.raises(UnsupportedFile if at < 20 else CorruptFile, match='"here"'):
            read_slot(bytes(damaged), "here")
    for length in range(len(written)):
        with pytest.raises(TailraceError, match='"here"'):
            read_slot(written[:length], "here")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("name", "../../etc"), ("name", ""), ("name", 5), ("options", []), ("options", {"a": 1}), ("restart_lsn", -1), ("system", "7"),
        ("two_phase", 1), ("invalidation_reason", "boredom"), ("inactive_since", 1.5), ("restart_lsn", 2**63),
    ],
)  # fmt: skip
def test_a_slot_whose_checksum_is_right_and_whose_content_is_not(name: str, value: Any) -> None:
    with pytest.raises(CorruptFile, match='"here" is no sound slot: '):
        read_slot(write_slot(replace(SLOT, **{name: value})), "here")


def test_a_slot_that_lacks_something(monkeypatch: pytest.MonkeyPatch) -> None:
    write = FileKind.write
    for lost in ("options", "plugin"):
        monkeypatch.setattr(
            FileKind,
            "write",
            lambda kind, facts, arrays, lost=lost: write(kind, {k: v for k, v in facts.items() if k != lost}, arrays),
        )
        with pytest.raises(CorruptFile, match='"here" is no sound slot: '):
            read_slot(write_slot(SLOT), "here")


def test_the_settings_of_a_location_come_back() -> None:
    settings = Settings(2**63 + 5, 3, 1 << 30)
    assert read_location(write_location(settings), "here") == settings
    with pytest.raises(UnsupportedFile, match='"here" is not a slot'):
        read_slot(write_location(settings), "here")
    with pytest.raises(CorruptFile, match="no sound state location"):
        read_location(write_location(replace(settings, max_replication_slots="many")), "here")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "size", "shown"),
    [
        ("-1", -1, "-1"), ("0", 0, "0"), ("64", 64 << 20, "64MB"), ("2048", 2 << 30, "2GB"), ("1536 kB", 1536 << 10, "1536kB"),
        ("3TB", 3 << 40, "3TB"), ("2147483647", 2147483647 << 20, "2147483647MB"),
    ],
)  # fmt: skip
def test_settings_in_the_words_of_postgresql_conf(text: str, size: int, shown: str) -> None:
    settings = parse_settings(Settings(5, 3), {"max_slot_wal_keep_size": text})
    assert settings == Settings(5, 3, size)
    assert format_settings(settings) == {
        "max_replication_slots": "3", "max_slot_wal_keep_size": shown, "wal_keep": "0", "synchronous_standby_names": "",
    }  # fmt: skip
    named = parse_settings(settings, {"synchronous_standby_names": "ANY 1 (a, b)"})
    assert format_settings(named)["synchronous_standby_names"] == "ANY 1 (a, b)"
    assert parse_settings(named, {"synchronous_standby_names": None}) == settings
    assert parse_settings(settings, {"max_replication_slots": "0"}) == Settings(5, 0, size)


@pytest.mark.parametrize(
    ("name", "text", "said", "sqlstate"),
    [
        ("max_wal_size", "1GB", 'unrecognized configuration parameter "max_wal_size"', "42704"),
        ("system", "1", 'unrecognized configuration parameter "system"', "42704"),
        ("max_replication_slots", "many", 'invalid value for parameter "max_replication_slots": "many"', "22023"),
        ("max_replication_slots", None, 'invalid value for parameter "max_replication_slots": ""', "22023"),
        ("synchronous_standby_names", "2 (a", 'invalid value for parameter "synchronous_standby_names": "2 (a"', "22023"),
        ("max_replication_slots", "-1", '-1 is outside the valid range for parameter "max_replication_slots" (0 .. 262143)', "22023"),
        ("max_slot_wal_keep_size", "1 PB", 'invalid value for parameter "max_slot_wal_keep_size": "1 PB"', "22023"),
        ("max_slot_wal_keep_size", "-2", f"-2 is {OUTSIDE}", "22023"), ("max_slot_wal_keep_size", "2048TB", f"2147483648 is {OUTSIDE}", "22023"),
    ],
)  # fmt: skip
def test_settings_that_there_are_not(name: str, text: str | None, said: str, sqlstate: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_settings(Settings(5), {name: text})
    assert (caught.value.message, caught.value.sqlstate) == (said, sqlstate)


def test_the_formats_are_described() -> None:
    described = (Path(__file__).parents[2] / "docs/state_location.md").read_text()
    for kind in (LOCATION_FILE, SLOT_FILE, MARK_FILE):
        assert f"| `{kind.key}` | {kind.version} |" in described
    named = [field.name for each in (Slot, Settings, Carried, Earlier) for field in fields(each)]
    assert [name for name in named if name != "earlier" and f"`{name}`" not in described and f"`{name}." not in described] == []


@pytest.mark.parametrize("name", ["a", "0", "_", "pg_1_z", "a" * 63])
def test_names_of_slots(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize(
    ("name", "said", "sqlstate"),
    [
        ("", "is too short", "42602"),
        ("a" * 64, "is too long", "42622"),
        ("ä" * 32, "is too long", "42622"),
        *((name, "contains invalid character", "42602") for name in ("A", "a-b", "a.b", "a/b", "..", "ä", "a\n", "a\0", " a", "١", "\udce4")),
    ],
)  # fmt: skip
def test_names_that_no_slot_can_have(name: str, said: str, sqlstate: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_name(name)
    assert caught.value.message == f'replication slot name "{name}" {said}'
    assert caught.value.sqlstate == sqlstate
    assert ("may only contain lower case letters" in caught.value.hint) == (said == "contains invalid character")


@pytest.mark.parametrize(
    ("restart", "available", "keep", "expected"),
    [
        (900, 0, -1, WalStatus("reserved", None)),
        (900, 900, 500, WalStatus("reserved", 400)),
        (700, 0, -1, WalStatus("extended", None)),
        (700, 0, 500, WalStatus("extended", 200)),
        (500, 0, 500, WalStatus("extended", 0)),
        (499, 0, 500, WalStatus("unreserved", -1)),
        (499, 500, 500, WalStatus("lost", None)),
        (499, 500, -1, WalStatus("lost", None)),
    ],
)
def test_what_becomes_of_the_wal_that_a_slot_needs(restart: int, available: int, keep: int, expected: WalStatus) -> None:
    slot = replace(SLOT, restart_lsn=Lsn(restart))
    asked = {"available_from": Lsn(available), "flushed": Lsn(1000), "max_slot_wal_keep_size": keep, "max_wal_size": 200}
    assert wal_status(slot, **asked) == expected
    assert wal_status(replace(slot, invalidation_reason=WAL_REMOVED), **asked) == WalStatus("lost", None)
