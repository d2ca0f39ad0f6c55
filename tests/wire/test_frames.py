"""A batch of payloads, framed as one buffer: each is a CopyData message with XLogData."""

from __future__ import annotations

import numpy as np

from tailrace.model import Lsn
from tailrace.types.values import Texts
from tailrace.wire.connection import Connection, State
from tailrace.wire.formats import Side
from tailrace.wire.frames import frame_payloads
from tailrace.wire.stream import XLogData, read_from_walsender


def test_each_payload_is_a_message() -> None:
    texts = Texts.of([b"first", b"", bytes(range(256)) * 3])
    lsn = np.array([0x1_0000_0002, 0, 0x7FFF_FFFF_FFFF_FFFF], np.int64)
    part = texts.part(1, 3)  # which does not begin where its data does
    for wanted, positions in ((texts, lsn), (part, lsn[1:])):
        end = Connection(Side.FRONTEND)
        end.state = State.COPY_BOTH
        end.receive(bytes(frame_payloads(positions, wanted.offsets, wanted.data, 848534028494618)))
        for place, position in enumerate(positions.tolist()):
            start, stop = wanted.offsets[place : place + 2].tolist()
            payload = wanted.data[start:stop].tobytes()
            told = read_from_walsender(end.next_message().data)
            assert told == XLogData(Lsn(position), Lsn(position), 848534028494618, payload)
        assert not end.received
