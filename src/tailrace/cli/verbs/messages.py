"""`tailrace messages`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tailrace.cli.loading import loading
from tailrace.cli.verbs.options import JsonOption
from tailrace.logicalproto.protocol import LATEST_PROTOCOL


def messages(
    file: Annotated[Path | None, typer.Argument(help="Lines with a message each; standard input if there is none.")] = None,
    proto_version: Annotated[int, typer.Option(help="Version of the protocol that was asked for.")] = LATEST_PROTOCOL,
    as_json: JsonOption = False,
) -> None:
    """Show messages of pgoutput: rows of pg_logical_slot_get_binary_changes as psql -At prints them, or JSON lines with a payload in hex."""
    with loading():
        from tailrace.cli.messages import print_messages

    print_messages(file, proto_version, as_json=as_json)
