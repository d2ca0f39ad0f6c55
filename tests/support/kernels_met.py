"""Which kernels ran, and which never did: `make bounds` runs tests with kernels that check their bounds, and none is to be left out.

Each process of the tests notes those that it ran (`note`); `python -m support.kernels_met FOLDER` names the kernels that are in no note, and fails
if there are any. An inner kernel becomes part of the code of those that call it, so it counts where one of them ran.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
import types
from collections.abc import Iterator, Sequence
from pathlib import Path

from numba.core.dispatcher import Dispatcher

import tailrace


def name_of(kernel: Dispatcher) -> str:
    return f"{kernel.py_func.__module__}.{kernel.py_func.__qualname__}"


def all_kernels() -> dict[str, Dispatcher]:
    """Of all modules of tailrace."""
    for module in pkgutil.walk_packages(tailrace.__path__, "tailrace."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    return _loaded()


def _loaded() -> dict[str, Dispatcher]:
    """Of the modules that this process has imported."""
    modules = [module for name, module in sys.modules.items() if name.startswith("tailrace.")]
    found = [value for module in modules for value in vars(module).values() if isinstance(value, Dispatcher)]
    return {name_of(each): each for each in found}


def with_callees(kernels: Sequence[Dispatcher]) -> set[str]:
    """These and whatever they call, and so on."""
    met: set[str] = set()
    waiting = list(kernels)
    while waiting:
        kernel = waiting.pop()
        if name_of(kernel) not in met:
            met.add(name_of(kernel))
            waiting += _named(kernel.py_func)
    return met


def _named(function: types.FunctionType) -> Iterator[Dispatcher]:
    """The kernels that a function names, as its own globals, as attributes of its modules, or in its closure."""
    names = list(_names(function.__code__))
    values = [function.__globals__[name] for name in names if name in function.__globals__]
    modules = [value for value in values if isinstance(value, types.ModuleType) and value.__name__.startswith("tailrace.")]
    values += [getattr(module, name) for module in modules for name in names if hasattr(module, name)]
    values += [cell.cell_contents for cell in function.__closure__ or ()]
    for value in values:
        if isinstance(value, Dispatcher):
            yield value
        elif isinstance(value, types.FunctionType) and value is not function:
            yield from _named(value)


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def note(folder: Path) -> None:
    """Write down which kernels this process has run."""
    run = [kernel for kernel in _loaded().values() if kernel.signatures]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / str(os.getpid())).write_text("".join(f"{name}\n" for name in sorted(with_callees(run))))


def never_met(folder: Path) -> list[str]:
    met = {name for path in folder.iterdir() for name in path.read_text().split()}
    return sorted(all_kernels().keys() - met)


if __name__ == "__main__":
    missing, total = never_met(Path(sys.argv[1])), len(all_kernels())
    print(f"{total - len(missing)} of {total} kernels ran with their bounds checked")
    sys.exit("\n".join(["these did not:", *missing]) if missing else 0)
