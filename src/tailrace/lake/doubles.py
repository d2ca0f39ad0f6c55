"""Tables that two runs have made at once, in folders of their own, where nothing keeps runs of one directory apart."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tailrace.errors import Overtaken, TailraceError
from tailrace.feed import FeedSpan
from tailrace.lake.delta.table import find, tables_in
from tailrace.lake.position import position_of
from tailrace.lake.table import AGAIN
from tailrace.lake.target_tables import TableErrors, TargetTable


def withdraw_doubles(directory: Path, made: Sequence[TargetTable], span: FeedSpan, errors: TableErrors, away: Path) -> set[Path]:
    """Take back what was `made` by this one where another has made the same table at the same
    time, in a folder of another name: it goes to `away`. Each of both may, and then none is there, and running again makes
    one."""
    folders: dict[int, set[Path]] = {}
    for path in tables_in(directory):
        with suppress(OSError, TailraceError):  # taken back by who saw ours; or it was told of when the run began
            position = position_of(find(path), span)
            if position is not None:
                folders.setdefault(position.oid, set()).add(path)
    withdrawn = set()
    for target in made:
        if len(folders.get(target.relation.oid, ())) > 1 and target.path in folders[target.relation.oid]:
            target.path.rename(away / target.path.name)
            withdrawn.add(target.path)
            errors.add(target.name, Overtaken(f"table {target.name} has been made by another run, in another folder", hint=AGAIN))
    return withdrawn
