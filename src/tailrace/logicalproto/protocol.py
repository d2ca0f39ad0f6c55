"""Versions of the protocol, and what a subscriber may ask for of streaming."""

from __future__ import annotations

PARALLEL, EITHER = "parallel", "either"
STREAMING = ("off", "on", PARALLEL, EITHER)
"""The option `streaming` of START_REPLICATION; on takes protocol 2, parallel 4. EITHER, on or parallel, is for who was not told: length decides."""
PARALLEL_STREAMING = 4
"""The version of the protocol that has it."""
LATEST_PROTOCOL = 4
