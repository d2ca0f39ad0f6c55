"""Versions of the protocol: the latest of each major, and what came with which (`replication/logicalproto.h`)."""

from __future__ import annotations

from tailrace.errors import UsageError
from tailrace.majors import NEWEST, Compared

COMPARED = Compared(__name__, "LOGICALREP_PROTO_MAX_VERSION_NUM and its like (replication/logicalproto.h)", upto=18)
LATEST_OF = COMPARED.table({14: 2, 15: 3, 16: 4})
LATEST_PROTOCOL = LATEST_OF[NEWEST]
OFF, ON, PARALLEL, EITHER = "off", "on", "parallel", "either"
"""The option `streaming` of START_REPLICATION. EITHER, on or parallel, is for who was not told: length decides."""
STREAMING = {OFF: ("", 1), ON: ("streaming", 2), PARALLEL: ("parallel streaming", 4), EITHER: ("parallel streaming", 4)}
"""What each value asks for, and since which version of the protocol; what asks for most stands last."""
TWO_PHASE = ("two-phase commit", 3)


def check_version_has(version: int, what: str, since: int) -> None:
    """Raise UsageError for an option that came with a later version."""
    if version < since:
        raise UsageError(f"requested proto_version={version} does not support {what}, need {since} or higher", sqlstate="22023")


def all_streaming(version: int) -> str:
    """The value of `streaming` that has whatever a version may stream, for who was not told what was asked for."""
    return [value for value, (_, since) in STREAMING.items() if since <= max(version, 1)][-1]
