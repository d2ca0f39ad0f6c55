"""The columns of the catalogs that decoding reads, by major: names, lengths and alignments (`catalog/pg_*.h`). Columns behind the last one that is
asked for may be left out. `tracked_columns` are those that a history reads; SQL on the catalogs (`sql.views`) reads others of them, too."""

from __future__ import annotations

from functools import cache

from tailrace.dataclass import dataclass
from tailrace.majors import Capability, Compared, supports
from tailrace.wal.index import TRACKED_CATALOGS

# attlen and attalign by the letter behind a column's name (behind that, the majors that have the column so):
# o oid, n name, h int2, i int4, b bool, c "char", x xid, f float4, z timestamptz, t varlena with int alignment, d varlena with double alignment
_CODES = {
    "o": (4, 4), "n": (64, 1), "h": (2, 2), "i": (4, 4), "b": (1, 1), "c": (1, 1), "x": (4, 4), "f": (4, 4), "z": (8, 8), "t": (-1, 4),
    "d": (-1, 8),
}  # fmt: skip


TOAST_TABLES = {"pg_attrdef": "pg_toast_2604", "pg_description": "pg_toast_2609", "pg_publication_rel": "pg_toast_6106"}
"""Where long values of catalogs lie that are asked for: expressions of generated columns, comments, and filters of publications."""


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


def _layout(columns: tuple[tuple[str, str], ...]) -> CatalogLayout:
    return CatalogLayout(
        names=tuple(name for name, _ in columns),
        lengths=tuple(_CODES[code][0] for _, code in columns),
        aligns=tuple(_CODES[code][1] for _, code in columns),
    )


_COLUMNS = {
    "pg_class": """
        oid:o relname:n relnamespace:o reltype:o reloftype:o relowner:o relam:o relfilenode:o reltablespace:o relpages:i reltuples:f
        relallvisible:i relallfrozen:i:18- reltoastrelid:o relhasindex:b relisshared:b relpersistence:c relkind:c relnatts:h relchecks:h
        relhasrules:b relhastriggers:b relhassubclass:b relrowsecurity:b relforcerowsecurity:b relispopulated:b relreplident:c
        relispartition:b relrewrite:o relfrozenxid:x relminmxid:x relacl:t:-15 relacl:d:16- reloptions:t relpartbound:t""",
    "pg_attribute": """
        attrelid:o attname:n atttypid:o attstattarget:i:-15 attlen:h attnum:h attndims:i:-15 attcacheoff:i:-17 atttypmod:i attndims:h:16-
        attbyval:b attalign:c attstorage:c attcompression:c attnotnull:b atthasdef:b atthasmissing:b attidentity:c attgenerated:c
        attisdropped:b attislocal:b attinhcount:i:-15 attinhcount:h:16- attstattarget:h:16 attcollation:o attstattarget:h:17- attacl:t:-15
        attacl:d:16- attoptions:t attfdwoptions:t attmissingval:d""",
    "pg_type": """
        oid:o typname:n typnamespace:o typowner:o typlen:h typbyval:b typtype:c typcategory:c typispreferred:b typisdefined:b typdelim:c
        typrelid:o typsubscript:o typelem:o typarray:o typinput:o typoutput:o typreceive:o typsend:o typmodin:o typmodout:o typanalyze:o
        typalign:c typstorage:c typnotnull:b typbasetype:o typtypmod:i typndims:i typcollation:o typdefaultbin:t typdefault:t typacl:t:-15
        typacl:d:16-""",
    "pg_namespace": "oid:o nspname:n nspowner:o nspacl:t:-15 nspacl:d:16-",
    "pg_index": """
        indexrelid:o indrelid:o indnatts:h indnkeyatts:h indisunique:b indnullsnotdistinct:b:15- indisprimary:b indisexclusion:b
        indimmediate:b indisclustered:b indisvalid:b indcheckxmin:b indisready:b indislive:b indisreplident:b indkey:t indcollation:t
        indclass:t indoption:t indexprs:t indpred:t""",
    "pg_enum": "oid:o enumtypid:o enumsortorder:f enumlabel:n",
    "pg_range": "rngtypid:o rngsubtype:o rngmultitypid:o",
    "pg_database": """
        oid:o datname:n datdba:o encoding:i datlocprovider:c:15- datcollate:n:14 datctype:n:14 datistemplate:b datallowconn:b
        dathasloginevt:b:17- datconnlimit:i datlastsysoid:o:14 datfrozenxid:x datminmxid:x dattablespace:o datcollate:t:15- datctype:t:15-
        daticulocale:t:15-16 datlocale:t:17- daticurules:t:16- datcollversion:t:15- datacl:t:-15 datacl:d:16-""",
    "pg_inherits": "inhrelid:o inhparent:o inhseqno:i inhdetachpending:b",
    "pg_publication": """
        oid:o pubname:n pubowner:o puballtables:b pubinsert:b pubupdate:b pubdelete:b pubtruncate:b pubviaroot:b pubgencols:c:18-""",
    "pg_publication_rel": "oid:o prpubid:o prrelid:o prqual:t:15- prattrs:t:15-",
    "pg_publication_namespace": "oid:o pnpubid:o pnnspid:o",
    "pg_replication_origin": "roident:o roname:t",
    "pg_proc": """
        oid:o proname:n pronamespace:o proowner:o prolang:o procost:f prorows:f provariadic:o prosupport:o prokind:c prosecdef:b
        proleakproof:b proisstrict:b proretset:b provolatile:c proparallel:c pronargs:h pronargdefaults:h prorettype:o proargtypes:t
        proallargtypes:t proargmodes:t proargnames:t proargdefaults:t protrftypes:t prosrc:t""",
    "pg_operator": """
        oid:o oprname:n oprnamespace:o oprowner:o oprkind:c oprcanmerge:b oprcanhash:b oprleft:o oprright:o oprresult:o""",
    "pg_authid": """
        oid:o rolname:n rolsuper:b rolinherit:b rolcreaterole:b rolcreatedb:b rolcanlogin:b rolreplication:b rolbypassrls:b rolconnlimit:i
        rolpassword:t rolvaliduntil:z""",
    "pg_ts_config": "oid:o cfgname:n cfgnamespace:o",
    "pg_ts_dict": "oid:o dictname:n dictnamespace:o",
    "pg_attrdef": "oid:o adrelid:o adnum:h adbin:t",
    "pg_description": "objoid:o classoid:o objsubid:i description:t",
    **dict.fromkeys(TOAST_TABLES.values(), "chunk_id:o chunk_seq:i chunk_data:t"),
    "pg_collation": """
        oid:o collname:n collnamespace:o collowner:o collprovider:c collisdeterministic:b collencoding:i collcollate:n:14 collctype:n:14
        collcollate:t:15- collctype:t:15- colliculocale:t:15-16 colllocale:t:17- collicurules:t:16- collversion:t""",
}
_WANTED: dict[str, tuple[str, ...]] = {
    "pg_class": (
        "oid", "relname", "relnamespace", "relam", "relfilenode", "reltablespace", "relpersistence", "relkind", "relreplident", "relrewrite",
        "relnatts", "relispartition", "relowner", "reltoastrelid", "reloptions",
    ),
    "pg_attribute": (
        "attrelid", "attname", "atttypid", "attlen", "attnum", "atttypmod", "attalign", "attnotnull", "atthasdef", "atthasmissing", "attgenerated",
        "attisdropped", "attmissingval", "attidentity", "attcollation",
    ),
    "pg_type": (
        "oid", "typname", "typnamespace", "typlen", "typtype", "typdelim", "typrelid", "typsubscript", "typelem", "typalign", "typbasetype",
        "typtypmod", "typcollation", "typbyval", "typinput", "typoutput", "typreceive", "typsend",
    ),
    "pg_namespace": ("oid", "nspname"), "pg_attrdef": ("adrelid", "adnum", "adbin"),
    "pg_description": ("objoid", "classoid", "objsubid", "description"),
    "pg_inherits": ("inhrelid", "inhparent", "inhdetachpending"),
    "pg_publication": (
        "oid", "pubname", "pubowner", "puballtables", "pubinsert", "pubupdate", "pubdelete", "pubtruncate", "pubviaroot", "pubgencols",
    ),
    "pg_publication_rel": ("oid", "prpubid", "prrelid", "prqual", "prattrs"),
    "pg_publication_namespace": ("oid", "pnpubid", "pnnspid"),
    "pg_index": ("indexrelid", "indrelid", "indnkeyatts", "indisprimary", "indimmediate", "indisvalid", "indislive", "indisreplident", "indkey", "indpred"),  # noqa: E501
    "pg_enum": ("oid", "enumtypid", "enumsortorder", "enumlabel"),
    "pg_range": ("rngtypid", "rngsubtype", "rngmultitypid"),
    "pg_proc": ("oid", "proname", "pronamespace", "proargtypes", "prolang", "prosrc"),
    "pg_operator": ("oid", "oprname", "oprnamespace", "oprleft", "oprright"),
    "pg_database": (
        "oid", "datname", "dattablespace", "datlocprovider", "datcollate", "datctype", "daticulocale", "datlocale", "daticurules",
        "datcollversion",
    ),
    "pg_authid": ("oid", "rolname"),
    "pg_ts_config": ("oid", "cfgname", "cfgnamespace"),
    "pg_ts_dict": ("oid", "dictname", "dictnamespace"),
    "pg_replication_origin": ("roident", "roname"),
    "pg_collation": (
        "oid", "collname", "collnamespace", "collprovider", "collencoding", "collcollate", "collctype", "colliculocale", "colllocale", "collicurules",
        "collversion",
    ),
}  # fmt: skip


def columns_in(text: str, major: int) -> tuple[tuple[str, str], ...]:
    """The columns of a catalog or view that this major has, of those that any has: name:type, and in which majors if not in all."""
    fields = [(*each.split(":"), "")[:3] for each in text.split()]
    return tuple((name, kind) for name, kind, majors in fields if supports(major, Capability.of(majors)))


_HEADERS = ", ".join(f"{name}.h" for name in _COLUMNS if name not in TOAST_TABLES.values())
COMPARED = Compared(__name__, f"the columns in catalog/{_HEADERS}", upto=18)
_LAYOUTS = COMPARED.made(lambda major: {name: _layout(columns_in(text, major)) for name, text in _COLUMNS.items()})


def layouts_of(major: int) -> dict[str, CatalogLayout]:
    """Layout by the name of the catalog."""
    return _LAYOUTS[major]


def layouts_by_oid(major: int) -> dict[int, CatalogLayout]:
    """Layout by the oid of the catalog, of those whose records indexes keep."""
    layouts = layouts_of(major)
    return {oid: layouts[name] for oid, name in TRACKED_CATALOGS.items() if name in layouts}


@cache
def tracked_columns(major: int) -> dict[str, tuple[str, ...]]:
    """The catalogs whose rows a history has, and those of their columns that it reads."""
    layouts = layouts_of(major)
    return {name: tuple(column for column in wanted if column in layouts[name].names) for name, wanted in _WANTED.items()}
