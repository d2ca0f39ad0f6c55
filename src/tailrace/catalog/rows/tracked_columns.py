"""Which columns of the catalogs a history reads, of those whose rows indexes keep."""

from __future__ import annotations

from tailrace.catalog.rows.layouts import layouts_of

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


def tracked_columns(major: int) -> dict[str, tuple[str, ...]]:
    """The catalogs whose rows a history has, and those of their columns that it reads."""
    layouts = layouts_of(major)
    return {name: tuple(column for column in wanted if column in layouts[name].names) for name, wanted in _WANTED.items()}
