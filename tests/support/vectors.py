"""Messages that real servers sent: recorded sessions of pgoutput on 15, 16 and 18, one per setting of its options
(`tests/cases/pgoutput_vectors.jsonl.xz`).

Each line of a session is a message: its bytes, and what a reader that is not ours read in them. Bulk inserts are left out of a session, and so are
messages that the recorder had cut.
"""

from __future__ import annotations

import json
import lzma
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tailrace.logicalproto import message as m
from tailrace.model import Lsn

FILE = Path(__file__).parents[1] / "cases/pgoutput_vectors.jsonl.xz"
_CUT = 40
"""Long values are cut in the facts, behind so many characters at least."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """`facts` are what the recorder says of each of `payloads`."""

    name: str
    proto_version: int
    streaming: str
    payloads: tuple[bytes, ...]
    facts: tuple[dict[str, Any], ...]


@cache
def recorded_sessions() -> tuple[Recorded, ...]:
    sessions: list[Recorded] = []
    for line in lzma.decompress(FILE.read_bytes()).decode().splitlines():
        fields = json.loads(line)
        if "session" in fields:
            sessions.append(Recorded(fields["session"], fields["proto_version"], fields["streaming"], (), ()))
        else:
            last = sessions[-1]
            more = (*last.payloads, bytes.fromhex(fields["payload"])), (*last.facts, fields["decoded"])
            sessions[-1] = Recorded(last.name, last.proto_version, last.streaming, *more)
    return tuple(sessions)


def facts_of(message: m.AnyMessage) -> dict[str, Any]:
    """A message in the recorder's terms."""
    match message:
        case m.Begin():
            told = {"final_lsn": str(message.final_lsn), "ts": message.commit_timestamp, "xid": message.xid}
        case m.Commit():
            told = {**_lsns(message, "commit_lsn", "end_lsn"), "flags": 0, "ts": message.commit_timestamp}
        case m.StreamCommit():
            told = {**_lsns(message, "commit_lsn", "end_lsn"), "flags": 0, "ts": message.commit_timestamp, "xid": message.xid}
        case m.Origin():
            told = {"origin_lsn": str(message.commit_lsn), "name": message.name}
        case m.Type():
            told = {"oid": message.type_oid, "ns": message.namespace, "name": message.name}
        case m.Relation():
            columns = [[each.flags, each.name, each.type_oid, each.type_modifier] for each in message.columns]
            told = {
                "relid": message.relation_oid, "ns": message.namespace, "rel": message.name, "replident": message.replica_identity,
                "cols_flag_name_typoid_typmod": columns,
            }  # fmt: skip
        case m.Insert() | m.Update() | m.Delete():
            told = {"relid": message.relation_oid, **_tuples(message)}
        case m.Truncate():
            told = {"n": len(message.relation_oids), "flags": message.options, "relids": list(message.relation_oids)}
        case m.Message():
            content = message.content.decode("utf-8", "backslashreplace")
            told = {"flags": message.flags, "lsn": str(message.lsn), "prefix": message.prefix, "content": content}
        case m.StreamStart():
            told = {"xid": message.xid, "first_segment": message.first_segment}
        case m.StreamAbort():
            told = {"xid": message.xid, "subxid": message.subxid}
            if message.abort_lsn is not None:
                told |= {"abort_lsn": str(message.abort_lsn), "abort_ts": message.abort_timestamp}
        case _:
            told = {name: getattr(message, name) for name in message.__slots__}
            told = {name.replace("timestamp", "ts"): str(each) if isinstance(each, Lsn) else each for name, each in told.items()}
    if getattr(message, "xid", None) is not None:
        told["xid"] = getattr(message, "xid")  # noqa: B009
    return {"msg": type(message).__name__, **told}


def _lsns(message: m.AnyMessage, *names: str) -> dict[str, str]:
    return {name: str(getattr(message, name)) for name in names}


def _tuples(message: m.Change) -> dict[str, Any]:
    old, new = getattr(message, "old", None), getattr(message, "new", None)
    told: dict[str, Any] = {}
    if old is not None:
        told |= {"old_kind": old.marker, "old": _columns(old)}
    if new is not None:
        told |= {"k": "N", "new": _columns(new)}
    return told


def _columns(tuple_: m.TupleData) -> list[Any]:
    shown: list[Any] = []
    for column in tuple_.columns:
        value = column.value
        if value is None:
            shown.append(column.kind)
        else:
            shown.append([column.kind, value.hex() if column.kind == m.BINARY else value.decode()])
    return shown


def same_facts(ours: Any, theirs: Any) -> bool:
    """Whether they agree, but for what the recorder cut."""
    if isinstance(theirs, dict):
        return (
            isinstance(ours, dict) and ours.keys() == theirs.keys() and all(same_facts(ours[key], theirs[key]) for key in theirs)
        )
    if isinstance(theirs, list):
        return isinstance(ours, list) and len(ours) == len(theirs) and all(map(same_facts, ours, theirs))
    if isinstance(theirs, str) and "...(" in theirs:
        kept = theirs.partition("...(")[0]
        return len(kept) >= _CUT and isinstance(ours, str) and ours.startswith(kept)
    return bool(ours == theirs)
