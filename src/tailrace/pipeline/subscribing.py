"""Publications that are asked for by name, with those that a state location has.

In: names, a directory or none, and the database. Out: `Subscription`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tailrace.catalog.state.catalog_state import CatalogState
from tailrace.publications.publishing.entry_timeline import Definitions
from tailrace.publications.subscription import Subscription, publication_names
from tailrace.storage.state_location import StateLocation
from tailrace.types.style import TextStyle

TEXT_STYLE = TextStyle()


def subscription(
    of: CatalogState, publication: str | Sequence[str], state: str | Path | None = None, style: TextStyle = TEXT_STYLE
) -> Subscription:
    """Raises UsageError for what is no list of names, or no state location."""
    definitions = definitions_in(state, of.system, of.database) if state else ()
    return Subscription(publication_names(publication), definitions, style)


def definitions_in(state: str | Path, system: int, database: int) -> Definitions:
    """What is defined there for the database, which is known by its oid."""
    return StateLocation.open(Path(state)).publications.read(system, database, "").in_order
