"""What a server is asked before its tables are copied: whether the publications that are named exist, whether the role may read the rows,
and whether it may know what a snapshot has seen, and read large tables by their pages.

Queries run with search_path pg_catalog.
"""

from __future__ import annotations

from tailrace.client.catalog_files import READING
from tailrace.client.doctor.checks import NAMED, Check
from tailrace.client.doctor.database_checks import TABLES
from tailrace.client.table_pages import LEAST_BYTES, MAY_CHECKPOINT

PUBLICATIONS = Check(
    "publications",
    f"""
    SELECT 'stops', format('publication %I does not exist', name)
               || coalesce((SELECT '; there are ' || string_agg(quote_ident(pubname), ', ' ORDER BY pubname) FROM pg_publication), ''),
           format('CREATE PUBLICATION %I FOR …;', name)
    FROM json_array_elements_text(current_setting('{NAMED}')::json) AS name WHERE name NOT IN (SELECT pubname FROM pg_publication)""",
    "those that are named exist",
)
_WANTED = f"""
    {TABLES},
    named AS (SELECT json_array_elements_text(current_setting('{NAMED}')::json) AS name),
    published AS (
        SELECT relation.oid FROM pg_publication_tables JOIN pg_namespace AS schema ON nspname = schemaname
        JOIN pg_class AS relation ON relnamespace = schema.oid AND relname = tablename WHERE pubname IN (SELECT name FROM named)),
    wanted AS (
        SELECT oid, name, relkind, relnamespace, has_schema_privilege(relnamespace, 'USAGE') AS may_use,
               has_table_privilege(oid, 'SELECT') AS may_read
        FROM tables
        WHERE CASE WHEN EXISTS (SELECT FROM named) THEN oid IN (SELECT oid FROM published) ELSE relkind = 'r' AND relpersistence = 'p' END)"""
ROWS = Check(
    "rows",
    f"""
    WITH {_WANTED}
    SELECT 'stops', format('role %I may not use schema %s, whose tables are to be copied', session_user, namespace),
           format('GRANT USAGE ON SCHEMA %s TO %I;', namespace, session_user)
    FROM (SELECT DISTINCT relnamespace::regnamespace::text AS namespace FROM wanted WHERE NOT may_use) AS schemas
    UNION ALL
    SELECT 'stops', format('role %I may not read table %s, which is to be copied', session_user, name),
           format('GRANT SELECT ON %s TO %I;', name, session_user)
    FROM wanted WHERE NOT may_read
    UNION ALL
    SELECT 'stops', format('policies of table %s may hide rows from role %I: it is not copied', name, session_user),
           format('ALTER ROLE %I BYPASSRLS;', session_user)
    FROM wanted WHERE may_read AND row_security_active(oid)
    ORDER BY 2""",
    "the role may read all that are to be copied",
)
SNAPSHOTS = Check(
    "snapshots",
    f"""
    SELECT 'stops', format('role %I may not read files, of which a standby''s alone says which transactions a snapshot has seen: no table is copied',
                           session_user),
           format('GRANT EXECUTE ON FUNCTION {READING} TO %I;  -- in database %I', session_user, current_database())
    WHERE pg_is_in_recovery() AND NOT has_function_privilege('{READING}', 'EXECUTE')""",
    "the role may know which transactions one has seen",
)
PAGES = Check(
    "pages",
    f"""
    WITH {_WANTED},
    large AS (SELECT count(*) AS tables FROM wanted WHERE relkind = 'r' AND may_read AND pg_relation_size(oid) >= {LEAST_BYTES}),
    obstacles (stands, why, remedy) AS (VALUES
        (pg_is_in_recovery(), 'it is a standby', ''),
        (current_setting('data_checksums') <> 'on', 'the cluster has no data checksums', ''),
        (NOT has_function_privilege('{READING}', 'EXECUTE'), format('role %I may not read files', session_user),
         format('GRANT EXECUTE ON FUNCTION {READING} TO %I;  -- in database %I', session_user, current_database())),
        (NOT {MAY_CHECKPOINT},
         format('role %I may not make a checkpoint', session_user),
         CASE WHEN EXISTS (SELECT FROM pg_roles WHERE rolname = 'pg_checkpoint') THEN format('GRANT pg_checkpoint TO %I;', session_user) ELSE '' END))
    SELECT 'note', format('%s of {LEAST_BYTES >> 20} MB and more %s copied row by row, for several times the CPU: %s',
               CASE tables WHEN 1 THEN '1 table' ELSE format('%s tables', tables) END, CASE tables WHEN 1 THEN 'is' ELSE 'are' END, why), remedy
    FROM large, obstacles WHERE tables > 0 AND stands AND (why = 'it is a standby' OR NOT pg_is_in_recovery())""",
    "those of large tables may be read",
)
