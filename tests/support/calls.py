"""Which callbacks of a plugin are called for what is asked of slots: by PostgreSQL, of a plugin in C (`tests/record_calls.py`), and by tailrace.

`tests/calls/<major>.txt` has what was asked, each with the calls that came of it, `tests/calls/<major>.tar.xz` the log, and the catalogs as they
were before. `replay` asks tailrace the same of that log, and gives what it called. Two things are not compared call by call:

- Filters (`without_filters`). PostgreSQL asks them while it reads the log, record by record; tailrace when it plans a window, of each origin that
  there is once. Both ask again when they read again, which is not from the same place on. So it is of all that was asked together that tailrace asked
  of no origin too few, and of the same prepared transactions (`check_same_filters`).
- Blocks of transactions in progress (`blocks_apart`). Where they end depends on bytes of memory there, on bytes of WAL and on windows here. What is
  called in all blocks of a transaction together is compared, and what is called outside of blocks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from support.cases import DBNAME, read_archive
from support.tracing import CALLS, PLUGINS
from tailrace.catalog.state.state_file import write_state
from tailrace.cli.choice import On
from tailrace.cli.new_slot import captured, new_slot
from tailrace.errors import TailraceError
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, Source, capture
from tailrace.plugins.registry import register_plugin
from tailrace.slots.create_command import CreateReplicationSlot, PastMoment
from tailrace.sql.postgres_session import PostgresSession
from tailrace.sql.query.duckdb_engine import DuckDbEngine
from tailrace.sql.source_database import SourceDatabase

FOLDER = Path(__file__).parents[1] / "calls"
_SILENT = ("startup", "shutdown", "filter_by_origin", "filter_prepare")
_XID = re.compile(r"xid=(\d+)")


@dataclass(slots=True)
class Asked:
    """One call of a function on a slot: `what` is create, get, peek, copy or advance; `end_lsn` is where the log ended then, for `create` where the
    slot begins. `calls` came of it, and the error, if any."""

    what: str
    slot: str
    plugin: str = ""
    two_phase: bool = False
    options: dict[str, str] = field(default_factory=dict)
    upto_lsn: str = ""
    upto_nchanges: int = 0
    work_mem: str = "64MB"
    end_lsn: str = ""
    error: str = ""
    calls: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """What was asked on the first line, in JSON, without what goes without saying."""
        unsaid = asdict(Asked(self.what, self.slot))
        said = {name: value for name, value in asdict(self).items() if name in ("what", "slot") or value != unsaid[name]}
        return "\n".join(
            [json.dumps({name: said[name] for name in said if name != "calls"}), *(f"\t{call}" for call in self.calls)]
        )


def write_asked(path: Path, asked: list[Asked]) -> None:
    path.write_text("".join(each.text + "\n" for each in asked))


def read_asked(path: Path) -> list[Asked]:
    found: list[Asked] = []
    for line in path.read_text().splitlines():
        if line.startswith("\t"):
            found[-1].calls.append(line[1:])
        else:
            found.append(Asked(**json.loads(line)))
    return found


def replay(recorded: Path, folder: Path) -> Iterator[tuple[Asked, list[str], str]]:
    """What tailrace calls, and its error, for each that was asked, when the log is as long as it was then. Works below `folder`."""
    for name, kind in PLUGINS.items():
        register_plugin(name, kind)
    (archive,) = recorded.glob("*.tar.xz")
    (text,) = recorded.glob("*.txt")
    asked = read_asked(text)
    files, data_dir = read_archive(archive), folder / "data"
    _write_files(data_dir, {name: data for name, data in files.items() if not name.startswith("pg_wal/")})
    _write_files(data_dir, _ended_at(files, Lsn.parse(asked[0].end_lsn)))
    catalog = folder / "catalog"
    catalog.write_bytes(write_state(capture(Source.open(data_dir), LocalRunner(1), DBNAME)))
    session = PostgresSession(
        SourceDatabase(data_dir, DBNAME, folder / "state", lambda _: LocalRunner(1), lambda _: None), DuckDbEngine().run
    )
    for each in asked:
        _write_files(data_dir, _ended_at(files, Lsn.parse(each.end_lsn)))
        CALLS.clear()
        error = ""
        try:
            if each.what == "create":
                _create(each, data_dir, catalog, folder / "state")
            else:
                _ask(session, each)
        except TailraceError as raised:
            error = raised.message.removeprefix("ValueError: ")
        yield each, list(CALLS), error
    session.close()


def _ended_at(files: Mapping[str, bytes], end: Lsn) -> dict[str, bytes]:
    """The segments of a log that ends there."""
    ended: dict[str, bytes] = {}
    for name, data in files.items():
        if name.startswith("pg_wal/"):
            begin = int(name[-8:], 16) * len(data)  # of the first 4 GB
            ended[name] = data[: max(0, end - begin)].ljust(len(data), b"\0")
    return {name: data for name, data in ended.items() if any(data)}


def _write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def _create(each: Asked, data_dir: Path, catalog: Path, state: Path) -> None:
    """At the place in the log where the server's begins."""
    command = CreateReplicationSlot(
        name=each.slot, source=str(data_dir), database=DBNAME, plugin=each.plugin, catalog=captured(catalog), two_phase=each.two_phase,
        moment=PastMoment(each.end_lsn, Lsn.parse(each.end_lsn)),
    )  # fmt: skip
    location, new = new_slot(command, state, On.LOCAL, None)
    new.persist(location)


def _ask(session: PostgresSession, each: Asked) -> None:
    with session.execute(f"SET logical_decoding_work_mem = '{each.work_mem}'"):
        pass
    with session.execute(statement(each)) as result:
        rows = result.columns[0].cells if result.columns else []
        if each.what in ("get", "peek"):
            assert rows == [call for call in CALLS if not call.startswith(_SILENT)]


def statement(each: Asked) -> str:
    """What is asked, in SQL. A slot is copied from the one called s."""
    if each.what == "copy":
        return f"SELECT slot_name FROM pg_copy_logical_replication_slot('s', '{each.slot}', false, '{each.plugin}')"
    if each.what == "advance":
        return f"SELECT end_lsn FROM pg_replication_slot_advance('{each.slot}', '{each.upto_lsn}')"
    words = ", ".join(f"'{word}'" for option in each.options.items() for word in option)
    upto, most = f"'{each.upto_lsn}'" if each.upto_lsn else "NULL", each.upto_nchanges or "NULL"
    return f"SELECT data FROM pg_logical_slot_{each.what}_changes('{each.slot}', {upto}, {most}, VARIADIC ARRAY[{words}]::text[])"


# -- what is compared -----------------------------------------------------------------------------------------------------------------


def without_filters(calls: list[str]) -> list[str]:
    return [call for call in calls if not call.startswith("filter_")]


def blocks_apart(calls: list[str]) -> tuple[list[str], dict[str, list[str]]]:
    """What is called outside of blocks, in order; and by xid what is in all blocks of a transaction, in order."""
    outside: list[str] = []
    blocks: dict[str, list[str]] = {}
    within: list[str] | None = None
    for call in calls:
        xid = _XID.search(call)
        if call.startswith("stream_start "):
            assert within is None, "a block in a block"
            assert xid is not None
            within = blocks.setdefault(xid[1], [])
        elif call.startswith("stream_stop "):
            assert within is not None, "no block to stop"
            within = None
        else:
            (outside if within is None else within).append(call)
    assert within is None, "a block that is not stopped"
    return outside, blocks


def check_same_calls(found: list[str], expected: list[str]) -> None:
    """By the rules above; of a transaction that goes on, one may have been told of more than the other."""
    outside, blocks = blocks_apart(without_filters(found))
    expected_outside, expected_blocks = blocks_apart(without_filters(expected))
    assert outside == expected_outside
    assert blocks.keys() == expected_blocks.keys()
    for xid, block in blocks.items():
        expected_block = expected_blocks[xid]
        ended = any(call.startswith(("stream_commit", "stream_prepare")) and f"xid={xid} " in call for call in outside)
        upto = None if ended else min(len(block), len(expected_block))
        assert block[:upto] == expected_block[:upto]
        assert block
        assert expected_block


def check_same_filters(found: list[str], expected: list[str]) -> None:
    """What was asked at all, and there was something to ask."""
    for callback in ("filter_by_origin", "filter_prepare"):
        asked, expected_asked = ({call for call in calls if call.startswith(callback)} for calls in (found, expected))
        assert expected_asked
        assert asked >= expected_asked
        assert callback == "filter_by_origin" or asked == expected_asked
