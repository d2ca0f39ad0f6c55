"""What a server is asked before its tables are copied: whether the publications that are named exist, and whether the role may read the rows.

Queries run with search_path pg_catalog. `tailrace.publications` is a JSON array of the publications' names, which is empty where all tables are
wanted.
"""

from __future__ import annotations

from tailrace.client.doctor.checks import Check
from tailrace.client.doctor.database_checks import TABLES

SETTING = "tailrace.publications"

PUBLICATIONS = Check(
    "publications",
    f"""
    SELECT 'stops', format('publication %I does not exist', name), format('CREATE PUBLICATION %I FOR …;', name)
    FROM json_array_elements_text(current_setting('{SETTING}')::json) AS name WHERE name NOT IN (SELECT pubname FROM pg_publication)""",
    "those that are named exist",
)
ROWS = Check(
    "rows",
    f"""
    WITH {TABLES},
    named AS (SELECT json_array_elements_text(current_setting('{SETTING}')::json) AS name),
    published AS (
        SELECT relation.oid FROM pg_publication_tables JOIN pg_namespace AS schema ON nspname = schemaname
        JOIN pg_class AS relation ON relnamespace = schema.oid AND relname = tablename WHERE pubname IN (SELECT name FROM named)),
    wanted AS (
        SELECT oid, name, relnamespace, has_schema_privilege(relnamespace, 'USAGE') AS may_use,
               has_table_privilege(oid, 'SELECT') AS may_read
        FROM tables
        WHERE CASE WHEN EXISTS (SELECT FROM named) THEN oid IN (SELECT oid FROM published) ELSE relkind = 'r' AND relpersistence = 'p' END)
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
