"""The search path of a session, which decides what is printed with its schema: types behind the names of columns, and regclass and its kin."""

from __future__ import annotations

from tailrace.errors import UsageError
from tailrace.types.identifiers import split_identifiers

_USER = "$user"
_CATALOG = "pg_catalog"
_TEMPORARY = "pg_temp"
DEFAULT_SEARCH_PATH = '"$user", public'


def read_search_path(setting: str, role: str = "") -> tuple[str, ...]:
    """The schemas of a setting, in order. "$user" stands for `role`, if there is one; pg_catalog comes first where it is not named
    (`catalog/namespace.c`). Whoever reads the log has no temporary schema. Raises UsageError for what is no list of names."""
    names = split_identifiers(setting)
    if names is None:
        raise UsageError(
            f'invalid value for parameter "search_path": "{setting}"', hint="List syntax is invalid.", sqlstate="22023"
        )
    path = [role if name == _USER else name for name in names if name != _TEMPORARY]
    return tuple(dict.fromkeys(name for name in (path if _CATALOG in path else [_CATALOG, *path]) if name))


SEARCH_PATH = read_search_path(DEFAULT_SEARCH_PATH)
