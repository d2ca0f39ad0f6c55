"""`memcpy` inside kernels: bytes of one array to another in a single step, where assigning slices makes two arrays first."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np import arrayobj


@intrinsic
def memcpy(_context: Any, target: Any, to: Any, source: Any, at: Any, length: Any) -> Any:
    """target[to : to + length] = source[at : at + length]. The ranges must not overlap, and lie within their arrays."""

    def emit(ctx: Any, builder: Any, signature: Any, args: Any) -> Any:
        into = arrayobj.make_array(signature.args[0])(ctx, builder, args[0])
        out_of = arrayobj.make_array(signature.args[2])(ctx, builder, args[2])
        cgutils.raw_memcpy(
            builder,
            cgutils.pointer_add(builder, into.data, args[1]),
            cgutils.pointer_add(builder, out_of.data, args[3]),
            args[4],
            1,
        )
        return ctx.get_dummy_value()

    return types.void(target, types.int64, source, types.int64, types.int64), emit
