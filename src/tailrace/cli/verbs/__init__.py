"""The verbs, their arguments, options and help, as typer knows them: one file a verb, or a group of them.

Nobody should wait to be told what there is, or that a word is wrong: these files import what takes no time, read what the words mean
(`cli/arguments.py`), and only then import the file of `cli/` that does the work. Of them, only the called verb's is loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from tailrace.cli.ending import WriteFailed
from tailrace.cli.loading import without_collector
from tailrace.cli.plain_values import let_plain_values_pass
from tailrace.version import __version__

COMMANDS = ("decode", "history", "blame", "undo", "messages", "sql", "serve", "mirror", "verify", "replicate", "doctor", "demo")
GROUPS = ("wal", "catalog", "slot", "publication", "archive", "spool", "lake")


class _VerbsOnDemand(Mapping[str, Any]):
    """Every verb by its name. A verb's file is imported, and typer makes a command of it, when it is first asked for."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in COMMANDS and name not in GROUPS:
            raise KeyError(name)
        if name not in self._made:
            with without_collector():
                module = import_module(f"{__name__}.{name}")
                alone = typer.Typer()
                if name in GROUPS:
                    alone.add_typer(module.app, name=name)
                else:
                    alone.command()(getattr(module, name))
                self._made[name] = let_plain_values_pass(get_group(alone).commands[name])
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        yield from COMMANDS
        yield from GROUPS

    def __len__(self) -> int:
        return len(COMMANDS) + len(GROUPS)


class _Verbs(TyperGroup):
    """Loads a verb when it is called, and lets a failed write through: typer would end with status 1 where a reader has gone."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        let_plain_values_pass(self)
        self.commands: Any = _VerbsOnDemand()

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except OSError as error:
            raise WriteFailed(error) from None


app = typer.Typer(
    cls=_Verbs, name="tailrace", help="PostgreSQL's logical decoding on Apache Spark.", no_args_is_help=True,
    pretty_exceptions_enable=False,
)  # fmt: skip


def _show_version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"tailrace {__version__}\n")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True)] = False,
) -> None:
    """PostgreSQL's logical decoding on Apache Spark."""
