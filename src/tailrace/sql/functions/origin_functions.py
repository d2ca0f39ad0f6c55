"""The functions of replication origins (`replication/logical/origin.c`), on a state location."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from tailrace.model import Lsn
from tailrace.slots.origins import Origins
from tailrace.sql.functions.calls import Call
from tailrace.sql.functions.outcome import Outcome, one_row
from tailrace.sql.place import Place


def create(call: Call, arguments: list[Any], place: Place, held: ExitStack) -> Outcome:
    """pg_replication_origin_create."""
    (name,) = arguments
    _, oid = place.origins.read().created(name, place.major)
    return Outcome(
        one_row(call.function, oid), settle=lambda: place.origins.change(lambda now: now.created(name, place.major)[0])
    )


def drop(call: Call, arguments: list[Any], place: Place, held: ExitStack) -> Outcome:
    """pg_replication_origin_drop."""
    return _changed(call, place, lambda now: now.dropped(arguments[0]))


def advance(call: Call, arguments: list[Any], place: Place, held: ExitStack) -> Outcome:
    """pg_replication_origin_advance."""
    name, lsn = arguments
    return _changed(call, place, lambda now: now.advanced(name, Lsn(lsn)))


def oid(call: Call, arguments: list[Any], place: Place, held: ExitStack) -> Outcome:
    """pg_replication_origin_oid: NULL if there is none of that name."""
    found = place.origins.read().named(arguments[0])
    return Outcome(one_row(call.function, found.oid if found else None))


def progress(call: Call, arguments: list[Any], place: Place, held: ExitStack) -> Outcome:
    """pg_replication_origin_progress: NULL if it has made none."""
    return Outcome(one_row(call.function, place.origins.read().existing(arguments[0]).remote_lsn))


def _changed(call: Call, place: Place, how: Any) -> Outcome:
    before: Origins = place.origins.read()
    how(before)
    return Outcome(one_row(call.function, ""), settle=lambda: place.origins.change(how))
