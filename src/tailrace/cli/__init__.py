"""The command line: one verb a file. `main` is the entry point; errors become one message on stderr and exit status 1."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from tailrace.cli import catalog, decode, demo, spool, wal
from tailrace.cli.ending import NOBODY_READS, drop_output, ending, ready_streams
from tailrace.errors import TailraceError


class _Verbs(TyperGroup):
    """Lets a failed write through: typer would end with status 1 where a reader has gone."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except OSError as error:
            raise _Failed(error) from None


class _Failed(Exception):
    """An OSError on its way past typer."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error)
        self.error = error


app = typer.Typer(
    cls=_Verbs, name="tailrace", help="PostgreSQL's logical decoding on Apache Spark.", no_args_is_help=True, add_completion=False,
    pretty_exceptions_enable=False,
)  # fmt: skip
app.command("decode")(decode.decode)
app.command("demo")(demo.demo)
app.add_typer(wal.app, name="wal")
app.add_typer(catalog.app, name="catalog")
app.add_typer(spool.app, name="spool")


def main() -> None:
    """Run the command line."""
    ready_streams()
    with ending():
        try:
            try:
                app()
            finally:
                sys.stdout.flush()
        except TailraceError as error:
            _fail(str(error))
        except _Failed as failed:
            _fail_with(failed.error)
        except OSError as error:
            _fail_with(error)


def _fail_with(error: OSError) -> NoReturn:
    if isinstance(error, BrokenPipeError):
        drop_output()
        sys.exit(NOBODY_READS)
    what = f'use "{error.filename}"' if error.filename else "write output"
    _fail(f"could not {what}: {error.strerror or error}")


def _fail(message: str) -> NoReturn:
    drop_output()
    sys.stderr.write(f"tailrace: error: {message}\n")
    sys.exit(1)
