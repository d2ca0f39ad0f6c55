"""`@kernel`: compiled once, then loaded, on this machine or on the one that built the wheel.

Compiling all kernels takes most of a minute. Numba's own cache goes by the absolute path and the source file of a kernel, and not by the kernels that
it calls: it compiles again for every checkout, and would run old code after an upgrade. Here a compiled kernel is kept under a key made of
everything that went into it: its own code, the constants that it names, and the same of every kernel and intrinsic that it calls; the types of
its arguments; the versions of Python, Numba and LLVM; and the processor.

It is looked for first among those that came with the wheel (`COMPILED`, for x86-64-v3, which nearly every server since 2015 understands), then in the
user's cache, where `make` puts the same for a checkout, and is otherwise compiled for this very processor and put there. No setting of Numba's is
changed, so others who use it in this process keep theirs.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import platform
import sys
import time
import types as python
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from llvmlite import binding
from numba.core import compiler, config, sigutils
from numba.core.dispatcher import Dispatcher
from numba.core.environment import Environment, lookup_environment
from numba.core.runtime import _nrt_python
from numba.core.serialize import dumps
from numba.core.types import Type
from numba.core.types.containers import BaseNamedTuple
from numba.extending import _Intrinsic

from tailrace.user_cache import user_cache

COMPILED = Path(__file__).parent / "_compiled"
"""Kernels that came with the wheel; a checkout has none."""
PORTABLE = ("x86-64-v3", "")
"""What those are compiled for: LLVM's name of the processor, and no features beyond."""
_PORTABLE_FEATURES = frozenset("avx avx2 bmi bmi2 cx16 f16c fma lzcnt movbe popcnt sahf sse3 sse4.1 sse4.2 ssse3 xsave".split())
_FORM = 1
"""Of what is kept. Who changes it takes another number, so that what was kept before is not found."""
_DIGEST = 16
_MONTH = 30 * 86400

before_compiling: list[Callable[[], None]] = []
"""Called, each once, before this process compiles its first kernel: whoever waits should be told why."""


def kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` with Numba at its first call with arguments of some types, or load what was compiled before. It runs without the GIL."""
    # What is left out here Numba would take from whichever kernel happens to call this one first.
    return _kept(function, numba.njit(nogil=True, _nrt=True, forceinline=False))


def inner_kernel(function: Callable[..., Any]) -> Any:
    """A kernel for other kernels to call for every record or row, with a NamedTuple of arrays if need be.

    Numba counts a reference for each array of a NamedTuple at every call, which costs more than what such a kernel does. Here it counts none, as
    the caller holds them all anyway; so an inner kernel makes no array, slices included, and returns numbers. And a call of ten arrays is seventy
    words on the stack, so there is none: the code becomes part of the caller's, whatever its size.
    """
    return _kept(function, numba.njit(nogil=True, _nrt=False, forceinline=True))


def _kept(function: Callable[..., Any], compiled: Callable[..., Any]) -> Any:
    dispatcher: Any = compiled(function)
    if dispatcher is not function:  # as it is with NUMBA_DISABLE_JIT
        dispatcher._cache = _Cache(dispatcher)
    return dispatcher


class _Cache:
    """What Numba's dispatchers ask for compiled code (`numba.core.caching._Cache`)."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    @property
    def cache_path(self) -> str:
        return str(_folder())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        _know_runtime()
        processor = target_context.codegen().magic_tuple()
        payload = next((found for path in self._places(sig, processor) if (found := _loaded(path)) is not None), None)
        if payload is None and (others := os.environ.get("TAILRACE_KERNELS_FROM")):
            payload = _taken(Path(others) / self._name(sig, processor), _folder())
        if payload is None:
            while before_compiling:
                before_compiling.pop()()
            return None
        return _rebuilt(target_context, payload)

    def save_overload(self, sig: Any, data: Any) -> None:
        if data.library.has_dynamic_globals or any(not lifted.can_cache for lifted in data.lifted):
            return
        *described, environments = data._reduce()
        payload = dumps((*described, [each.__reduce__()[1] for each in environments]))
        _keep(
            _folder() / self._name(sig, data.codegen.magic_tuple()),
            hashlib.blake2b(payload, digest_size=_DIGEST).digest() + payload,
        )

    def enable(self) -> None:
        """Part of the interface; it is always enabled."""

    def disable(self) -> None:
        """Part of the interface; it is always enabled."""

    def flush(self) -> None:
        """Part of the interface; what is no longer used goes by itself."""

    def _places(self, sig: Any, processor: tuple[str, ...]) -> Iterator[Path]:
        if _is_portable(processor):
            name = self._name(sig, (processor[0], *PORTABLE))
            yield COMPILED / name
            yield _folder() / name
        yield _folder() / self._name(sig, processor)

    def _name(self, sig: Any, processor: tuple[str, ...]) -> str:
        function = self._dispatcher.py_func
        arguments, _ = sigutils.normalize_signature(sig)
        versions = (_FORM, sys.version_info[:2], sys.flags.optimize, numba.__version__, llvmlite.__version__, np.__version__)
        checked = ("bounds checked",) if config.BOUNDSCHECK else ()
        key = _digest(stamp(self._dispatcher), [*map(_spelled, arguments)], versions, processor, function.__qualname__, *checked)
        return f"{function.__module__.removeprefix('tailrace.')}.{function.__qualname__}-{key}.kernel"


def _rebuilt(target_context: Any, payload: Any) -> Any:
    """The kernel from what was kept: object code, and bitcode for whatever is compiled later and calls it. Numba parses the bitcode at once and asks
    LLVM for the names in it, which takes longer than all else; here it is parsed when somebody compiles such a caller."""
    (name, kind, (object_code, bitcode)), described, *rest, environments = payload
    engine = target_context.codegen()._engine
    engine._defined_symbols |= {
        described.llvm_func_name, described.llvm_cpython_wrapper_name, described.llvm_cfunc_wrapper_name,
    }  # fmt: skip
    kept = (name, kind, (object_code, _no_bitcode()))
    result = compiler.CompileResult._rebuild(
        target_context, kept, described, *rest, [_environment(*each) for each in environments]
    )
    library = result.library

    def module_for_linking() -> Any:
        if library._shared_module is None:
            library._shared_module = binding.parse_bitcode(bitcode)
            engine._load_defined_symbols(library._shared_module)
        return library._shared_module

    library._shared_module = None
    library._get_module_for_linking = module_for_linking
    return result


def _environment(module: str, constants: list[Any], name: str) -> Environment:
    """What compiled code takes Python objects from. The globals of its module, which Numba would import, are for code that is interpreted: no kernel
    is."""
    known = lookup_environment(name)
    if known is None:
        known = Environment(vars(sys.modules[module]) if module in sys.modules else {"__name__": module})
        known.consts[:], known.env_name = constants, name
        Environment._memo[name] = known
    return known


@cache
def _know_runtime() -> None:
    """What compiled code calls of Numba's runtime is known to LLVM by name. Numba also compiles what it links to new code, when it compiles any."""
    for name, address in _nrt_python.c_helpers.items():
        binding.add_symbol(name if name.startswith("_") else f"NRT_{name}", address)


@cache
def _no_bitcode() -> bytes:
    return bytes(binding.parse_assembly("").as_bitcode())


def _folder() -> Path:
    chosen = os.environ.get("TAILRACE_KERNELS")
    return Path(chosen) if chosen else user_cache() / "kernels"


def _loaded(path: Path) -> Any:
    """The pickled result; None if there is none, or none that is whole, or names a type that is elsewhere by now."""
    try:
        data = path.read_bytes()
        if time.time() - path.stat().st_mtime > _MONTH / 2 and path.parent != COMPILED:
            path.touch()  # still in use
    except OSError:
        return None
    if hashlib.blake2b(data[_DIGEST:], digest_size=_DIGEST).digest() != data[:_DIGEST]:
        return None
    try:
        return pickle.loads(data[_DIGEST:])
    except (AttributeError, ImportError):
        return None


def _taken(path: Path, folder: Path) -> Any:
    """What is kept there, which is kept in this folder from now on, too; None if there is none."""
    if (payload := _loaded(path)) is not None:
        _keep(folder / path.name, path.read_bytes())
    return payload


def _keep(path: Path, data: bytes) -> None:
    new = path.with_suffix(f".{os.getpid()}.new")
    with suppress(OSError):  # a cache that cannot be written costs time, and nothing else
        path.parent.mkdir(parents=True, exist_ok=True)
        new.write_bytes(data)
        new.rename(path)
        _forget_old(path.parent)


def _forget_old(folder: Path) -> None:
    """What nobody has loaded for a month belongs to code that nobody runs any more."""
    for path in folder.iterdir():
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _MONTH:
                path.unlink()


def portable_settings() -> dict[str, str]:
    """Numba's settings that have a process compile for PORTABLE; none where that does not run."""
    return dict(zip(("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"), PORTABLE, strict=True)) if _runs_portable() else {}


@cache
def _is_portable(processor: tuple[str, ...]) -> bool:
    """Whether code for PORTABLE runs in its place: asked once for each processor that Numba compiles for."""
    return _runs_portable()


def _runs_portable() -> bool:
    """Whether code for PORTABLE runs here, and the user has not asked Numba for another processor."""
    if platform.machine().lower() not in ("x86_64", "amd64") or config.CPU_NAME or config.CPU_FEATURES or not config.ENABLE_AVX:
        return False
    features = binding.get_host_cpu_features()
    return all(features.get(name, False) for name in _PORTABLE_FEATURES)


# -- what a kernel is made of ------------------------------------------------------------------------------------------------------


def stamp(dispatcher: Any) -> str:
    """A digest of the kernel's code and of all that it refers to. Raises TypeError for what cannot be told apart by its value."""
    known = getattr(dispatcher, "_tailrace_stamp", None)
    if known is None:
        options = [dispatcher.targetoptions.get(name) for name in ("_nrt", "forceinline")]
        known = dispatcher._tailrace_stamp = _digest(options, *_parts(dispatcher.py_func, dispatcher))
    return str(known)


def _parts(function: Any, itself: object) -> Iterator[object]:
    """Code, constants, and what is reached by name, of a function, which may call `itself`."""
    yield from _code_parts(function.__code__, function.__doc__)
    for cell in function.__closure__ or ():
        yield from _value_parts(cell.cell_contents, itself)
    names = list(_names(function.__code__))
    for name in names:
        if name not in function.__globals__:
            continue
        value = function.__globals__[name]
        if not isinstance(value, python.ModuleType):
            yield name
            yield from _value_parts(value, itself)
        elif value.__name__.startswith("tailrace."):
            for attribute in names:
                if hasattr(value, attribute):
                    yield attribute
                    yield from _value_parts(getattr(value, attribute), itself)


def _names(code: python.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, python.CodeType):
            yield from _names(constant)


def _code_parts(code: python.CodeType, doc: str | None = None) -> Iterator[object]:
    yield from (code.co_code, code.co_names, code.co_varnames, code.co_argcount)
    for constant in code.co_consts:
        if isinstance(constant, python.CodeType):
            yield from _code_parts(constant)
        elif doc is None or constant != doc:
            yield (type(constant).__name__, repr(constant))


def _value_parts(value: object, itself: object) -> Iterator[object]:
    if value is itself:
        return
    if isinstance(value, Dispatcher):
        yield stamp(value)
    elif isinstance(value, _Intrinsic | python.FunctionType):
        yield from _parts(getattr(value, "_defn", value), itself)
    elif isinstance(value, np.ndarray):
        yield from (value.dtype.str, value.shape, value.tobytes())
    elif value is None or isinstance(value, bool | int | float | str | bytes | tuple | np.generic | Type):
        yield (type(value).__name__, repr(value))
    elif isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields"):
        yield from (value.__name__, value._fields)  # a NamedTuple that the kernel makes
    elif isinstance(value, type | python.ModuleType | python.BuiltinFunctionType):
        yield getattr(value, "__name__", "")  # of Python, NumPy or Numba, whose versions are in the key
    else:
        raise TypeError(f"a kernel refers to {value!r}, whose changes would go unnoticed")


def _spelled(argument: Type) -> str:
    """An argument's type; of a NamedTuple with its fields, which Numba's name for it leaves out and code goes by their places, and with its module:
    what is stored names the class."""
    if isinstance(argument, BaseNamedTuple):
        fields = ", ".join(f"{name}: {_spelled(part)}" for name, part in zip(argument.fields, argument.types, strict=True))
        named = argument.instance_class
        return f"{named.__module__}.{named.__qualname__}({fields})"
    return str(argument)


def _digest(*parts: object) -> str:
    digest = hashlib.blake2b(digest_size=_DIGEST)
    for part in parts:
        digest.update(part if isinstance(part, bytes) else repr(part).encode())
        digest.update(b"\0")
    return digest.hexdigest()
