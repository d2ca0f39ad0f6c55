"""What travels to workers, small: pickled and compressed.

Plans are arrays of LSNs, xids and ordinals, which compress to a fraction. On its way a plan is copied several times: to the JVM as text, to be
kept there, to every planning worker. So the fraction counts, in time and in the memory of the JVM.
"""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle

_CODEC = pa.Codec("zstd", 1)
_SIZE_BYTES = 8


def pack(value: Any) -> bytes:
    """By value, where a class or function cannot be imported by its name."""
    pickled = cloudpickle.dumps(value)
    return len(pickled).to_bytes(_SIZE_BYTES, "little") + _CODEC.compress(pickled, asbytes=True)


def unpack(packed: bytes) -> Any:
    size = int.from_bytes(packed[:_SIZE_BYTES], "little")
    return pickle.loads(_CODEC.decompress(packed[_SIZE_BYTES:], decompressed_size=size))
