"""pg_xact (`access/transam/clog.c`): what became of each transaction, as the server noted it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.errors import CorruptFile

# States of an xid (access/clog.h)
IN_PROGRESS, COMMITTED, ABORTED, SUB_COMMITTED = 0, 1, 2, 3

XIDS_PER_STATUS_FILE = 1048576
_XIDS_KEPT = 1 << 31


@dataclass(frozen=True, slots=True)
class CommitStatus:
    """pg_xact: two bits per xid. `files` maps file number (the low 32 bits of an xid / 1048576) to its bytes; `next_xid`, full, was the next then."""

    files: dict[int, bytes]
    next_xid: int

    def of(self, full_xids: NDArray[np.int64]) -> NDArray[np.uint8]:
        """State of each xid; IN_PROGRESS where it began after `next_xid`, or the bits are another's by now. Raises CorruptFile if the file that
        should have it is gone or too short."""
        states = np.zeros(len(full_xids), np.uint8)
        xids = full_xids & 0xFFFFFFFF
        lacking = (full_xids >= self.next_xid - _XIDS_KEPT) & (full_xids < self.next_xid)
        for number, data in self.files.items():
            status = np.frombuffer(data, np.uint8)
            mine = (xids // XIDS_PER_STATUS_FILE == number) & (full_xids >= self.next_xid - _XIDS_KEPT)
            within = xids[mine] % XIDS_PER_STATUS_FILE
            at = within // 4
            known = at < len(status)
            bits = np.zeros(len(within), np.uint8)
            bits[known] = (status[at[known]] >> (2 * (within[known] % 4)).astype(np.uint8)) & 3
            states[mine] = bits
            lacking[np.flatnonzero(mine)[known]] = False
        if lacking.any():
            first = int(xids[np.flatnonzero(lacking)[0]])
            file = f"pg_xact/{first // XIDS_PER_STATUS_FILE:04X}"
            raise CorruptFile(
                f"could not access status of transaction {first}",
                hint="Take the file from a backup, or give a catalog state that was captured before it was damaged (--catalog).",
                context=f'file "{file}" is missing or too short',
                file=file,
            )
        return states
