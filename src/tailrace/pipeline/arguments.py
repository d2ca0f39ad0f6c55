"""Positions and catalog states as callers from Python have them: an LSN or its text, a captured state or the file that it is in."""

from __future__ import annotations

from pathlib import Path

from tailrace.catalog.state.catalog_state import CatalogState
from tailrace.errors import UsageError
from tailrace.model import Lsn
from tailrace.settings import parse_lsn
from tailrace.sources.captured import read_captured
from tailrace.sources.source_name import is_stored

GivenLsn = Lsn | int | str | None
GivenState = CatalogState | str | Path | None


def lsn_of(given: GivenLsn) -> Lsn | None:
    """Raises UsageError, in the server's words, for text that is no LSN."""
    if given is None:
        return None
    return parse_lsn(given) if isinstance(given, str) else Lsn(given)


def state_of(given: GivenState) -> CatalogState | None:
    """Raises as `read_state` does for a file that holds none."""
    if given is None or isinstance(given, CatalogState):
        return given
    if not is_stored(given) and not Path(given).is_file():
        raise UsageError(
            f'catalog state "{given}" does not exist', hint="`tailrace catalog capture` writes one.", sqlstate="58P01"
        )
    return read_captured(given)
