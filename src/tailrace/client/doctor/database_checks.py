"""What a server is asked in each database: the right to read its catalogs' files, and which tables and changes will be missed.

Queries run with search_path pg_catalog, so that names come with their schemas.
"""

from __future__ import annotations

from tailrace.client.catalog_files import READING
from tailrace.client.doctor.checks import NAMED, Check
from tailrace.majors import PUBLISHED_SCHEMAS, supports

FIRST_NORMAL_OBJECT = 16384
"""Oids from here on are of what users make (`access/transam.h`)."""
TABLES = f"""
    tables AS (
        SELECT relation.oid, relation.oid::regclass AS name, relkind, relpersistence, relreplident, relam, relnamespace
        FROM pg_class AS relation JOIN pg_namespace AS schema ON schema.oid = relnamespace
        WHERE relation.oid >= {FIRST_NORMAL_OBJECT} AND relkind IN ('r', 'p', 'f') AND nspname NOT IN ('pg_catalog', 'information_schema'))"""

_FILES = Check(
    "catalogs' files",
    f"""
    SELECT CASE WHEN may THEN 'ok' ELSE 'warning' END,
           format(CASE WHEN may THEN 'role %I may read them over SQL' ELSE
               'role %I may not read them over SQL: they are taken from a base backup instead, which may send the whole cluster' END, session_user),
           CASE WHEN may THEN '' ELSE
               format('GRANT EXECUTE ON FUNCTION {READING} TO %I;  -- in database %I', session_user, current_database()) END
    FROM (SELECT has_function_privilege('{READING}', 'EXECUTE') AS may) AS role""",
    "",
)
_PUBLISHED_BY_SCHEMA = """
    OR EXISTS (SELECT FROM pg_publication_namespace WHERE pnpubid = publication.oid AND pnnspid IN (SELECT relnamespace FROM pg_class WHERE oid IN (
        SELECT line.oid UNION ALL SELECT relid FROM pg_partition_ancestors(line.oid))))"""
_NAMELESS = """
    usable AS (
        SELECT indrelid, indexrelid, indisprimary, relreplident = 'd' AND indisprimary OR relreplident = 'i' AND indisreplident AS is_identity,
               NOT EXISTS (
            SELECT FROM pg_attribute WHERE attrelid = indrelid AND attnum = ANY(indkey[:indnkeyatts - 1]) AND NOT attnotnull
        ) AND NOT 0 = ANY(indkey) AS is_not_null
        FROM pg_index JOIN tables ON tables.oid = indrelid WHERE indisunique AND indimmediate AND indisvalid AND indpred IS NULL),
    proposed AS (
        SELECT DISTINCT ON (indrelid) indrelid, indexrelid, indisprimary FROM usable WHERE is_not_null
        ORDER BY indrelid, indisprimary DESC, indexrelid),
    nameless AS (
        SELECT tables.oid, name, relpersistence, format('ALTER TABLE %s REPLICA IDENTITY %s;', name, CASE
                   WHEN indexrelid IS NULL THEN 'FULL'
                   WHEN indisprimary THEN 'DEFAULT'
                   ELSE format('USING INDEX %I', (SELECT relname FROM pg_class WHERE oid = indexrelid)) END) AS remedy, CASE
                   WHEN relreplident = 'n' THEN 'has REPLICA IDENTITY NOTHING'
                   WHEN relreplident = 'i' THEN 'has lost the index that was its replica identity'
                   WHEN EXISTS (SELECT FROM pg_index WHERE indrelid = tables.oid AND indisprimary AND NOT indimmediate)
                   THEN 'has a deferrable primary key, which is no replica identity'
                   ELSE 'has no primary key and no other replica identity' END AS why
        FROM tables LEFT JOIN proposed ON proposed.indrelid = tables.oid
        WHERE relkind = 'r' AND relpersistence IN ('p', 'u') AND relreplident <> 'f'
          AND NOT EXISTS (SELECT FROM usable WHERE usable.indrelid = tables.oid AND is_identity))"""
"""Tables whose changes do not say of which row they are, or would not if the table were logged: why, and what gives them an identity."""
_REPLICA_IDENTITIES = """
    WITH {tables}, {nameless},
    published AS (
        SELECT line.*, (SELECT string_agg(quote_ident(pubname), ', ' ORDER BY pubname) FROM pg_publication AS publication
            WHERE (pubupdate OR pubdelete) AND (puballtables OR EXISTS (SELECT FROM pg_publication_rel WHERE prpubid = publication.oid
                AND prrelid IN (SELECT line.oid UNION ALL SELECT relid FROM pg_partition_ancestors(line.oid))){by_schema})) AS publications
        FROM nameless AS line WHERE relpersistence = 'p')
    SELECT 'warning', format('table %s %s: ', name, why) || CASE WHEN publications IS NULL THEN
               'its UPDATEs and DELETEs do not say of which row they are, and cannot be mirrored or published' ELSE
               format('the server refuses its UPDATEs and DELETEs, since publication %s has them', publications) END, remedy
    FROM published WHERE publications IS NOT NULL OR json_array_length(current_setting('{named}')::json) = 0
    ORDER BY publications IS NULL, name::text"""
"""Where publications are named, what none publishes is nobody's matter."""
_UNLOGGED = Check(
    "tables without a log",
    f"""
    WITH {TABLES}, {_NAMELESS}
    SELECT 'note', concat(format('table %s is unlogged: its changes are in no log', name), '; and it ' || why),
           concat_ws(' ', format('ALTER TABLE %s SET LOGGED;', name), remedy)
    FROM tables LEFT JOIN nameless USING (oid, name) WHERE relkind = 'r' AND tables.relpersistence = 'u'
    UNION ALL
    SELECT 'note', format('foreign table %s has its rows elsewhere: its changes are in no log of this server', name), ''
    FROM tables WHERE relkind = 'f'
    UNION ALL
    SELECT 'note', format('%s temporary tables of sessions have their changes in no log', count(*)), ''
    FROM tables WHERE relkind = 'r' AND relpersistence = 't' HAVING count(*) > 0""",
    "all tables are logged",
)
_ACCESS_METHODS = Check(
    "table access methods",
    f"""
    WITH {TABLES}
    SELECT 'warning', format('table %s has access method %I: its changes are not decoded', name, amname),
           CASE WHEN current_setting('server_version_num')::int >= 150000 THEN format('ALTER TABLE %s SET ACCESS METHOD heap;', name) ELSE '' END
    FROM tables JOIN pg_am ON pg_am.oid = relam WHERE relkind = 'r' AND amhandler <> 'heap_tableam_handler'::regproc ORDER BY name::text""",
    "all tables are heaps",
)


def database_checks(major: int) -> tuple[Check, ...]:
    """Those of a server of that major."""
    by_schema = _PUBLISHED_BY_SCHEMA if supports(major, PUBLISHED_SCHEMAS) else ""
    identities = _REPLICA_IDENTITIES.format(tables=TABLES, nameless=_NAMELESS, by_schema=by_schema, named=NAMED)
    fine = "every table that needs one has one, or is FULL"
    return (_FILES, Check("replica identities", identities, fine), _UNLOGGED, _ACCESS_METHODS)
