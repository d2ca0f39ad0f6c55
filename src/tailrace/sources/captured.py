"""Catalog states that were captured before, by the path or the URL of their file."""

from __future__ import annotations

from pathlib import Path

from tailrace.catalog.state.catalog_state import CatalogState
from tailrace.catalog.state.state_file import read_state
from tailrace.sources.source_name import SourceName, is_stored


def read_captured(file: SourceName) -> CatalogState:
    """Raises FileNotFoundError, and as `read_state` does for a file that holds none."""
    if not is_stored(file):
        return read_state(Path(file).read_bytes(), str(file))
    from tailrace.sources.stored import opened_store  # noqa: PLC0415 - who has a file here waits for no store's client

    folder, _, name = str(file).rpartition("/")
    return read_state(opened_store(folder).read(name), str(file))
