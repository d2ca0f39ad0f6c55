"""The command line: one verb a file. `main` is the entry point; errors become one message on stderr and exit status 1."""

from __future__ import annotations

import errno
import mmap
import re
import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from tailrace.cli.ending import NOBODY_READS, WriteFailed, drop_output, ending, ready_streams
from tailrace.cli.loading import without_collector
from tailrace.errors import TailraceError

_EXTRAS = {
    "typer": "cli", "rich": "cli", "pyspark": "spark", "py4j": "spark", "deltalake": "delta", "pyroaring": "delta", "psycopg": "demo",
    "duckdb": "sql", "scramp": "serve", "obstore": "stores",
}  # fmt: skip
"""What brings the packages that not everybody needs."""
_OUT_OF_MEMORY = "out of memory\nHINT:  Give this process more (ulimit -v, its container), or decode less at once, in smaller windows (--window)."
_NO_ROOM = (
    "can't start new thread", "failed to map segment from shared object", "cannot allocate memory", "error return without exception set",
    "returned null without setting an exception",
)  # fmt: skip
"""What Python and the dynamic linker say without a MemoryError; the last two where there was no room for that itself."""
_SPARE = 4 << 20
"""Bytes that are kept free, to say that there are no more."""

_SETTING = re.compile(r"\b(numeric|arrays|times|on_error)=(\w+)")
"""As hints have settings, in the words of Python and of Spark's options."""

_STATUS_OF_FAILURE = {"verify": 2}
"""Of verbs whose status 1 says something else; 1 of all others."""


def main() -> None:
    """Run the command line."""
    ready_streams()
    with ending(), warnings.catch_warnings():
        warnings.showwarning = partial(_warned, warnings.showwarning)
        spare = list[mmap.mmap]()
        try:
            try:
                spare.append(mmap.mmap(-1, _SPARE))
                with without_collector():
                    from tailrace.cli.verbs import app  # noqa: PLC0415 - what is missing, and who interrupts, is met in here

                app()
            finally:
                sys.stdout.flush()
        except TailraceError as error:
            error.hint = _SETTING.sub(_as_option, error.hint)
            _fail(str(error))
        except ModuleNotFoundError as error:
            if error.name not in _EXTRAS:
                raise
            _fail(f"{error.name} is not installed\nHINT:  pip install 'tailrace[{_EXTRAS[error.name]}]'")
        except (MemoryError, RuntimeError, ImportError, SystemError) as error:
            spare.clear()
            if not isinstance(error, MemoryError) and not any(words in str(error).lower() for words in _NO_ROOM):
                raise
            _fail(_OUT_OF_MEMORY)
        except WriteFailed as failed:
            _fail_with(failed.error)
        except OSError as error:
            _fail_with(error)


def _warned(others: Callable[..., None], message: Warning | str, category: type[Warning], *where: Any) -> None:
    """What our own code warns of is said as verbs say it."""
    if category.__module__.startswith("tailrace."):
        sys.stderr.write(f"tailrace: warning: {message}\n")
    else:
        others(message, category, *where)


def _fail_with(error: OSError) -> NoReturn:
    if isinstance(error, BrokenPipeError):
        drop_output()
        sys.exit(NOBODY_READS)
    if error.errno == errno.ENOMEM:
        _fail(_OUT_OF_MEMORY)
    what = f'use "{error.filename}"' if error.filename else "write output"
    _fail(f"could not {what}: {error.strerror or error}")


def _as_option(setting: re.Match[str]) -> str:
    """As the command line spells it."""
    return f"--{setting[1].replace('_', '-')} {setting[2]}"


def _fail(message: str) -> NoReturn:
    drop_output()
    sys.stderr.write(f"tailrace: error: {message}\n")
    sys.exit(_STATUS_OF_FAILURE.get("".join(sys.argv[1:2]), 1))
