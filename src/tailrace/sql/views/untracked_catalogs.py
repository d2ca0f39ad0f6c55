"""Catalogs that decoding does not track, and that clients join with those that it does: psql's `\\d`, above all.

What every cluster has of them is written here, and of which of them a server is asked, where the log is received from one. Of the others nothing is
known, and they are read as empty: those whose rows only add lines, and then whoever reads them is told so. All else, sequences say, is refused
(`Relations.columns_of`), for there psql would print something that is not so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tailrace.catalog.rows.layouts import columns_in
from tailrace.errors import UsageError
from tailrace.majors import Compared
from tailrace.sql.functions.signatures import Columns

ACCESS_METHODS = {
    2: ("heap", "t"), 403: ("btree", "i"), 405: ("hash", "i"), 783: ("gist", "i"), 2742: ("gin", "i"), 4000: ("spgist", "i"), 3580: ("brin", "i"),
}  # fmt: skip
"""pg_am.dat: oid, name and type. Those of extensions are not known."""
_BUILT_IN = {"pg_am": "oid:oid amname:name amtype:char"}
_EMPTY = {
    "pg_constraint": """
        oid:oid conname:name connamespace:oid contype:char condeferrable:bool condeferred:bool conenforced:bool:18- convalidated:bool
        conrelid:oid contypid:oid conindid:oid conparentid:oid confrelid:oid confupdtype:char confdeltype:char confmatchtype:char
        conislocal:bool coninhcount:int4:-16 coninhcount:int2:17- connoinherit:bool conperiod:bool:18- conkey:int2[] confkey:int2[]
        conpfeqop:oid[] conppeqop:oid[] conffeqop:oid[] confdelsetcols:int2[]:15- conexclop:oid[] conbin:pg_node_tree""",
    "pg_policy": """
        oid:oid polname:name polrelid:oid polcmd:char polpermissive:bool polroles:oid[] polqual:pg_node_tree polwithcheck:pg_node_tree""",
    "pg_statistic_ext": """
        oid:oid stxrelid:oid stxname:name stxnamespace:oid stxowner:oid stxstattarget:int4:-16 stxkeys:int2vector stxstattarget:int2:17-
        stxkind:char[] stxexprs:pg_node_tree""",
    "pg_trigger": """
        oid:oid tgrelid:oid tgparentid:oid tgname:name tgfoid:oid tgtype:int2 tgenabled:char tgisinternal:bool tgconstrrelid:oid
        tgconstrindid:oid tgconstraint:oid tgdeferrable:bool tginitdeferred:bool tgnargs:int2 tgattr:int2vector tgargs:bytea
        tgqual:pg_node_tree tgoldtable:name tgnewtable:name""",
    "pg_subscription": """
        oid:oid subdbid:oid subskiplsn:pg_lsn:15- subname:name subowner:oid subenabled:bool subbinary:bool substream:bool:-15
        substream:char:16- subtwophasestate:char:15- subdisableonerr:bool:15- subpasswordrequired:bool:16- subrunasowner:bool:16-
        subfailover:bool:17- subconninfo:text subslotname:name subsynccommit:text subpublications:text[] suborigin:text:16-""",
    "pg_subscription_rel": "srsubid:oid srrelid:oid srsubstate:char srsublsn:pg_lsn",
    "pg_depend": "classid:oid objid:oid objsubid:int4 refclassid:oid refobjid:oid refobjsubid:int4 deptype:char",
    "pg_auth_members": """
        oid:oid:16- roleid:oid member:oid grantor:oid admin_option:bool inherit_option:bool:16- set_option:bool:16-""",
    "pg_db_role_setting": "setdatabase:oid setrole:oid setconfig:text[]",
    "pg_rewrite": """
        oid:oid rulename:name ev_class:oid ev_type:char ev_enabled:char is_instead:bool ev_qual:pg_node_tree ev_action:pg_node_tree""",
    "pg_tablespace": "oid:oid spcname:name spcowner:oid spcacl:aclitem[] spcoptions:text[]",
}  # fmt: skip
_REFUSED = frozenset(
    {
        "pg_aggregate", "pg_amop", "pg_amproc", "pg_cast", "pg_conversion", "pg_default_acl", "pg_event_trigger", "pg_extension",
        "pg_foreign_data_wrapper", "pg_foreign_server", "pg_foreign_table", "pg_init_privs", "pg_language", "pg_largeobject",
        "pg_largeobject_metadata", "pg_opclass", "pg_opfamily", "pg_parameter_acl", "pg_partitioned_table", "pg_seclabel",
        "pg_sequence", "pg_shdepend", "pg_shdescription", "pg_shseclabel", "pg_statistic", "pg_statistic_ext_data",
        "pg_transform", "pg_ts_config_map", "pg_ts_parser", "pg_ts_template", "pg_user_mapping",
    }
)  # fmt: skip
SOURCE_QUERIES = {
    "pg_subscription_rel": "SELECT srsubid::bigint, srrelid::bigint, srsubstate::text, (srsublsn - '0/0')::bigint FROM pg_subscription_rel"
}
"""What is asked of a server. By pg_subscription_rel a subscriber with origin = none finds out that its publisher has tables from others
(check_publications_origin in subscriptioncmds.c)."""
UNREAD = {"pg_am": frozenset({"amhandler"})}
"""Columns that they have on the server only."""
COMPARED = Compared(__name__, "the columns of pg_attribute on a server", upto=18)
_COLUMNS = COMPARED.made(lambda major: {name: columns_in(text, major) for name, text in (_BUILT_IN | _EMPTY).items()})


def untracked_columns(name: str, major: int) -> Columns | None:
    """None for what is no catalog. Raises UsageError (0A000) for one that is refused."""
    if name in _REFUSED:
        message = f"{name} is not tracked, so it cannot be read outside of the server"
        raise UsageError(message, hint="With --connect DSN it goes to a server.", sqlstate="0A000")
    return _COLUMNS[major].get(name)


def is_taken_for_empty(name: str) -> bool:
    return name in _EMPTY


def built_in_rows(name: str) -> Iterator[list[Any]]:
    """What every cluster has of a catalog."""
    if name == "pg_am":
        yield from ([oid, method, kind] for oid, (method, kind) in ACCESS_METHODS.items())
