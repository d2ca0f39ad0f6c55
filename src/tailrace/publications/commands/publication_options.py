"""The options of a publication (`parse_publication_options` in `commands/publicationcmds.c`).

In: options as they were written. Out: those that were given, checked; with the server's errors.
"""

from __future__ import annotations

from collections.abc import Sequence

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.majors import PUBLISHED_GENERATED_COLUMNS, supports
from tailrace.publications.commands.statements import DefElem
from tailrace.publications.publication import NO_GENERATED_COLUMNS, STORED_GENERATED_COLUMNS, PublicationActions
from tailrace.settings import def_get_boolean
from tailrace.types.quoting import split_identifiers

_PUBLISH, _VIA_ROOT, _GENERATED = "publish", "publish_via_partition_root", "publish_generated_columns"
_GENERATED_VALUES = {"none": NO_GENERATED_COLUMNS, "stored": STORED_GENERATED_COLUMNS}
_ACTIONS = ("insert", "update", "delete", "truncate")


@dataclass(frozen=True, slots=True)
class PublicationOptions:
    """None where an option was not given."""

    actions: PublicationActions | None = None
    via_root: bool | None = None
    generated_columns: str | None = None


def parse_options(options: Sequence[DefElem], major: int) -> PublicationOptions:
    """Raises UsageError (42601) for options that this major does not have, and for what is no value of theirs."""
    actions: PublicationActions | None = None
    via_root: bool | None = None
    generated: str | None = None
    seen: set[str] = set()
    for option in options:
        if option.name in seen:
            raise UsageError("conflicting or redundant options", sqlstate="42601")
        seen.add(option.name)
        if option.name == _PUBLISH:
            actions = _parse_actions(option)
        elif option.name == _VIA_ROOT:
            via_root = def_get_boolean(option.name, option.value)
        elif option.name == _GENERATED and supports(major, PUBLISHED_GENERATED_COLUMNS):
            generated = _parse_generated(option)
        else:
            raise UsageError(f'unrecognized publication parameter: "{option.name}"', sqlstate="42601")
    return PublicationOptions(actions, via_root, generated)


def _parse_actions(option: DefElem) -> PublicationActions:
    if option.value is None:
        raise UsageError(f"{option.name} requires a parameter", sqlstate="42601")
    words = split_identifiers(str(option.value))
    if words is None:
        raise UsageError(f'invalid list syntax in parameter "{_PUBLISH}"', sqlstate="42601")
    for word in words:
        if word not in _ACTIONS:
            raise UsageError(f'unrecognized value for publication option "{_PUBLISH}": "{word}"', sqlstate="42601")
    return PublicationActions(**{name: name in words for name in _ACTIONS})


def _parse_generated(option: DefElem) -> str:
    word = "" if option.value is None else str(option.value)
    if word.lower() not in _GENERATED_VALUES:
        raise UsageError(
            f'invalid value for publication parameter "{_GENERATED}": "{word}"',
            detail='Valid values are "none" and "stored".',
            sqlstate="42601",
        )
    return _GENERATED_VALUES[word.lower()]
