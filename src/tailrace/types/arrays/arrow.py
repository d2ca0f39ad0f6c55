"""Arrays in Arrow: lists, for arrays of one dimension that starts at 1; or strings of their text."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tailrace.errors import UsageError, shortened
from tailrace.model import PgType
from tailrace.types.arrays.stored import element_of, take_apart
from tailrace.types.arrays.text import format_arrays
from tailrace.types.codec import ArrowStyle, arrow_type, mask_buffer, string_array, to_arrow
from tailrace.types.values import Values


def arrow_arrays(pg_type: PgType, typmod: int, style: ArrowStyle) -> pa.DataType:
    """list of the element's type, or string."""
    if style.arrays == "text":
        return pa.string()
    return pa.list_(arrow_type(element_of(pg_type), typmod, style))


def arrays_to_arrow(values: Values, pg_type: PgType, typmod: int, style: ArrowStyle) -> pa.Array:
    """A list holds one dimension that starts at 1; an array of another shape is refused rather than flattened."""
    if style.arrays == "text":
        return string_array(format_arrays(values, pg_type, style.text), values.valid)
    firsts, plain, elements = take_apart(values, pg_type)
    if not plain.all():
        odd = values.take(np.flatnonzero(~plain)[:1])
        text = format_arrays(odd, pg_type, style.text).to_list()[0]
        raise UsageError(
            f"a {pg_type.label} of several dimensions or other bounds does not fit a list: {shortened(text)}",
            hint="Set arrays=text.",
        )
    inner = to_arrow(elements, element_of(pg_type), typmod, style)
    if len(inner) > np.iinfo(np.int32).max:
        raise UsageError("a batch holds more than 2^31 elements of one column", hint="Ask for smaller batches.")
    buffers = [mask_buffer(values.valid), pa.py_buffer(firsts.astype(np.int32))]
    return pa.Array.from_buffers(arrow_arrays(pg_type, typmod, style), len(values), buffers, children=[inner])
