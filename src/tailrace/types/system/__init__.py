"""Types of the server's own bookkeeping: aclitem, pg_lsn, pg_snapshot, tid, and what only columns of catalogs have."""

from __future__ import annotations

from tailrace.types.codec import Codec
from tailrace.types.codec.binary_forms import receive_swapped, send_bytes, send_swapped
from tailrace.types.strings.bytea import format_byteas
from tailrace.types.strings.character import format_strings
from tailrace.types.system.aclitem import format_aclitems, parse_aclitems
from tailrace.types.system.internal_types import format_dependencies, format_distincts, format_nothing, refuse_texts
from tailrace.types.system.pg_lsn import format_lsns, parse_lsns
from tailrace.types.system.pg_snapshot import format_snapshots, parse_snapshots, receive_snapshots, send_snapshots
from tailrace.types.system.tid import format_tids, parse_tids

ACLITEM = Codec(format=format_aclitems, parse=parse_aclitems)
PG_LSN = Codec(format=format_lsns, parse=parse_lsns, send=send_swapped(8), receive=receive_swapped(8))
PG_SNAPSHOT = Codec(format=format_snapshots, parse=parse_snapshots, send=send_snapshots, receive=receive_snapshots)
TID = Codec(format=format_tids, parse=parse_tids, send=send_swapped(2, 2, 2), receive=receive_swapped(2, 2, 2))

PG_NODE_TREE = Codec(format=format_strings, parse=refuse_texts, send=send_bytes)
PG_NDISTINCT = Codec(format=format_distincts, parse=refuse_texts, send=send_bytes)
PG_DEPENDENCIES = Codec(format=format_dependencies, parse=refuse_texts, send=send_bytes)
PG_MCV_LIST = Codec(format=format_byteas, parse=refuse_texts, send=send_bytes)
PG_BRIN_SUMMARY = Codec(format=format_nothing, parse=refuse_texts, send=send_bytes)
GTSVECTOR = Codec(format=format_nothing, parse=refuse_texts)
