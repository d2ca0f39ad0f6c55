"""PostgreSQL's list of resource managers (`access/rmgrlist.h`) as data, and what decoding does with each.

A manager is either read or listed in IGNORED with the reason. Every record of every manager still counts for its xid.
"""

from __future__ import annotations

import re

from tailrace.errors import UsageError

XLOG = 0
XACT = 1
SMGR = 2
DBASE = 4
MULTIXACT = 6
RELMAP = 7
STANDBY = 8
HEAP2 = 9
HEAP = 10
LOGICALMSG = 21
FIRST_CUSTOM = 128

NAMES = (
    "XLOG", "Transaction", "Storage", "CLOG", "Database", "Tablespace", "MultiXact", "RelMap", "Standby", "Heap2", "Heap",
    "Btree", "Hash", "Gin", "Gist", "Sequence", "SPGist", "BRIN", "CommitTs", "ReplicationOrigin", "Generic", "LogicalMessage",
)  # fmt: skip

READ = frozenset({XLOG, XACT, SMGR, DBASE, RELMAP, STANDBY, HEAP2, HEAP, LOGICALMSG})
IGNORED = {
    3: "commit status follows from commit and abort records",
    5: "tablespaces are named by oid in every locator",
    6: "who locked a row does not change what it says; updaters are named by the heap records",
    11: "index", 12: "index", 13: "index", 14: "index", 16: "index", 17: "index",
    15: "sequences are not decoded by PostgreSQL either",
    18: "commit times are in the commit records",
    19: "progress of origins; their names are in pg_replication_origin",
    20: "used by index extensions only",
}  # fmt: skip


def name_of(manager: int) -> str:
    """As pg_waldump prints it; custom managers by number."""
    return NAMES[manager] if manager < len(NAMES) else f"custom{manager:03d}"


def manager_named(name: str) -> int:
    """The number of the manager that pg_waldump prints so. Raises UsageError if there is none."""
    for manager, known in enumerate(NAMES):
        if known.lower() == name.lower():
            return manager
    if re.fullmatch(r"custom\d{3}", name):
        return int(name.removeprefix("custom"))
    raise UsageError(
        f'resource manager "{name}" does not exist', hint=f"There are {', '.join(NAMES)}, and custom128 to custom255."
    )
