"""The command line: one verb a file. `main` is the entry point; errors become one message on stderr and exit status 1."""

from __future__ import annotations

import os
import sys

import typer

from tailrace.cli import catalog, decode, demo, wal
from tailrace.errors import TailraceError

app = typer.Typer(name="tailrace", help="PostgreSQL's logical decoding on Apache Spark.", no_args_is_help=True, add_completion=False)
app.command("decode")(decode.decode)
app.command("demo")(demo.demo)
app.add_typer(wal.app, name="wal")
app.add_typer(catalog.app, name="catalog")


def main() -> None:
    """Run the command line."""
    try:
        app(standalone_mode=True)
    except TailraceError as error:
        _fail(str(error))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as error:
        _fail(f'could not open "{error.filename}": {error.strerror}' if error.filename else str(error))


def _fail(message: str) -> None:
    sys.stderr.write(f"tailrace: error: {message}\n")
    sys.exit(1)
