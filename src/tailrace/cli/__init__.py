"""The command line: one verb a file. `main` is the entry point; errors become one message on stderr and exit status 1."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import typer

from tailrace.cli import catalog, decode, demo, wal
from tailrace.errors import TailraceError

app = typer.Typer(
    name="tailrace", help="PostgreSQL's logical decoding on Apache Spark.", no_args_is_help=True, add_completion=False,
    pretty_exceptions_enable=False,
)  # fmt: skip
app.command("decode")(decode.decode)
app.command("demo")(demo.demo)
app.add_typer(wal.app, name="wal")
app.add_typer(catalog.app, name="catalog")


def main() -> None:
    """Run the command line."""
    try:
        app()
        sys.stdout.flush()
    except TailraceError as error:
        _fail(str(error))
    except BrokenPipeError:
        _drop_output()
        sys.exit(141)  # what a shell says of a program that SIGPIPE ended
    except OSError as error:
        what = f'use "{error.filename}"' if error.filename else "write output"
        _fail(f"could not {what}: {error.strerror or error}")


def _fail(message: str) -> NoReturn:
    _drop_output()
    sys.stderr.write(f"tailrace: error: {message}\n")
    sys.exit(1)


def _drop_output() -> None:
    """What is still buffered for standard output goes nowhere, so that the interpreter's last flush cannot fail as well."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
