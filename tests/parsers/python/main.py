"""Reads messages of pgoutput with pypgoutput: a 4-byte length and a message each, from standard input, and prints what it read, a line each.

Arguments: the file of its decoders, whose package needs a database driver to be imported. LSNs are printed as PostgreSQL prints them, times in
microseconds since 2000, values in hex. There is no parser of its for types and origins.
"""

from __future__ import annotations

import importlib.util
import json
import struct
import sys
from datetime import datetime, timedelta, timezone
from typing import Any

_EPOCH = datetime(2000, 1, 1, tzinfo=timezone.utc)  # noqa: UP017


def decoders(path: str) -> Any:
    spec = importlib.util.spec_from_file_location("decoders", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["decoders"] = module
    spec.loader.exec_module(module)
    return module


def told(read: Any, data: bytes) -> dict[str, Any]:
    kinds = {"B": "Begin", "C": "Commit", "R": "Relation", "I": "Insert", "U": "Update", "D": "Delete", "T": "Truncate"}
    kind = chr(data[0])
    if kind not in kinds:
        return {"unread": kind}
    found = getattr(read, kinds[kind])(data)
    match kind:
        case "B":
            said = {"final_lsn": _lsn(found.lsn), "ts": _since(found.commit_ts), "xid": found.tx_xid}
        case "C":
            lsns = {"commit_lsn": _lsn(found.lsn_commit), "end_lsn": _lsn(found.lsn)}
            said = {"flags": found.flags, **lsns, "ts": _since(found.commit_ts)}
        case "R":
            columns = [[each.part_of_pkey, each.name, each.type_id, each.atttypmod] for each in found.columns]
            said = {"relid": found.relation_id, "ns": found.namespace, "rel": found.relation_name}
            said |= {"replident": found.replica_identity_setting, "cols_flag_name_typoid_typmod": columns}
        case "T":
            said = {"n": found.number_of_relations, "flags": found.option_bits, "relids": found.relation_ids}
        case "I":
            said = {"relid": found.relation_id, "new": _columns(found.new_tuple)}
        case "U":
            said = {"relid": found.relation_id, "new": _columns(found.new_tuple)}
            if found.old_tuple is not None:
                said |= {"old_kind": found.optional_tuple_identifier, "old": _columns(found.old_tuple)}
        case _:
            said = {"relid": found.relation_id, "old_kind": found.message_type, "old": _columns(found.old_tuple)}
    return {"msg": kinds[kind], **said}


def _lsn(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def _since(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1)


def _columns(row: Any) -> list[Any]:
    return [
        each.col_data_category if each.col_data is None else [each.col_data_category, each.col_data.encode().hex()]
        for each in row.column_data
    ]


def main() -> None:
    read = decoders(sys.argv[1])
    while head := sys.stdin.buffer.read(4):
        data = sys.stdin.buffer.read(struct.unpack(">I", head)[0])
        try:
            line = told(read, data)
        except Exception as error:
            line = {"error": repr(error)}
        print(json.dumps(line))


main()
