"""Messages of fixed length, as Begin and Commit are: there may be a million of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.types.values import Texts


def of_numbers(head: bytes, *fields: NDArray[Any]) -> Texts:
    """Messages of fixed length: `head`, and numbers in network byte order."""
    rows = len(fields[0])
    kinds = [("head", f"V{len(head)}"), *((f"f{i}", f">i{field.itemsize}") for i, field in enumerate(fields))]
    made = np.zeros(rows, np.dtype(kinds))
    made["head"] = np.void(head)
    for i, field in enumerate(fields):
        made[f"f{i}"] = field.view(f"i{field.itemsize}")
    return Texts(np.arange(rows + 1, dtype=np.int64) * made.itemsize, made.view(np.uint8))
