"""The columns of the catalogs that decoding reads, by major: names, lengths and alignments, up to the last one that is asked for
(`catalog/pg_*.h`)."""

from __future__ import annotations

from dataclasses import dataclass

from tailrace.wal.index import TRACKED_CATALOGS

# attlen and attalign by the letter behind a column's name:
# o oid, n name, h int2, i int4, b bool, c "char", x xid, f float4, t varlena with int alignment, d varlena with double alignment
_CODES = {
    "o": (4, 4), "n": (64, 1), "h": (2, 2), "i": (4, 4), "b": (1, 1), "c": (1, 1), "x": (4, 4), "f": (4, 4), "t": (-1, 4), "d": (-1, 8),
}  # fmt: skip


TOAST_TABLES = {"pg_attrdef": "pg_toast_2604", "pg_publication_rel": "pg_toast_6106"}
"""Where long values of catalogs lie that decoding asks for: expressions of generated columns, and filters of publications."""


@dataclass(frozen=True, slots=True)
class CatalogLayout:
    """attname, attlen and attalign (in bytes) of a catalog's columns, by attnum."""

    names: tuple[str, ...]
    lengths: tuple[int, ...]
    aligns: tuple[int, ...]

    def index(self, name: str) -> int:
        return self.names.index(name)


ANY_LAYOUT = CatalogLayout((), (), ())
"""Of user catalog tables, whose columns are not looked at before somebody reads them."""


def _layout(columns: str) -> CatalogLayout:
    pairs = [column.split(":") for column in columns.split()]
    return CatalogLayout(
        names=tuple(name for name, _ in pairs),
        lengths=tuple(_CODES[code][0] for _, code in pairs),
        aligns=tuple(_CODES[code][1] for _, code in pairs),
    )


def _class(major: int) -> str:
    acl = "d" if major >= 16 else "t"
    frozen = " relallfrozen:i" if major >= 18 else ""
    return (
        "oid:o relname:n relnamespace:o reltype:o reloftype:o relowner:o relam:o relfilenode:o reltablespace:o relpages:i reltuples:f "
        f"relallvisible:i{frozen} reltoastrelid:o relhasindex:b relisshared:b relpersistence:c relkind:c relnatts:h relchecks:h relhasrules:b "
        "relhastriggers:b relhassubclass:b relrowsecurity:b relforcerowsecurity:b relispopulated:b relreplident:c relispartition:b "
        f"relrewrite:o relfrozenxid:x relminmxid:x relacl:{acl} reloptions:t relpartbound:t"
    )


def _attribute(major: int) -> str:
    if major <= 15:
        return (
            "attrelid:o attname:n atttypid:o attstattarget:i attlen:h attnum:h attndims:i attcacheoff:i atttypmod:i attbyval:b attalign:c "
            "attstorage:c attcompression:c attnotnull:b atthasdef:b atthasmissing:b attidentity:c attgenerated:c attisdropped:b attislocal:b "
            "attinhcount:i attcollation:o attacl:t attoptions:t attfdwoptions:t attmissingval:d"
        )
    cache = "" if major >= 18 else "attcacheoff:i "
    tail = "attstattarget:h attcollation:o" if major == 16 else "attcollation:o attstattarget:h"
    return (
        f"attrelid:o attname:n atttypid:o attlen:h attnum:h {cache}atttypmod:i attndims:h attbyval:b attalign:c attstorage:c attcompression:c "
        "attnotnull:b atthasdef:b atthasmissing:b attidentity:c attgenerated:c attisdropped:b attislocal:b attinhcount:h "
        f"{tail} attacl:d attoptions:t attfdwoptions:t attmissingval:d"
    )


def _type(major: int) -> str:
    acl = "d" if major >= 16 else "t"
    return (
        "oid:o typname:n typnamespace:o typowner:o typlen:h typbyval:b typtype:c typcategory:c typispreferred:b typisdefined:b typdelim:c "
        "typrelid:o typsubscript:o typelem:o typarray:o typinput:o typoutput:o typreceive:o typsend:o typmodin:o typmodout:o typanalyze:o "
        "typalign:c typstorage:c typnotnull:b typbasetype:o typtypmod:i typndims:i typcollation:o typdefaultbin:t typdefault:t "
        f"typacl:{acl}"
    )


def _index(major: int) -> str:
    nulls = " indnullsnotdistinct:b" if major >= 15 else ""
    return (
        f"indexrelid:o indrelid:o indnatts:h indnkeyatts:h indisunique:b{nulls} indisprimary:b indisexclusion:b indimmediate:b indisclustered:b "
        "indisvalid:b indcheckxmin:b indisready:b indislive:b indisreplident:b indkey:t indcollation:t indclass:t indoption:t indexprs:t indpred:t"
    )


def _database(major: int) -> str:
    if major == 14:
        return (
            "oid:o datname:n datdba:o encoding:i datcollate:n datctype:n datistemplate:b datallowconn:b datconnlimit:i datlastsysoid:o "
            "datfrozenxid:x datminmxid:x dattablespace:o datacl:t"
        )
    event = " dathasloginevt:b" if major >= 17 else ""
    locale = "datlocale:t" if major >= 17 else "daticulocale:t"
    rules = " daticurules:t" if major >= 16 else ""
    return (
        f"oid:o datname:n datdba:o encoding:i datlocprovider:c datistemplate:b datallowconn:b{event} datconnlimit:i datfrozenxid:x datminmxid:x "
        f"dattablespace:o datcollate:t datctype:t {locale}{rules} datcollversion:t"
    )


def _collation(major: int) -> str:
    first = "oid:o collname:n collnamespace:o collowner:o collprovider:c collisdeterministic:b collencoding:i"
    if major == 14:
        return f"{first} collcollate:n collctype:n collversion:t"
    locale = "colllocale:t" if major >= 17 else "colliculocale:t"
    rules = " collicurules:t" if major >= 16 else ""
    return f"{first} collcollate:t collctype:t {locale}{rules} collversion:t"


def layouts_of(major: int) -> dict[str, CatalogLayout]:
    """Layout by the name of the catalog. Columns behind the last one that is asked for may be left out."""
    publication = "oid:o pubname:n pubowner:o puballtables:b pubinsert:b pubupdate:b pubdelete:b pubtruncate:b pubviaroot:b"
    if major >= 18:
        publication += " pubgencols:c"
    texts = {
        "pg_class": _class(major),
        "pg_attribute": _attribute(major),
        "pg_type": _type(major),
        "pg_namespace": "oid:o nspname:n nspowner:o",
        "pg_index": _index(major),
        "pg_enum": "oid:o enumtypid:o enumsortorder:f enumlabel:n",
        "pg_range": "rngtypid:o rngsubtype:o rngmultitypid:o",
        "pg_database": _database(major),
        "pg_inherits": "inhrelid:o inhparent:o inhseqno:i inhdetachpending:b",
        "pg_publication": publication,
        "pg_publication_rel": "oid:o prpubid:o prrelid:o" + (" prqual:t prattrs:t" if major >= 15 else ""),
        "pg_publication_namespace": "oid:o pnpubid:o pnnspid:o",
        "pg_replication_origin": "roident:o roname:t",
        "pg_proc": (
            "oid:o proname:n pronamespace:o proowner:o prolang:o procost:f prorows:f provariadic:o prosupport:o prokind:c prosecdef:b "
            "proleakproof:b proisstrict:b proretset:b provolatile:c proparallel:c pronargs:h pronargdefaults:h prorettype:o proargtypes:t "
            "proallargtypes:t proargmodes:t proargnames:t proargdefaults:t protrftypes:t prosrc:t"
        ),
        "pg_operator": (
            "oid:o oprname:n oprnamespace:o oprowner:o oprkind:c oprcanmerge:b oprcanhash:b oprleft:o oprright:o oprresult:o"
        ),
        "pg_authid": "oid:o rolname:n",
        "pg_ts_config": "oid:o cfgname:n cfgnamespace:o",
        "pg_ts_dict": "oid:o dictname:n dictnamespace:o",
        "pg_attrdef": "oid:o adrelid:o adnum:h adbin:t",
        **dict.fromkeys(TOAST_TABLES.values(), "chunk_id:o chunk_seq:i chunk_data:t"),
        "pg_collation": _collation(major),
    }
    return {name: _layout(text) for name, text in texts.items()}


def layouts_by_oid(major: int) -> dict[int, CatalogLayout]:
    """Layout by the oid of the catalog, of those whose records indexes keep."""
    layouts = layouts_of(major)
    return {oid: layouts[name] for oid, name in TRACKED_CATALOGS.items() if name in layouts}
