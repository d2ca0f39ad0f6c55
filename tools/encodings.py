"""Write src/tailrace/types/encodings/multibyte.bin as a server converts: `PYTHONPATH=tests python tools/encodings.py`.

The file is the five encodings of several bytes one after another, each as `tailrace.types.encodings.multibyte` unpacks it, compressed with zlib.
Printed are the DIGESTS of tests/support/encodings.py.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from support.encodings import MULTIBYTE, NUMBERS, REFUSED, digest, server_map
from support.servers import Server
from tailrace.types.encodings.multibyte import FORMS, LONGEST, PLANE, slot_of

FILE = Path(__file__).parents[1] / "src/tailrace/types/encodings/multibyte.bin"


def main(major: int) -> None:
    with Server(major) as server:
        maps = {
            encoding: server_map(server, encoding)
            for encoding in NUMBERS
            if encoding not in ("SQL_ASCII", "UTF8", "MULE_INTERNAL")
        }
    FILE.write_bytes(zlib.compress(b"".join(packed(encoding, maps[encoding]) for encoding in MULTIBYTE), 9))
    for encoding, told in maps.items():
        print(f'    "{encoding}": "{digest(told)}",')


def packed(encoding: str, told: Mapping[bytes, bytes]) -> bytes:
    """The UTF-8 form of each slot, its first bytes together, then its second, and so on, which compresses better."""
    form = FORMS[encoding]
    grid = np.zeros((LONGEST, form.planes * PLANE), np.uint8)
    for code, spelled in told.items():
        if len(code) == form.lengths[code[0]] > 1 and not spelled.startswith(REFUSED):
            grid[: len(spelled), slot_of(code)] = list(spelled)
    return grid.tobytes()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 18)
