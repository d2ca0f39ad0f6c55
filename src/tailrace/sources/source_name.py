"""What a user may name as a SOURCE whose log is in files: a directory by its path, or an archive in a store by its URL.

A name is what is kept of a source, in slots and in what travels. `file:///directory` is the directory.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

from tailrace.errors import UsageError
from tailrace.sources.dsn import is_dsn
from tailrace.storage.store_urls import is_store_url

SourceName = str | Path


def is_stored(source: SourceName) -> bool:
    """Whether it is an archive in a store."""
    return isinstance(source, str) and is_store_url(source) and not source.lower().startswith("file:")


def absolute(source: SourceName) -> str:
    """The name as it is kept: of a directory its whole path, as workers may stand elsewhere, and so may who reads it later. A URL and a connection
    string are whole."""
    text = str(source)
    if not text or is_stored(source) or is_dsn(text):
        return text
    return str(path_of(source).absolute())


def path_of(source: SourceName) -> Path:
    """Of one that is a directory."""
    if isinstance(source, str) and is_store_url(source):
        host, slash, path = source.partition("://")[2].partition("/")
        if host not in ("", "localhost") or not slash:
            raise UsageError(
                f'"{source}" names a host, and no directory here', hint="Write file:///directory, with three slashes."
            )
        return Path(unquote(f"/{path}"))
    return Path(source)


def spellings(source: SourceName) -> set[str]:
    """How messages may name it, or what lies in it."""
    if is_stored(source):
        return {str(source).rstrip("/")}
    path = path_of(source)
    return {str(path), str(path.absolute()), str(path.resolve())} - {"."}
