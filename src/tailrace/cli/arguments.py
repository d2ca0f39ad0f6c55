"""What the words of a command line mean: LSNs, times, sizes, pairs. Raises UsageError for those that mean nothing.

It imports nothing that takes time to load, so that a wrong word is refused at once.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

from tailrace.errors import UsageError
from tailrace.model import Lsn
from tailrace.sources.dsn import is_dsn
from tailrace.sources.named import existing
from tailrace.sources.source_name import absolute, is_stored
from tailrace.window import WindowSize, parse_size

_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_LENGTH = re.compile(rf"\s*(\d+(?:\.\d+)?)\s*({'|'.join(_SECONDS)})?\s*\Z", re.ASCII)


def parse_lsn(text: str) -> Lsn | None:
    """An optional position in the log."""
    try:
        return Lsn.parse(text) if text else None
    except ValueError as error:
        raise UsageError(str(error), sqlstate="22P02") from None


def parse_moment(text: str) -> Lsn | datetime | None:
    """What `--at` of `slot create` says. A time without a zone is of this machine's."""
    if not text or "/" in text:
        return parse_lsn(text)
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:
        raise UsageError(
            f'invalid input syntax for type timestamp with time zone: "{text}"', hint="Give an LSN, or a time as 2026-05-04 15:00:00+02.",
            sqlstate="22007",
        ) from None  # fmt: skip


def parse_seconds(text: str) -> float:
    """A length of time, with PostgreSQL's units; seconds if none is given."""
    match = _LENGTH.match(text)
    if match is None:
        raise UsageError(f'invalid length of time: "{text}"', hint=f"Give a number and a unit: {', '.join(_SECONDS)}.")
    return float(match[1]) * _SECONDS[match[2] or "s"]


def parse_window(size: str) -> WindowSize | None:
    return WindowSize(parse_size(size)) if size else None


def parse_rate(text: str) -> int | None:
    """Bytes a second, which may be written so; None for nothing."""
    return parse_size(text.removesuffix("/s")) if text else None


def parse_pairs(texts: list[str] | None) -> dict[str, str | None]:
    """Options: NAME=VALUE, or NAME."""
    return dict(_pair(text) for text in texts or ())


def parse_store_options(texts: list[str] | None) -> dict[str, str]:
    """Options of a store, NAME=VALUE."""
    return {name: value or "" for name, value in parse_pairs(texts).items()}


def parse_parameters(texts: list[str] | None) -> dict[str, str]:
    """Parameters of the session: NAME=VALUE."""
    from tailrace.plugins.parameters import with_parameters  # noqa: PLC0415 - most verbs have none
    from tailrace.settings import WORK_MEM  # noqa: PLC0415
    from tailrace.types.style import TextStyle  # noqa: PLC0415

    parameters = {name: value or "" for name, value in parse_pairs(texts).items()}
    with_parameters(TextStyle(), WORK_MEM, parameters)
    return parameters


def _pair(text: str) -> tuple[str, str | None]:
    name, equals, value = text.partition("=")
    return name, value if equals else None


def check_source(source: str, options: list[str] | None = None) -> str:
    """A SOURCE that may be one: a server's, a directory that is there, or the URL of a store, which is opened with these options."""
    give_source_options(options, source)
    if not is_dsn(source):
        existing(source)
    return source


def give_source_options(texts: list[str] | None, source: str, catalog: str | None = None) -> None:
    """With these the store is opened in which SOURCE is, and the catalog state, if that is in one. Raises UsageError where neither is."""
    if not texts:
        return
    from tailrace.sources.stored import give_options  # noqa: PLC0415 - who has a directory waits for no store's client

    options = parse_store_options(texts)
    for each in [each for each in (source, catalog or "") if is_stored(each)] or [source]:
        give_options(each, options)


def source_of(source: str | Path) -> str:
    """A SOURCE as a slot keeps it: a directory's whole path, or the URL or connection string that it is."""
    return absolute(source)


def database_of(source: str, named: str) -> str:
    """The database that is named, or that a connection string names. Raises UsageError."""
    if named:
        return named
    if not is_dsn(source):
        raise UsageError("no database is named", hint="Name it by --database.", sqlstate="22023")
    from tailrace.client.conninfo import parameters_of  # noqa: PLC0415 - libpq, for who connects

    if not (found := parameters_of(source).get("dbname", "")):
        raise UsageError(
            "no database is named", hint="Name it in the connection string, dbname=…, or by --database.", sqlstate="22023"
        )
    return found
