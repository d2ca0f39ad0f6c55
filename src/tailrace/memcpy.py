"""`memcpy` inside kernels: bytes of one array to another in a single step, where assigning slices makes two arrays first."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic


def check_range(context: Any, builder: Any, array: Any, at: Any, length: Any) -> None:
    """With NUMBA_BOUNDSCHECK=1, code that raises IndexError unless `length` bytes from `at` lie within the array; else none."""
    if not config.BOUNDSCHECK:
        return
    nothing = ir.Constant(length.type, 0)
    outside = builder.icmp_signed("<", at, nothing)
    outside = builder.or_(outside, builder.icmp_signed(">", builder.add(at, length), array.nitems))
    outside = builder.and_(outside, builder.icmp_signed("!=", length, nothing))
    outside = builder.or_(outside, builder.icmp_signed("<", length, nothing))
    with builder.if_then(outside, likely=False):
        context.call_conv.return_user_exc(builder, IndexError, ("bytes out of the array's bounds",))


@intrinsic
def memcpy(_context: Any, target: Any, to: Any, source: Any, at: Any, length: Any) -> Any:
    """target[to : to + length] = source[at : at + length]. The ranges must not overlap, and lie within their arrays."""

    def emit(ctx: Any, builder: Any, signature: Any, args: Any) -> Any:
        from numba.np import arrayobj  # noqa: PLC0415 - what is loaded compiled does without

        into = arrayobj.make_array(signature.args[0])(ctx, builder, args[0])
        out_of = arrayobj.make_array(signature.args[2])(ctx, builder, args[2])
        check_range(ctx, builder, into, args[1], args[4])
        check_range(ctx, builder, out_of, args[3], args[4])
        cgutils.raw_memcpy(
            builder,
            cgutils.pointer_add(builder, into.data, args[1]),
            cgutils.pointer_add(builder, out_of.data, args[3]),
            args[4],
            1,
        )
        return ctx.get_dummy_value()

    return types.void(target, types.int64, source, types.int64, types.int64), emit
