"""URLs of stores: `s3://bucket/prefix`, `gs://bucket/prefix`, `abfss://container@account.dfs.core.windows.net/prefix`, `file:///directory`, or
a path.

What a URL says is where, and never who: credentials come from the environment or from options.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from tailrace.errors import UsageError
from tailrace.storage.local_store import LocalStore
from tailrace.storage.object_names import is_name
from tailrace.storage.store import Store
from tailrace.storage.store_kinds import STORE_KINDS
from tailrace.storage.store_options import resolved_options, written_out
from tailrace.storage.store_urls import MEANT

if TYPE_CHECKING:
    from tailrace.storage.object_store import ObjectStore


def open_store(url: str | Path, options: Mapping[str, object] | None = None) -> Store:
    """Nothing is looked for yet. `options` are those of the store (`aws_access_key_id`), and win over the environment's. Raises UsageError."""
    text = str(url)
    scheme, has_slashes, rest = re.match(r"(?:([A-Za-z][A-Za-z0-9+.-]*):(//)?)?(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    scheme = (scheme or "").lower()
    is_ours = scheme in (*STORE_KINDS, *MEANT, "file")
    if isinstance(url, Path) or not (has_slashes or is_ours):
        return _local(text, text, options)
    if is_ours and not has_slashes:
        raise UsageError(f"{_shown(text)} is no URL: two slashes follow the colon")
    if scheme == "file":
        host, slash, path = rest.partition("/")
        if host not in ("", "localhost") or not slash:
            raise UsageError(
                f"{_shown(text)} names a host, and no directory here", hint="Write file:///directory, with three slashes."
            )
        _check_plain(text, path)
        return _local(unquote(f"/{path}"), text, options)
    if scheme not in STORE_KINDS:
        *others, last = STORE_KINDS
        hint = (
            f"Write {MEANT[scheme]}:// instead." if scheme in MEANT else f"It may be a path, file, {', '.join(others)} or {last}."
        )
        raise UsageError(f"{_shown(text)} is of a kind of store that is not known: {scheme}", hint=hint)
    return _remote(text, scheme, rest, options or {})


def delta_rs_url(store: Store) -> str:
    """What delta-rs opens where the store is."""
    if isinstance(store, LocalStore):
        return store.url
    remote = _object_store(store)
    return f"{remote.bucket.url}/{quote(remote.prefix)}".rstrip("/")


def delta_rs_options(store: Store) -> dict[str, str]:
    """The `storage_options` with which it does so as the same user."""
    if isinstance(store, LocalStore):
        return {}
    bucket = _object_store(store).bucket
    return written_out(bucket.scheme, bucket.options)


def _object_store(store: Store) -> ObjectStore:
    from tailrace.storage.object_store import ObjectStore  # noqa: PLC0415 - obstore is not there for who has directories only

    assert isinstance(store, ObjectStore)
    return store


def _local(path: str, url: str, options: Mapping[str, object] | None) -> Store:
    if options:
        raise UsageError(f"{url} is a directory, which has no options", hint=f"Leave out {', '.join(sorted(options))}.")
    if not path or "\0" in path:
        raise UsageError(f"{path!r} is no directory")
    return LocalStore(Path(os.path.abspath(path)))


def _remote(text: str, scheme: str, rest: str, options: Mapping[str, object]) -> Store:
    authority, _, path = rest.partition("/")
    kind, user = STORE_KINDS[scheme], authority.rpartition("@")[0]
    if (user and not _has_at(scheme)) or ":" in authority:
        raise UsageError(
            f"{_shown(text)} has credentials in it, which others would see in lists of processes and in logs",
            hint="Give them in the environment; in Python and Spark also as options.",
        )
    _check_plain(text, rest)
    if not authority:
        raise UsageError(f"{_shown(text)} has no bucket", hint=f"Write {kind.example}.")
    if not re.fullmatch(kind.authority, authority):
        raise UsageError(f"{_shown(text)} has no name of a bucket behind {scheme}://", hint=f"Write {kind.example}.")
    prefix = path.rstrip("/")
    if prefix and not is_name(prefix):
        raise UsageError(
            f"{_shown(text)} has a prefix that no object can have", hint="There is no empty part in it, no . and no .."
        )
    from tailrace.storage.bucket import Bucket  # noqa: PLC0415 - obstore is an extra
    from tailrace.storage.object_store import ObjectStore  # noqa: PLC0415

    bucket = Bucket(scheme, authority, resolved_options(scheme, options, os.environ))
    return ObjectStore(bucket, f"{prefix}/" if prefix else "")


def _has_at(scheme: str) -> bool:
    """Whether what stands before an @ is no user."""
    return scheme in STORE_KINDS and "@" in STORE_KINDS[scheme].authority


def _check_plain(text: str, path: str) -> None:
    found = re.search(r"[?#]", path)
    if found:
        what = "a query" if found[0] == "?" else "a fragment"
        raise UsageError(
            f"{_shown(text)} has {what} behind its path",
            hint="A store's URL ends with the prefix. What else it needs is an option.",
        )


def _shown(url: str) -> str:
    """Without what stands before an @ or behind a ?, which may be a secret."""
    scheme, colon, rest = url.partition("://")
    user, at, place = rest.rpartition("@")
    if ":" in user or (at and "/" not in user and not _has_at(scheme)):
        rest = f"...@{place}"
    return re.sub(r"[?#].*", "", scheme + colon + rest, flags=re.DOTALL)
