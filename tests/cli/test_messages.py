"""`tailrace messages`: what it takes, what it shows, and which line is wrong."""

from __future__ import annotations

import io
import json
import re
import sys
import tracemalloc
from pathlib import Path

import pytest

from support.command import Run
from support.vectors import recorded_sessions
from tailrace.logicalproto import message as m
from tailrace.logicalproto.formats import write_message
from tailrace.model import Lsn

RELATION = m.Relation(
    16385, "public", "Order", "d", (m.RelationColumn(1, "id", 23, -1), m.RelationColumn(0, "note", 25, -1), m.RelationColumn(0, "mood", 16400, -1))
)  # fmt: skip
SESSION = (
    m.Begin(Lsn(0x16B3748), 86_400_000_000, 745),
    m.Type(16400, "public", "mood"),
    RELATION,
    m.Insert(16385, m.TupleData("N", (m.TupleColumn("t", b"1"), m.TupleColumn("t", b"it's"), m.TupleColumn("b", b"ok")))),
    m.Update(
        16385,
        m.TupleData("K", (m.TupleColumn("t", b"1"), m.TupleColumn("n"), m.TupleColumn("n"))),
        m.TupleData("N", (m.TupleColumn("t", b"2"), m.TupleColumn("u"), m.TupleColumn("n"))),
    ),
    m.Delete(16385, m.TupleData("K", (m.TupleColumn("t", b"2"), m.TupleColumn("n"), m.TupleColumn("n")))),
    m.Truncate(2, (16385,)),
    m.Message(1, Lsn(16), "prefix", b"\xff"),
    m.Commit(Lsn(0x16B3748), Lsn(0x16B3778), 86_400_000_000),
)
SHOWN = r"""
BEGIN final lsn 0/16B3748, commit timestamp 2000-01-02 00:00:00+00, xid 745
TYPE public.mood (16400)
RELATION table public."Order" (16385), replica identity default: id[integer]* note[text] mood[public.mood]
INSERT table public."Order": id[integer]:1 note[text]:'it''s' mood[public.mood]:\x6f6b
UPDATE table public."Order": old-key: id[integer]:1 new-tuple: id[integer]:2 note[text]:unchanged-toast-datum mood[public.mood]:null
DELETE table public."Order": old-key: id[integer]:2
TRUNCATE table public."Order": restart_seqs
MESSAGE transactional: 1 lsn: 0/10 prefix: prefix, sz: 1 content:\xff
COMMIT commit lsn 0/16B3748, end lsn 0/16B3778, commit timestamp 2000-01-02 00:00:00+00
""".lstrip()
FORMS = {
    "as psql -At prints them": "0/16B3748|745|\\x{}",
    "parted by tabs": "0/16B3748\t745\t\\x{}",
    "as COPY writes them": "0/16B3748\t745\t\\\\x{}",
    "alone": "\\x{}",
    "recorded": '{{"payload": "{}"}}',
}


def test_a_large_message_takes_a_few_times_its_size(tailrace: Run, tmp_path: Path) -> None:
    """Its digits are not looked at one by one: that took 200 times as much."""
    value = m.TupleData("N", (m.TupleColumn("t", b"1"), m.TupleColumn("t", b"it's" * (1 << 19)), m.TupleColumn("n", None)))
    messages = [SESSION[0], RELATION, m.Insert(RELATION.relation_oid, value), SESSION[-1]]
    path = tmp_path / "rows"
    path.write_text("\n".join(FORMS["alone"].format(write_message(each).hex()) for each in messages))
    tailrace("messages", path)  # what is loaded for the first message is not counted
    tracemalloc.start()
    try:
        status, out, err = tailrace("messages", path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (status, err) == (0, "")
    assert len(out) > 5 << 19
    assert peak < 20 * path.stat().st_size


@pytest.mark.parametrize("form", FORMS)
def test_messages_are_shown(form: str, tailrace: Run, tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_text("\n".join(FORMS[form].format(write_message(each).hex()) for each in SESSION))
    before = "" if form in ("alone", "recorded") else "0/16B3748\t745\t"
    assert tailrace("messages", path) == (0, "".join(f"{before}{line}\n" for line in SHOWN.splitlines()), "")


def test_standard_input_as_json(tailrace: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = "".join(f"0/16B3748|745|\\x{write_message(each).hex()}\n" for each in SESSION)
    monkeypatch.setattr(sys, "stdin", io.StringIO(rows))
    status, out, err = tailrace("messages", "--json")
    assert (status, err) == (0, "")
    told = [json.loads(line) for line in out.splitlines()]
    assert [each["message"] for each in told] == [line.split()[0] for line in SHOWN.splitlines()]
    assert {each["lsn"] for each in told if each["message"] != "MESSAGE"} == {"0/16B3748"}
    assert told[2]["columns"][0] == {"flags": 1, "name": "id", "type_oid": 23, "type_modifier": -1}
    assert told[3]["new"] == {"id": "1", "note": "it's", "mood": "6f6b"}
    assert told[3]["binary_new"] == ["mood"]
    assert told[4] == {
        "lsn": "0/16B3748", "message": "UPDATE", "relation_oid": 16385, "old": {"id": "1", "note": None, "mood": None}, "old_is": "key",
        "new": {"id": "2", "note": None, "mood": None}, "unchanged": ["note"],
    }  # fmt: skip


@pytest.mark.parametrize("recorded", recorded_sessions(), ids=lambda each: each.name)
def test_what_servers_sent_is_shown(recorded, tailrace: Run, tmp_path: Path) -> None:
    path = tmp_path / "capture"
    head = json.dumps({"note": "how it was made", "workload": ""})
    cut = json.dumps({"payload": "49000082bd...(2500 bytes)"})
    lines = [head, *(json.dumps({"payload": payload.hex()}) for payload in recorded.payloads), cut]
    path.write_text("\n".join(lines))
    status, out, err = tailrace("messages", path)
    assert (status, err) == (0, "")
    shown = out.splitlines()
    assert shown.pop() == "(a message of 2500 bytes, which the recorder has cut)"
    for line, facts in zip(shown, recorded.facts, strict=True):
        assert line.startswith(re.sub("(?<=[a-z])(?=[A-Z])", " ", facts["msg"]).upper())


REFUSED = {
    "nothing of ours": ("0/1|2|BEGIN 2", "line 2 has no message of logical replication"),
    "half a byte": ("\\x123", "line 2 has no message of logical replication"),
    "not JSON": ('{"payload": ', "line 2 has no message of logical replication"),
    "no payload": ('{"hex": "42"}', "line 2 has no message of logical replication"),
    "no message": ("\\x58", 'invalid logical replication message type "??? (88)"'),
    "out of order": ("\\x" + write_message(SESSION[0]).hex(), "BEGIN message sent out of order"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_wrong_line_is_named_and_those_before_it_are_shown(why: str, tailrace: Run, tmp_path: Path) -> None:
    line, words = REFUSED[why]
    path = tmp_path / "rows"
    path.write_text(f"\\x{write_message(SESSION[0]).hex()}\n{line}\n")
    status, out, err = tailrace("messages", path)
    assert (status, out) == (1, SHOWN.splitlines()[0] + "\n")
    assert err.startswith(f"tailrace: error: {words}\n")
    assert "line 2" in err


def test_a_version_of_the_protocol_may_be_named(tailrace: Run, tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_text(f"\\x{write_message(m.StreamStart(7, 1)).hex()}\n")
    assert tailrace("messages", path)[:2] == (0, "STREAM START xid 7, first segment\n")
    status, out, err = tailrace("messages", path, "--proto-version", 1)
    assert (status, out) == (1, "")
    assert "STREAM START message in protocol version 1" in err
    assert tailrace("messages", path, "--proto-version", 5)[0] == 1
