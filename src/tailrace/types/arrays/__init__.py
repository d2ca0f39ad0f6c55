"""Arrays of any element, and int2vector and oidvector, which are stored as arrays are and print otherwise."""

from __future__ import annotations

from tailrace.types.arrays.arrow import arrays_to_arrow, arrow_arrays
from tailrace.types.arrays.binary import receive_arrays, send_arrays
from tailrace.types.arrays.text import format_arrays, format_vectors, parse_arrays, parse_vectors
from tailrace.types.codec import Codec

ARRAY = Codec(
    format=format_arrays, parse=parse_arrays, send=send_arrays, receive=receive_arrays,
    arrow=arrow_arrays, to_arrow=arrays_to_arrow,
)  # fmt: skip
INT2VECTOR = OIDVECTOR = Codec(format=format_vectors, parse=parse_vectors, send=send_arrays, receive=receive_arrays)
