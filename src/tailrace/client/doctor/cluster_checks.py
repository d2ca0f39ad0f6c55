"""What a server is asked once, of all its databases: settings, rights of the role, and what holds back its log.

Queries run with search_path pg_catalog. Two parameters of the session are ours: tailrace.old_after, from which age on a transaction is old, and
tailrace.walsenders, how many walsenders are of this examination itself.
"""

from __future__ import annotations

from tailrace.client.doctor.checks import Check
from tailrace.client.doctor.findings import NOTE, STOPS, WARNING
from tailrace.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Setting:
    """A parameter of the server. `wanted` is a condition of SQL on its `setting`, `severity` and `otherwise` are said where that does not hold, and
    `remedy` then is what to do: the value to set, and what makes that count."""

    name: str
    wanted: str
    severity: str
    otherwise: str
    value: str = ""
    then: str = "-- then SELECT pg_reload_conf();"
    command: str = ""


_RESTART = "-- then restart the server"
_ON_COMMAND_LINE = (
    "CASE source WHEN 'command line' THEN ' (it is on the server''s command line, which must be changed instead)' ELSE '' END"
)
PRIMARYS_OWN = (
    Setting("wal_level", "= 'logical'", STOPS, "what is written below logical cannot be decoded", "logical", _RESTART),
    Setting(
        "full_page_writes", "= 'on'", WARNING,
        "pages of catalogs may be torn when they are read over SQL, so that these are taken from a base backup instead", "on",
    ),
)  # fmt: skip
"""Of a standby its primary's count, whatever its own say."""
SETTINGS = (
    Setting(
        "wal_keep_size", "<> '0'", WARNING,
        "the server removes with each checkpoint what has not been received by then; a receiver that was away begins anew", "'2GB'",
    ),
    Setting(
        "max_slot_wal_keep_size", "<> '-1'", NOTE, "a physical slot that nobody reads keeps WAL until the disk is full", "'20GB'"
    ),
    Setting(
        "data_checksums", "= 'on'", NOTE, "what a broken disk does to catalogs and tables is not noticed",
        command="pg_checksums --enable -D DATA  # while the server is stopped",
    ),
)  # fmt: skip


def of_setting(setting: Setting) -> Check:
    """The check that a setting is as it is wanted."""
    if setting.command:
        remedy = f"'{setting.command}'"
    else:
        quoted = setting.value.replace("'", "''")
        remedy = f"'ALTER SYSTEM SET {setting.name} = {quoted};  {setting.then}' || {_ON_COMMAND_LINE}"
    return Check(
        setting.name,
        f"""
        SELECT CASE WHEN setting {setting.wanted} THEN 'ok' ELSE '{setting.severity}' END,
               format('it is %s', current_setting(name)) || CASE WHEN setting {setting.wanted} THEN '' ELSE ': {setting.otherwise}' END,
               CASE WHEN setting {setting.wanted} THEN '' ELSE {remedy} END
        FROM pg_settings WHERE name = '{setting.name}'""",
        "it is not known there",
    )


STANDBY = Check(
    "standby",
    """
    SELECT 'note', format('it is a standby: its log comes as late as it gets it; wal_level and full_page_writes are the primary''s; no commit '
                          'there waits for what tailrace confirms; what it replays may end a copy of tables: hot_standby_feedback is %s, and '
                          'max_standby_streaming_delay %s', current_setting('hot_standby_feedback'), current_setting('max_standby_streaming_delay')),
           CASE current_setting('hot_standby_feedback')
                WHEN 'off' THEN 'ALTER SYSTEM SET hot_standby_feedback = on;  -- then SELECT pg_reload_conf();' ELSE '' END
    WHERE pg_is_in_recovery()""",
    "it is a primary",
)
ROLE = Check(
    "role",
    """
    SELECT CASE WHEN rolsuper OR rolreplication THEN 'ok' ELSE 'stops' END,
           format(CASE WHEN rolsuper THEN 'role %I is a superuser' WHEN rolreplication THEN 'role %I has REPLICATION'
                  ELSE 'role %I lacks REPLICATION, without which no log is sent' END, rolname),
           CASE WHEN rolsuper OR rolreplication THEN '' ELSE format('ALTER ROLE %I REPLICATION;', rolname) END
    FROM pg_roles WHERE rolname = session_user""",
    "",
)
WALSENDERS = Check(
    "max_wal_senders",
    """
    SELECT CASE WHEN free < 1 THEN 'stops' WHEN free < 2 THEN 'warning' ELSE 'ok' END,
           format('%s of %s walsenders are in use', used, most) || CASE WHEN free < 1 THEN ': none is left to send the log'
               WHEN free < 2 THEN ': one is left for the log, none for a base backup' ELSE '' END,
           CASE WHEN free < 2 THEN format('ALTER SYSTEM SET max_wal_senders = %s;  -- then restart the server', most + 4) ELSE '' END
    FROM (SELECT most, used, most - used AS free FROM
        (SELECT current_setting('max_wal_senders')::int AS most,
                count(*) - current_setting('tailrace.walsenders')::int AS used FROM pg_stat_replication) AS senders) AS counted""",
    "",
)
SLOTS = Check(
    "replication slots",
    """
    SELECT CASE WHEN wal_status IN ('lost', 'unreserved') OR NOT active AND behind > 1073741824 THEN 'warning'
                WHEN NOT active OR wal_status = 'extended' THEN 'note' ELSE 'ok' END,
           format('%s slot %I ', slot_type, slot_name) ||
           CASE WHEN active THEN format('(in use by pid %s) ', active_pid) ELSE '(in use by nobody) ' END ||
           CASE WHEN wal_status = 'lost' THEN 'has lost WAL that it needs, and is of no use any more'
                WHEN behind IS NULL THEN 'holds back no WAL'
                ELSE format('holds back %s of WAL, wal_status %s', pg_size_pretty(behind), wal_status) END ||
           CASE WHEN wal_status = 'unreserved' THEN ': what it needs is removed at the next checkpoint' ELSE '' END,
           CASE WHEN active THEN '' ELSE format('SELECT pg_drop_replication_slot(%L);  -- if nobody needs it', slot_name) END
    FROM (SELECT *, CASE WHEN restart_lsn IS NOT NULL THEN greatest(0, pg_wal_lsn_diff(
              CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, restart_lsn)) END AS behind
          FROM pg_replication_slots) AS slots
    ORDER BY behind DESC NULLS LAST, slot_name""",
    "there are none that hold back WAL",
)
PREPARED = Check(
    "prepared transactions",
    """
    SELECT 'warning', format('transaction %L of %I in database %I was prepared %s ago: a slot that is created waits for its end', gid, owner,
                             database, date_trunc('second', clock_timestamp() - prepared)),
           format('ROLLBACK PREPARED %L;  -- or COMMIT PREPARED, in database %I as %I', gid, database, owner)
    FROM pg_prepared_xacts WHERE clock_timestamp() - prepared >= current_setting('tailrace.old_after')::interval ORDER BY prepared""",
    "none is old",
)
TRANSACTIONS = Check(
    "open transactions",
    """
    SELECT 'warning', format('%I has had a transaction open in database %I for %s (pid %s, %s): a slot that is created waits for its end', usename,
                             datname, date_trunc('second', clock_timestamp() - xact_start), pid, state),
           format('SELECT pg_terminate_backend(%s);', pid)
    FROM pg_stat_activity
    WHERE backend_xid IS NOT NULL AND clock_timestamp() - xact_start >= current_setting('tailrace.old_after')::interval
    UNION ALL
    SELECT 'note', format('since when %s of the transactions that write are open is not shown to role %I', count(*), session_user),
           format('GRANT pg_read_all_stats TO %I;', session_user)
    FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND xact_start IS NULL AND NOT pg_has_role('pg_read_all_stats', 'USAGE')
    HAVING count(*) > 0""",
    "none that writes is old",
)
CLUSTER = (WALSENDERS, *map(of_setting, SETTINGS), SLOTS, PREPARED, TRANSACTIONS)
"""What comes behind version, standby, role and what a standby has of its primary."""
