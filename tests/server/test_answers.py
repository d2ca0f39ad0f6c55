"""What about a hundred replication commands are answered, on a connection with a database and one without: as PostgreSQL answered,
but for what is not here (docs/guides/serve.md)."""

from __future__ import annotations

import json
import lzma
import re
from pathlib import Path

import pytest

from support.raw_client import RawClient
from support.served import Served
from support.servers import Server

pytestmark = pytest.mark.postgres
FILE = Path(__file__).parents[1] / "cases/replication_answers.jsonl.xz"
MAJORS = [pytest.param(18), pytest.param(15, marks=pytest.mark.matrix), pytest.param(16, marks=pytest.mark.matrix)]
HERE = {
    "SHOW ALL": "T[name:25, setting:25, description:25] | D[",
    "SHOW server_version_num": "T[server_version_num:25] | D['",
    **dict.fromkeys(
        ("BASE_BACKUP (BOGUS)", "CREATE_REPLICATION_SLOT p1 PHYSICAL", "CREATE_REPLICATION_SLOT p1 PHYSICAL RESERVE_WAL",
         "START_REPLICATION FF/0 TIMELINE 1", "START_REPLICATION 0/0 TIMELINE 7"),
        "E ERROR 0A000: ",
    ),
    **dict.fromkeys(("READ_REPLICATION_SLOT p1",), "T[slot_type:25, restart_lsn:25, restart_tli:20] | D[None, None, None] | C "),
    **dict.fromkeys(
        ("START_REPLICATION SLOT p1 LOGICAL 0/0", "DROP_REPLICATION_SLOT p1", "DROP_REPLICATION_SLOT s2", "DROP_REPLICATION_SLOT u1",
         "ALTER_REPLICATION_SLOT s2 (FAILOVER false)"),
        "E ERROR 42704: ",
    ),
    **dict.fromkeys(
        ("CREATE_REPLICATION_SLOT s2 LOGICAL pgoutput (FAILOVER true, SNAPSHOT 'nothing')", "ALTER_REPLICATION_SLOT p1 (FAILOVER)",
         "ALTER_REPLICATION_SLOT s2 (FAILOVER, TWO_PHASE)", "ALTER_REPLICATION_SLOT nonesuch (FAILOVER)"),
        "E ERROR 0A000: failover slots ",
    ),
    "CREATE_REPLICATION_SLOT s1 LOGICAL pgoutput EXPORT_SNAPSHOT": "E ERROR 0A000: ",
    "CREATE_REPLICATION_SLOT u1 TEMPORARY LOGICAL pgoutput (SNAPSHOT 'use')": "E ERROR 0A000: ",
    "START_REPLICATION SLOT z LOGICAL 0/0 (proto_version '1', publication_names '')": "W 000000 | ",
    "CREATE_REPLICATION_SLOT s1 LOGICAL nonesuch_plugin": 'E ERROR 58P01: could not access file "nonesuch_plugin"',
    "COMMIT": "C ROLLBACK | Z I",  # of the block in which SNAPSHOT 'use' was refused
}  # fmt: skip
"""How answers begin that differ, and by design."""
CREATES_WITHOUT_SNAPSHOT = "N WARNING 01000: no snapshot is exported HINT: "
FAILED = "E ERROR 25P02: "
"""What comes in a block behind what is refused here."""


def _recorded(major: int) -> list[tuple[bool, str, str]]:
    """Whether it was asked of a connection without a database; the command; the answer."""
    for line in lzma.decompress(FILE.read_bytes()).decode().splitlines():
        facts = json.loads(line)
        if facts["major"] == major:
            return [(bool(physical), command, answer) for physical, command, answer in facts["answers"]]
    raise AssertionError(major)


def _alike(answer: str) -> str:
    """Without what is of one cluster; rows in one order."""
    answer = re.sub(r"\b[0-9A-F]{1,8}/[0-9A-F]{1,8}\b", "LSN", answer)
    answer = re.sub(r"D\['\d{17,20}', ", "D[SYSTEM, ", answer)
    parts = answer.split(" | ")
    rows = iter(sorted(part for part in parts if part.startswith("D[")))
    return " | ".join(next(rows) if part.startswith("D[") else part for part in parts)


@pytest.mark.parametrize("major", MAJORS)
def test_every_command(major: int, tmp_path: Path) -> None:
    recorded = _recorded(major)
    asks_physical = [place for place, (physical, _, _) in enumerate(recorded) if physical]
    recorded = recorded[: asks_physical[0] + 7]  # what follows was asked of connections of its own
    different: list[str] = []
    with Server(major, wal_segment_mb=16) as server, Served(server.data_dir, tmp_path / "state") as served:
        who = {"user": "postgres", "database": "postgres"}
        with (
            RawClient(served.port, replication="database", **who) as client,
            RawClient(served.port, replication="true", **who) as without_database,
        ):
            for physical, command, answer in recorded:
                asked = without_database if physical else client
                found = asked.query(command)
                if command.endswith(" EXPORT_SNAPSHOT"):  # so that there is such a slot
                    assert asked.query(command.replace("EXPORT", "NOEXPORT")).endswith("C CREATE_REPLICATION_SLOT | Z I")
                if _alike(found) != _alike(answer) and not _is_expected(command, found, answer):
                    different.append(f"{command}\n  {answer}\n  {found}")
    assert not different, "\n".join(different)
    assert len(recorded) > 100


def _is_expected(command: str, found: str, answer: str) -> bool:
    if found.startswith(FAILED) or (command in HERE and found.startswith(HERE[command])):
        return True
    if not command.startswith("CREATE_REPLICATION_SLOT"):
        return False
    told = re.sub(re.escape(CREATES_WITHOUT_SNAPSHOT) + r"[^|]* \| ", "", found)
    asked = re.sub(r"'[0-9A-F]{8}-[0-9A-F]{8}-\d+'", "None", answer)
    return told != found and _alike(told) == _alike(asked)
