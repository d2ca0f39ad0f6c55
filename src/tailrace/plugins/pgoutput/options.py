"""The options of pgoutput, checked as its startup callback checks them (`parse_output_parameters` in
`replication/pgoutput/pgoutput.c`).

In: options as START_REPLICATION or the SQL functions give them, and the major. Out: `PgOutputOptions`; or UsageError with that
major's words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.logicalproto.protocol import LATEST_OF, OFF, ON, PARALLEL, STREAMING, TWO_PHASE, check_version_has
from tailrace.majors import (
    MISSING_OPTIONS_NAMED,
    ONLY_SUPPORTS,
    PARALLEL_STREAMING,
    STREAMING_VALUES,
    Compared,
    said_by,
    supports,
)
from tailrace.publications.subscription import publication_list
from tailrace.settings import def_get_boolean

COMPARED = Compared(__name__, "parse_output_parameters (pgoutput.c)", upto=18)
_FIRST = frozenset({"proto_version", "publication_names", "binary", "messages", "streaming"})
_NAMES = COMPARED.table({14: _FIRST, 15: _FIRST | {"two_phase"}, 16: _FIRST | {"two_phase", "origin"}})
_NUMBER = re.compile(r"\s*([+-]?)(\d+)")


@dataclass(frozen=True, slots=True)
class PgOutputOptions:
    """`streaming` is off, on or parallel; with `only_local` (origin none) nothing comes that was replicated from elsewhere."""

    proto_version: int
    publication_names: tuple[str, ...]
    binary: bool = False
    messages: bool = False
    streaming: str = OFF
    two_phase: bool = False
    only_local: bool = False


def parse_options(options: Mapping[str, str | None], major: int) -> PgOutputOptions:
    """Each option by itself first, then whether they fit together."""
    version: int | None = None
    names: tuple[str, ...] | None = None
    binary = messages = two_phase = only_local = False
    streaming = OFF
    for name, value in options.items():
        if name not in _NAMES[major]:
            raise UsageError(f"unrecognized pgoutput option: {name}", sqlstate="XX000")
        if name == "proto_version":
            version = _version(_given(name, value))
        elif name == "publication_names":
            names = publication_list(_given(name, value))
        elif name == "binary":
            binary = def_get_boolean(name, value)
        elif name == "messages":
            messages = def_get_boolean(name, value)
        elif name == "streaming":
            streaming = _streaming(value, major)
        elif name == "two_phase":
            two_phase = def_get_boolean(name, value)
        else:
            only_local = _origin(_given(name, value))
    version, names = _checked(version, names, major)
    check_version_has(version, *STREAMING[streaming])
    if two_phase:
        check_version_has(version, *TWO_PHASE)
    return PgOutputOptions(version, names, binary, messages, streaming, two_phase, only_local)


def _checked(version: int | None, names: tuple[str, ...] | None, major: int) -> tuple[int, tuple[str, ...]]:
    if supports(major, MISSING_OPTIONS_NAMED):
        for name, value in (("proto_version", version), ("publication_names", names)):
            if value is None:
                raise UsageError(f'option "{name}" missing', sqlstate="22023")
    version = version or 0
    latest, who = LATEST_OF[major], said_by(major, ONLY_SUPPORTS)
    for bad, bound in ((version > latest, f"{latest} or lower"), (version < 1, "1 or higher")):
        if bad:
            raise UsageError(f"client sent proto_version={version} but {who} protocol {bound}", sqlstate="0A000")
    if not names and not supports(major, MISSING_OPTIONS_NAMED):
        raise UsageError("publication_names parameter missing", sqlstate="22023")
    return version, names or ()


def _given(name: str, value: str | None) -> str:
    if value is None:
        raise UsageError(f"{name} requires a parameter", sqlstate="42601")
    return value


def _version(value: str) -> int:
    match = _NUMBER.match(value)
    if match is None or match.end() != len(value):
        raise UsageError("invalid proto_version", sqlstate="22023")
    number = int(match[2])
    if match[1] == "-" or number > 2**32 - 1:
        raise UsageError(f'proto_version "{value}" out of range', sqlstate="22023")
    return number


def _streaming(value: str | None, major: int) -> str:
    if value is not None and value.lower() == PARALLEL and supports(major, PARALLEL_STREAMING):
        return PARALLEL
    return ON if def_get_boolean("streaming", value, said_by(major, STREAMING_VALUES)) else OFF


def _origin(value: str) -> bool:
    if value.lower() not in ("any", "none"):
        raise UsageError(f'unrecognized origin value: "{value}"', sqlstate="22023")
    return value.lower() == "none"
