"""`tailrace verify` of a server that subscribes to another: whether it has what is published, and which rows it has not."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tailrace.cli.progress import counted
from tailrace.cli.tables import write_json
from tailrace.cli.verify_output import SUBSCRIBER, ToldTable, counts_as_json, write_tables
from tailrace.dataclass import dataclass
from tailrace.errors import MissingHistory, count_of
from tailrace.sources.dsn import without_password
from tailrace.verify.subscriber import LOOKS, SubscriberTable, subscriber_verification


@dataclass(frozen=True, slots=True)
class AskedSubscriber:
    source: str
    database: str
    subscriber: str
    subscriptions: Sequence[str]
    tables: Sequence[str]
    limit: int
    as_json: bool


def verify_subscriber(asked: AskedSubscriber) -> bool:
    """Print what differs; whether nothing does. Raises MissingHistory where nothing is known to differ, and rows could not be compared."""
    with counted("tables", is_alone=not asked.as_json) as progress:
        with subscriber_verification(
            asked.source,
            asked.database,
            asked.subscriber,
            asked.subscriptions,
            asked.tables,
            listed=asked.limit,
            tell=progress.show,
        ) as found:
            lsn, compared = found.run()
        progress.add(len(compared))
    told = list(map(_told, compared))
    if asked.as_json:
        write_json(counts_as_json(told, SUBSCRIBER, lsn, without_password(asked.subscriber)))
    else:
        write_tables(told, SUBSCRIBER, lsn)
    is_equal = not any(each.differs for each in compared)
    undecided = sum(each.undecided for each in told)
    if is_equal and undecided:
        sys.stdout.flush()
        raise MissingHistory(
            f"{count_of(undecided, 'row', 'were')} not compared",
            detail=f"Somebody changed them each of {LOOKS} times that they were looked at.", hint="Run this again while less is changed.",
        )  # fmt: skip
    return is_equal


def _told(each: SubscriberTable) -> ToldTable:
    undecided = len(each.undecided) if each.undecided is not None else 0
    changing = f"{count_of(undecided, 'row', 'were')} changed whenever looked at, and not compared" if undecided else ""
    why_not = f"it is not compared: {each.table.why_not}" if each.table.why_not else ""
    return ToldTable(
        each.table.name, each.rows, each.found, each.listed, each.table.unfit, why_not or changing, undecided=undecided,
        is_compared=not why_not,
    )  # fmt: skip
