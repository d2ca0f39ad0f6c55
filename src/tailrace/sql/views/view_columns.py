"""The columns of the views and catalogs of replication, by major, in order (`catalog/system_views.sql`, `catalog/pg_publication*.h`)."""

from __future__ import annotations

from tailrace.catalog.rows.layouts import columns_in, layouts_of
from tailrace.majors import Compared
from tailrace.model import NAMEDATALEN
from tailrace.sql.functions.signatures import Columns

_VIEWS = {
    "pg_replication_slots": """
        slot_name:name plugin:name slot_type:text datoid:oid database:name temporary:bool active:bool active_pid:int4 xmin:xid catalog_xmin:xid
        restart_lsn:pg_lsn confirmed_flush_lsn:pg_lsn wal_status:text safe_wal_size:int8 two_phase:bool two_phase_at:pg_lsn:18-
        inactive_since:timestamptz:17- conflicting:bool:16- invalidation_reason:text:17- failover:bool:17- synced:bool:17-""",
    "pg_stat_replication_slots": """
        slot_name:text spill_txns:int8 spill_count:int8 spill_bytes:int8 stream_txns:int8 stream_count:int8 stream_bytes:int8 total_txns:int8
        total_bytes:int8 stats_reset:timestamptz""",
    "pg_stat_replication": """
        pid:int4 usesysid:oid usename:name application_name:text client_addr:inet client_hostname:text client_port:int4
        backend_start:timestamptz backend_xmin:xid state:text sent_lsn:pg_lsn write_lsn:pg_lsn flush_lsn:pg_lsn replay_lsn:pg_lsn
        write_lag:interval flush_lag:interval replay_lag:interval sync_priority:int4 sync_state:text reply_time:timestamptz""",
    "pg_stat_activity": """
        datid:oid datname:name pid:int4 leader_pid:int4 usesysid:oid usename:name application_name:text client_addr:inet client_hostname:text
        client_port:int4 backend_start:timestamptz xact_start:timestamptz query_start:timestamptz state_change:timestamptz wait_event_type:text
        wait_event:text state:text backend_xid:xid backend_xmin:xid query_id:int8 query:text backend_type:text""",
    "tailrace_synchronous_lsn": "write_lsn:pg_lsn flush_lsn:pg_lsn replay_lsn:pg_lsn",
    "pg_replication_origin_status": "local_id:oid external_id:text remote_lsn:pg_lsn local_lsn:pg_lsn",
    "pg_publication": """
        oid:oid pubname:name pubowner:oid puballtables:bool pubinsert:bool pubupdate:bool pubdelete:bool pubtruncate:bool pubviaroot:bool
        pubgencols:char:18-""",
    "pg_publication_tables": "pubname:name schemaname:name tablename:name attnames:name[]:15- rowfilter:text:15-",
    "pg_publication_rel": "oid:oid prpubid:oid prrelid:oid prqual:pg_node_tree:15- prattrs:int2vector:15-",
    "pg_roles": """
        rolname:name rolsuper:bool rolinherit:bool rolcreaterole:bool rolcreatedb:bool rolcanlogin:bool rolreplication:bool rolconnlimit:int4
        rolpassword:text rolvaliduntil:timestamptz rolbypassrls:bool rolconfig:text[] oid:oid""",
}
_FUNCTIONS = {
    "pg_get_publication_tables": "pubid:oid:16- relid:oid attrs:int2vector:15- qual:pg_node_tree:15-",
    "pg_partition_tree": "relid:regclass parentrelid:regclass isleaf:bool level:int4",
}
COMPARED = Compared(__name__, "catalog/system_views.sql, catalog/pg_publication*.h, and catalog/pg_proc.dat", upto=18)
_BY_MAJOR = COMPARED.made(lambda major: {name: columns_in(text, major) for name, text in _VIEWS.items()})


_FUNCTIONS_BY_MAJOR = COMPARED.made(lambda major: {name: columns_in(text, major) for name, text in _FUNCTIONS.items()})


SETTINGS_COLUMNS = columns_in(
    "name:text setting:text unit:text category:text short_desc:text extra_desc:text context:text vartype:text source:text min_val:text max_val:text"
    " enumvals:text[] boot_val:text reset_val:text sourcefile:text sourceline:int4 pending_restart:bool", 18,
)  # fmt: skip
"""Of pg_settings, which only a server has."""


def views_of(major: int) -> dict[str, Columns]:
    """By the name of the view, without its schema, which is pg_catalog."""
    return _BY_MAJOR[major]


def function_columns(major: int) -> dict[str, Columns]:
    """Of functions in FROM that tell of the catalogs, by name."""
    return _FUNCTIONS_BY_MAJOR[major]


_KINDS = {
    **dict.fromkeys(("indkey", "prattrs", "indoption"), "int2vector"),
    **dict.fromkeys(("proargtypes", "indcollation", "indclass"), "oidvector"),
    **dict.fromkeys(("indpred", "indexprs", "prqual", "adbin", "relpartbound"), "pg_node_tree"),
    **dict.fromkeys(("relacl", "attacl", "datacl", "nspacl"), "aclitem[]"),
    **dict.fromkeys(("enumsortorder", "procost", "prorows"), "float4"),
    **dict.fromkeys(
        ("datcollate", "datctype", "daticulocale", "datlocale", "roname", "daticurules", "datcollversion", "collcollate", "collctype",
         "colliculocale", "colllocale", "collicurules", "collversion", "description"), "text",
    ),
    **dict.fromkeys(
        ("atttypmod", "typtypmod", "collencoding", "encoding", "datconnlimit", "inhseqno", "typndims", "attndims", "attinhcount", "attstattarget",
         "rolconnlimit", "objsubid"), "int4",
    ),
    "rolvaliduntil": "timestamptz", "reloptions": "text[]",
}  # fmt: skip
_LETTERS = frozenset(
    {
        "relpersistence", "relkind", "relreplident", "attalign", "attstorage", "attcompression", "attgenerated", "attidentity", "typtype",
        "typcategory", "typdelim", "typalign", "typstorage", "datlocprovider", "collprovider", "pubgencols", "prokind", "provolatile", "proparallel",
        "oprkind",
    }
)  # fmt: skip
_BY_LENGTH = {4: "oid", 2: "int2", NAMEDATALEN: "name"}
_NOT_SHOWN = frozenset(
    {
        "relpages", "reltuples", "relallvisible", "relallfrozen", "relfrozenxid", "relminmxid", "datfrozenxid", "datminmxid",
        "datlastsysoid", "attcacheoff", "typsubscript", "typinput", "typoutput", "typreceive", "typsend", "typmodin", "typmodout",
        "typanalyze", "prosupport", "attmissingval", "attoptions", "attfdwoptions", "prosrc", "rolpassword",
        "typdefaultbin", "typdefault", "typacl", "proallargtypes", "proargmodes", "proargnames", "proargdefaults", "protrftypes",
    }
)  # fmt: skip
"""What is of the moment, names of functions, what lies in TOAST tables that are not tracked, passwords."""


def catalog_columns(name: str, major: int) -> Columns:
    """The columns of a tracked catalog that are shown, in its own order."""
    layout = layouts_of(major)[name]
    return tuple(
        (column, _kind(column, length))
        for column, length in zip(layout.names, layout.lengths, strict=True)
        if column not in _NOT_SHOWN
    )


def _kind(column: str, length: int) -> str:
    if column in _LETTERS:
        return "char"
    return _BY_LENGTH[length] if length in (2, NAMEDATALEN) else _KINDS.get(column, _BY_LENGTH.get(length, "bool"))
