"""Little-endian numbers at any offset of a byte array, one machine load each.

Indexing an array in a kernel checks for negative indexes and cannot be joined into wider loads; these read where they are told. Callers have
checked the bounds; with NUMBA_BOUNDSCHECK=1, as it goes for indexing, an access out of them is an IndexError.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tailrace.memcpy import check_range


def _load(bits: int, result: Any) -> Any:
    @intrinsic
    def load(_context: Any, array: Any, at: Any) -> Any:
        def emit(ctx: Any, builder: Any, signature: Any, args: Any) -> Any:
            from numba.np import arrayobj  # noqa: PLC0415 - what is loaded compiled does without

            view = arrayobj.make_array(signature.args[0])(ctx, builder, args[0])
            check_range(ctx, builder, view, args[1], ir.Constant(args[1].type, bits // 8))
            pointer = cgutils.pointer_add(builder, view.data, args[1])
            loaded = builder.load(builder.bitcast(pointer, ir.IntType(bits).as_pointer()))
            loaded.align = 1
            return loaded if bits == 64 else builder.zext(loaded, ir.IntType(64))

        return result(array, types.int64), emit

    return load


u8 = _load(8, types.int64)
u16 = _load(16, types.int64)
u32 = _load(32, types.int64)
u64 = _load(64, types.int64)
word = _load(64, types.uint64)
"""Eight bytes as an unsigned number, for checksums."""
