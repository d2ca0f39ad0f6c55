"""Arguments and options that several verbs have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tailrace.cli.choice import On
from tailrace.client.copy_options import CopyStrategy
from tailrace.types.style import PARAMETERS

_PARAMETERS = (
    f"Parameter of the session, NAME=VALUE. The text of values depends on {', '.join(PARAMETERS)}; from which size on transactions are streamed, on "
    "logical_decoding_work_mem."
)

SourceArgument = Annotated[
    str,
    typer.Argument(
        help="Data directory, base backup, pg_wal, directory of archived segments, s3://, gs:// or abfss:// of an archive, or connection string or "
        "URI of a server.",
        metavar="SOURCE",
    ),
]
LiveSourceArgument = Annotated[
    str,
    typer.Argument(
        help="Data directory, running or stopped, its pg_wal, a directory of archived segments, s3://, gs:// or abfss:// of an archive, or "
        "connection string or URI of a server.",
        metavar="SOURCE",
    ),
]
TableArgument = Annotated[str, typer.Argument(help="The table, schema.name as in SQL.")]
TableDatabaseOption = Annotated[
    str, typer.Option("--database", help="The table's database, if the connection string names none.")
]
CatalogOption = Annotated[str | None, typer.Option("--catalog", help="Captured catalog state: a file, or its URL in a store.")]
WalCatalogOption = Annotated[
    str | None, typer.Option("--catalog", help="Captured catalog state, for WAL alone: a file, or its URL in a store.")
]
IndexOption = Annotated[Path | None, typer.Option("--index", help="Keep indexes here, and use those that are.")]
PluginOption = Annotated[str, typer.Option("--plugin", help="Output plugin.")]
PluginOptions = Annotated[list[str] | None, typer.Option("-o", help="Plugin option, NAME=VALUE.")]
SetOption = Annotated[list[str] | None, typer.Option("--set", help=_PARAMETERS)]
WindowOption = Annotated[
    str,
    typer.Option("--window", help="How much WAL to plan and decode at once, such as 64MB. Memory follows it.", metavar="SIZE"),
]
SynchronousOption = Annotated[
    str | None,
    typer.Option(
        "--synchronous-standby-names", metavar="NAMES",
        help="Slots that the server's COMMIT waits for at synchronous_commit = remote_apply, as in postgresql.conf: 'FIRST 1 (a, b)'. The state "
        "location keeps it.",
    ),
]  # fmt: skip
OnOption = Annotated[
    On,
    typer.Option("--on", help="Where to work: in this process, on Spark, or, by itself, on Spark where a master is configured."),
]
LakeOption = Annotated[
    str, typer.Option("--to", help="The lake: a directory, or s3://, gs:// or abfss:// of a bucket.", metavar="URL")
]
LakeFormatOption = Annotated[
    str, typer.Option("--format", help="Format of the tables: delta, or iceberg. A lake keeps the format that it was made with.")
]
LakeLayoutOption = Annotated[
    str,
    typer.Option(
        "--layout", help="What the tables hold: mirror, changes, or history. A lake keeps the layout that it was made with."
    ),
]
NumericOption = Annotated[str, typer.Option("--numeric", help="Numerics as decimal, or as text.")]
ArraysOption = Annotated[str, typer.Option("--arrays", help="Arrays as list, or as text.")]
TimesOption = Annotated[str, typer.Option("--times", help="Times as native, or as text.")]
LakeUntilOption = Annotated[
    str,
    typer.Option(
        "--until", help="End when all that commits before here, or before this time, is in the lake.", metavar="LSN|TIME"
    ),
]
OnErrorOption = Annotated[
    str, typer.Option("--on-error", help="What becomes of a change that cannot be applied: stop, or quarantine it, and go on.")
]
StoreOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--option", metavar="KEY=VALUE",
        help="Option of the store, such as aws_region=eu-west-1; may be repeated. Give credentials in the environment, where others do not see them.",
    ),
]  # fmt: skip
SourceOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--source-option", metavar="KEY=VALUE",
        help="Option of the store in which SOURCE, or the catalog state, is, such as aws_region=eu-west-1; may be repeated.",
    ),
]  # fmt: skip
JsonOption = Annotated[bool, typer.Option("--json", help="As JSON.")]
WalKeepOption = Annotated[
    str,
    typer.Option(
        "--keep",
        help="Keep what was received in this time, as 12h, or so much of it, as 10GB, beyond what slots need.",
        metavar="TIME|SIZE",
    ),
]
NoCopyOption = Annotated[
    bool, typer.Option("--no-copy", help="Of a server that is connected to: copy no table, neither at first nor as it joins.")
]
CopyAgainOption = Annotated[
    list[str] | None,
    typer.Option("--copy-again", help="Replace what the lake has of this table by a copy; may be repeated.", metavar="TABLE"),
]
CopyRateOption = Annotated[
    str,
    typer.Option(help="Bytes a second that the copy of what was there reads at most, such as 10MB/s.", metavar="BYTES/s"),
]
CopyStrategyOption = Annotated[
    CopyStrategy,
    typer.Option(
        help="How tables are copied: from the pages of their files, or by the server, row by row. By itself it takes the pages of what has 64 MB "
        "or more, where the role may read them.",
    ),
]
ResyncOption = Annotated[
    bool,
    typer.Option(
        "--resync", help="Copy all tables of the lake once more, in place: for when the slot's log is lost. Give it once."
    ),
]
LogRestoreOption = Annotated[
    str,
    typer.Option(
        "--restore-command",
        help="Shell command that brings segments which the directory lacks from an archive, as a server's: %f is the file, %p where to put it.",
    ),
]
RestoreCommandOption = Annotated[
    str,
    typer.Option(
        "--restore-command",
        help="Shell command that brings what the server has removed, or the directory lacks, as a standby's: %f is the file, %p where to put it.",
    ),
]
