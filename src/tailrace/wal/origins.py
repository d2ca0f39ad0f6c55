"""Whose records a consumer does not want: by origin, as replication/logical/decode.c asks filter_by_origin_cb of each record."""

from __future__ import annotations

from tailrace.kernels import inner_kernel

EVERY_ORIGIN = -1
"""Among origins that are left out: all that are not this server itself."""


@inner_kernel
def is_left_out(left_out, origin):  # type: ignore[no-untyped-def]
    """Whether a record of this origin is; 0 is the server itself, which never is. `left_out` are numbers of pg_replication_origin."""
    if origin == 0:
        return False
    for each in left_out:
        if each in (EVERY_ORIGIN, origin):
            return True
    return False
