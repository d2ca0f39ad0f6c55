"""Archives of WAL in stores, by their URLs.

What a URL does not say, who one is, comes from the environment, or from options that this process was given with it (`storage/store_options.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

from tailrace.errors import UsageError
from tailrace.sources.dsn import without_password
from tailrace.sources.source_name import SourceName, is_stored
from tailrace.storage.open_store import open_store
from tailrace.storage.store import Store
from tailrace.storage.wal_objects import WalObjects

STORE_OPTION = "store."
"""What an option begins with that is a store's, among others."""
_GIVEN: dict[str, dict[str, object]] = {}
"""Options that this process was given, by the bucket."""
_OPENED: dict[Store, Store] = {}
"""Stores in use, with their connections: who follows a log comes again and again."""


def archive_of(url: str) -> WalObjects:
    """The segments there. Nothing is looked for yet. Raises UsageError for what is no URL of a store, and for its options."""
    return WalObjects(opened_store(url))


def opened_store(url: str) -> Store:
    """The same for whatever lies there."""
    store = open_store(url, _GIVEN.get(_bucket_of(url)))
    return _OPENED.setdefault(store, store)


def give_options(source: SourceName, options: Mapping[str, object]) -> None:
    """With these its bucket is opened from now on in this process. Raises UsageError where it takes none, or not these."""
    if not options:
        return
    if not is_stored(source):
        raise UsageError(
            f'"{without_password(str(source))}" is not the URL of a store, and has no options',
            hint=f"Leave out {', '.join(sorted(options))}.",
        )
    archive_of(str(source))
    open_store(str(source), options)
    _GIVEN[_bucket_of(str(source))] = dict(options)


def take_options(options: Mapping[str, str], *names: str) -> dict[str, str]:
    """Options without those of stores (`store.aws_region`), which are given to the buckets that are named by the options of these `names`. Raises
    UsageError where there is no such bucket, or its store does not know one."""
    theirs = {name.removeprefix(STORE_OPTION): value for name, value in options.items() if name.startswith(STORE_OPTION)}
    stored = [options[name] for name in names if is_stored(options.get(name, ""))]
    if theirs and not stored:
        raise UsageError(
            f'"{STORE_OPTION}{min(theirs)}" is an option of a store, and no URL of one is given',
            hint=f"Give one as {' or '.join(names)}.",
        )
    for url in stored:
        give_options(url, theirs)
    return {name: value for name, value in options.items() if not name.startswith(STORE_OPTION)}


def _bucket_of(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"
