"""`tailrace verify`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from tailrace.cli.arguments import database_of, parse_store_options
from tailrace.cli.choice import On
from tailrace.cli.loading import loading
from tailrace.cli.verbs.options import JsonOption, OnOption, StoreOptions
from tailrace.client.copy_options import CopyStrategy
from tailrace.errors import TailraceError, UsageError
from tailrace.sources.dsn import is_dsn

_NOT_COMPARED = 2
"""The status of who could not compare, as diff's."""
_ToOption = Annotated[
    str,
    typer.Option(
        "--to",
        help="What is compared with it: a lake (a directory, or s3://, gs:// or abfss:// of a bucket), or the connection string of a server "
        "that subscribes to SOURCE.",
        metavar="URL",
    ),
]
_StrategyOption = Annotated[
    CopyStrategy,
    typer.Option(
        help="How the server's rows are read: from the pages of tables' files, which costs it much less, with some rows of each part by the "
        "server as well; or all of them by the server. By itself it takes the pages of what has 64 MB or more, where the role may read them.",
    ),
]


def verify(
    source: Annotated[
        str, typer.Argument(help="Connection string or URI of the server that the lake is of; or another lake.", metavar="SOURCE")
    ],
    to: _ToOption,
    database: Annotated[str, typer.Option(help="Database whose tables are compared, if the connection string names none.")] = "",
    tables: Annotated[
        list[str] | None,
        typer.Option("--table", "--tables", help="Only this table, schema.name as in SQL; may be repeated.", metavar="TABLE"),
    ] = None,
    subscription: Annotated[
        list[str] | None,
        typer.Option("--subscription", help="Only this subscription of a server's database; may be repeated.", metavar="NAME"),
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="Of each table so many rows that differ are shown.")] = 100,
    state: Annotated[
        Path | None,
        typer.Option(
            "--state", help="State location in which publications of the lake are defined, if any are.", file_okay=False
        ),
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Make the rows of the lake that differ as the server has them.")
    ] = False,
    copy_strategy: _StrategyOption = CopyStrategy.AUTO,
    option: StoreOptions = None,
    on: OnOption = On.AUTO,
    as_json: JsonOption = False,
) -> None:
    """Compare a lake's rows with its server's at one LSN, or with another lake's; or a subscriber's with its publisher's, in two looks. Exits with 1
    where they differ, with 2 where it cannot tell."""
    options = parse_store_options(option)
    _exit_by(
        lambda: _fits(
            source,
            to,
            repair=repair,
            has_store=bool(options or state),
            names_subscriptions=bool(subscription),
            by_pages=copy_strategy is CopyStrategy.PAGES,
        )
    )
    if is_dsn(source):
        database = database_of(source, database)
    if is_dsn(to):
        with loading():
            from tailrace.cli import verify_subscriber as of_subscriber
        asked = of_subscriber.AskedSubscriber(source, database, to, subscription or [], tables or [], limit, as_json)
        _exit_by(lambda: of_subscriber.verify_subscriber(asked))
        return
    with loading():
        from tailrace.cli import verify as work
    _exit_by(
        lambda: work.verify(
            work.AskedComparison(source, database, to, options, tables or [], limit, state, copy_strategy, on, repair, as_json)
        )
    )


def _fits(source: str, to: str, *, repair: bool, has_store: bool, names_subscriptions: bool, by_pages: bool) -> bool:
    """Raises UsageError for what cannot be asked of these two."""
    if by_pages and (is_dsn(to) or not is_dsn(source)):
        raise UsageError(
            "--copy-strategy is for a lake that is compared with its server",
            hint="Give the server's connection string as SOURCE.",
        )
    if not is_dsn(to):
        if names_subscriptions:
            raise UsageError("--subscription is for a server that subscribes", hint="Give its connection string by --to.")
        if repair and not is_dsn(source):
            raise UsageError(
                "--repair is for a lake that is compared with its server", hint="Give the server's connection string."
            )
        return True
    if not is_dsn(source):
        raise UsageError(
            "a subscriber is compared with its publisher", hint="Give the connection string of that server as SOURCE."
        )
    if repair:
        raise UsageError(
            "--repair is for a lake, and not for a server that subscribes",
            detail="What is written there by hand is no change of the publisher's, and may stand in the way of one that comes.",
            hint="Put the rows right by SQL on the subscriber. Or take the table out of the publication, refresh the subscription, TRUNCATE the "
            "table there, and put it in again, and it is copied anew.",
        )  # fmt: skip
    if has_store:
        raise UsageError("--option and --state are for a lake, and not for a server that subscribes")
    return True


def _exit_by(is_equal: Callable[[], bool]) -> None:
    """With the status that says what came of it."""
    try:
        differs = not is_equal()
    except TailraceError as error:
        sys.stdout.flush()
        sys.stderr.write(f"tailrace: error: {error}\n")
        raise typer.Exit(_NOT_COMPARED) from None
    if differs:
        raise typer.Exit(1)
