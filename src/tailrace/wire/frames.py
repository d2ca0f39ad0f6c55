"""What a copy has, a batch at a time: rows in, one buffer of CopyData messages out; those of a walsender say where each is in the log (`wire.stream`
has each message of the stream)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tailrace.kernels import kernel
from tailrace.logicalproto.big_endian import put_be32
from tailrace.memcpy import memcpy
from tailrace.wire.stream import HEADER


def frame_payloads(lsn: NDArray[np.int64], offsets: NDArray[np.int64], data: NDArray[np.uint8], sent_at: int) -> memoryview:
    """A CopyData message with XLogData for each payload, which lies at `offsets[i]:offsets[i + 1]` of `data`, under its LSN."""
    out = np.empty(len(data[offsets[0] : offsets[-1]]) + HEADER * len(lsn), np.uint8)
    _put_frames(lsn, offsets, data, np.int64(sent_at), out)
    return out.data


def frame_rows(rows: Sequence[bytes]) -> memoryview:
    """A CopyData message for each row, as it is."""
    return memoryview(b"".join([part for row in rows for part in (b"d", (len(row) + 4).to_bytes(4, "big"), row)]))


@kernel
def _put_frames(lsn, offsets, data, sent_at, out):  # type: ignore[no-untyped-def]
    to = 0
    for row in range(len(lsn)):
        length = offsets[row + 1] - offsets[row]
        out[to] = 100
        to = put_be32(out, to + 1, length + 29)
        out[to] = 119
        to += 1
        for _ in range(2):
            to = put_be32(out, to, lsn[row] >> 32)
            to = put_be32(out, to, lsn[row])
        to = put_be32(out, to, sent_at >> 32)
        to = put_be32(out, to, sent_at)
        memcpy(out, to, data, offsets[row], length)
        to += length
