"""What an output plugin is asked for (Logical Decoding, Output Plugins; `replication/output_plugin.h`): the manual's callbacks, many at a time.

PostgreSQL calls a plugin once a change, in commit order. Here it has two halves. A `Formatter` prints changes of a table, as columns: far and wide,
in workers, in no order, so that what it prints of a change can only depend on the change and on the options. The `OutputPlugin` itself lives with
the ordered driver, as long as its stream, and may remember what it has told: it prints what begins and ends transactions and blocks, and what
stands between rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.history import History
from tailrace.decode import Batch
from tailrace.errors import TailraceError, UsageError
from tailrace.model import Lsn, Relation
from tailrace.plan import Plan
from tailrace.plan.demand import Demand
from tailrace.plan.events import LogicalMessage, Truncation
from tailrace.plan.origins import OriginFilter, from_elsewhere
from tailrace.plan.stale import Stale
from tailrace.publications.publish import Publisher
from tailrace.publications.timeline import Definitions
from tailrace.settings import WORK_MEM, parse_work_mem
from tailrace.transactions.fates import Transactions, TwoPhase
from tailrace.types.encodings.server_encodings import UTF8
from tailrace.types.style import NameOf, TextStyle
from tailrace.types.values import Texts

if TYPE_CHECKING:
    from tailrace.plugins.lines import Lines


class Formatter:
    """Prints changes of tables. It travels to workers, and remembers nothing from batch to batch."""

    tells_relations = False
    """Whether the driver must know of which relation each row is."""

    def knowing(self, names: NameOf | None, codec: str) -> Formatter:
        """One that prints these names for regclass and its kin, and reads text in this encoding; itself if it prints no values."""
        return self

    @property
    def checks_values(self) -> bool:
        """Whether values themselves are checked to be the client's UTF-8, where a database does not know what its bytes mean (SQL_ASCII): of
        plugins that convert value by value, as the server's do with pq_sendtext. What others print is checked where it leaves as text."""
        return False

    def relations_of(self, batch: Batch) -> Sequence[Relation]:
        """Of which relations rows are, to the driver."""
        return batch.relations

    def untold(self, batch: Batch) -> frozenset[str]:
        """In the plugin's words, which of the changes it cannot tell: the stream warns of each once, and goes on."""
        return frozenset()

    def change_texts(self, batch: Batch) -> Texts:
        """One text per change. The batch may be of thousands of tables (partitions)."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """What a plugin may want to know of a plan: what is published, when relations become stale, and what catalogs were."""

    plan: Plan
    history: History
    stale: Stale
    publisher: Publisher | None


@dataclass(frozen=True, slots=True)
class RelationUses:
    """Rows in order: of which of `relations` each is (-1: of none), of which transaction, where it stands, and of a streamed one the xid of its
    subtransaction; and by place the TRUNCATEs among them."""

    relations: tuple[Relation, ...]
    relation: NDArray[np.int32]
    ordinal: NDArray[np.int64]
    lsn: NDArray[np.int64]
    xid: NDArray[np.uint32]
    truncations: Sequence[tuple[int, Truncation]]


class PluginWarning(UserWarning):
    """What a plugin on the server raises with elog(WARNING)."""


class OutputPlugin:
    """Base of plugins. One instance lives as long as its stream."""

    name = ""
    style = TextStyle()
    """How values are printed. Set before `startup`."""
    work_mem = WORK_MEM
    """Bytes of WAL from which on transactions are streamed, if they are: logical_decoding_work_mem. Set before `startup`."""
    two_phase = False
    """Whether it is told of prepared transactions at PREPARE. A slot decides that, not the plugin's options; set before the plan is made."""
    two_phase_since = 0
    """What was prepared before this LSN is told at its commit, PREPARE included; a slot's, too."""
    streams = False
    """Whether it takes large transactions in blocks before they end."""
    streams_nothing = False
    """Whether it tells of a transaction that is large enough to be streamed, and of which it gives nothing."""
    skips_empty_transactions = False
    only_local = False
    """Whether it wants nothing that was replicated from elsewhere."""
    skips_empty_prepared = True
    """Where empty transactions are skipped, whether prepared ones are, too."""
    takes_messages = True
    """Whether it wants to be told of logical messages."""
    tells_relations = False
    """Whether it tells what relations are, before their rows."""
    publication_names: tuple[str, ...] | None = None
    """The publications whose changes it gives; None: it gives all."""
    definitions: Definitions = ()
    """Publications that are defined here, beside those of the source."""
    messages_begin = True
    """Where empty transactions are skipped, whether a message makes its transaction worth a BEGIN."""
    receives_rewrites = False
    """Whether it wants to see the rows that ALTER TABLE or REFRESH MATERIALIZED VIEW write into the new file of a table."""
    may_be_silent = False
    """Whether an empty text stands for nothing: no row comes of it."""
    truncates_one_by_one = False
    """Whether it tells of each table of a TRUNCATE by itself."""
    tells_defaults = False
    """Whether its formatter must know the default expressions of columns (`Column.default`)."""
    needs_commits = False
    """Whether its formatter must know how the transactions of rows ended (`Batch.commits`)."""
    transactions: Transactions | None = None
    """Those that are being told, by ordinal: whose a message or a TRUNCATE is. The driver sets it."""
    writes_binary = False
    """Whether its output is bytes, and not text in the encoding of the database."""
    failed: TailraceError | None = None
    """What ends the stream, behind what has been given."""
    upto_nchanges = 0
    """So many rows are asked for (0: all): behind the transaction or block that ends with as many, nothing more is. Set before its stream begins."""
    slot = ""
    """The name of its slot, for errors, if it has one. Set before `startup`."""
    codec = UTF8
    is_unsure_of_bytes = False
    """Whether the database is in SQL_ASCII: what is printed of it may be no UTF-8."""
    """What text of the database is written in; known once the source is."""
    database = ""
    """Its name; known then, too."""

    def __init__(self) -> None:
        self.warned: set[str] = set()
        """What it could not tell, as far as that has been said."""
        self.begun: set[int] = set()
        """Transactions in progress, by full xid, of which it has been given blocks. The driver keeps it."""

    def startup(self, options: Mapping[str, str | None], major: int) -> None:
        """Take the options, refusing unknown names and values. `major` is the source's."""
        raise NotImplementedError

    def created(self, options: Mapping[str, str | None], major: int) -> None:
        """As `startup`, where a slot is created for it."""
        self.startup(options, major)

    def shutdown(self) -> None:
        """Its stream has ended, and not by an error."""

    @property
    def memory(self) -> dict[str, Any]:
        """What it must know of what it has told, to go on in another process; in what JSON can hold."""
        return {"begun": sorted(self.begun)}

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Go on from there."""
        self.begun = set(memory.get("begun", ()))

    @property
    def formatter(self) -> Formatter:
        """The half that prints changes, once there are options."""
        raise NotImplementedError

    @property
    def demand(self) -> Demand:
        """What it asks of a plan, once it has its options. It is given no other plan."""
        return Demand(
            rewrites=self.receives_rewrites, filter_by_origin=self.filter_by_origin, search_path=self.style.schemas,
            two_phase=TwoPhase(self.two_phase_since, self.filter_prepare) if self.two_phase else None,
            streaming=self.work_mem if self.streams else None, commits=self.needs_commits,
            defaults=self.style if self.tells_defaults else None,
        )  # fmt: skip

    @property
    def filter_by_origin(self) -> OriginFilter | None:
        """Which origins' changes it does not want (the manual's filter_by_origin_cb). Plugins of one kind with equal options have equal filters."""
        return from_elsewhere if self.only_local else None

    def choose(self, publications: Sequence[str]) -> None:
        """Give what these publish, and no more, once it has its options. Raises UsageError if it has publications from there."""
        if self.publication_names is not None:
            raise UsageError(
                "conflicting or redundant options", hint=f"{self.name} has publications in its own options.", sqlstate="42601"
            )
        self.publication_names = tuple(publications)

    def begin_texts(self, transactions: Transactions) -> Texts:
        """One text per transaction."""
        raise NotImplementedError

    def commit_texts(self, transactions: Transactions) -> Texts:
        """One text per transaction."""
        raise NotImplementedError

    def origin_texts(self, transactions: Transactions, ordinals: NDArray[np.int64], first: NDArray[np.int64]) -> Texts | None:
        """What tells of transactions that were replicated from elsewhere where they come from, behind their beginning; None: nothing does, and of
        one an empty text. `first` are the LSNs of what is told first of each; 0: of one that begins before that is known."""
        return None

    def truncate_text(self, truncation: Truncation) -> str | bytes:
        raise NotImplementedError

    def message_text(self, message: LogicalMessage) -> str | bytes:
        raise NotImplementedError

    def planned(self, about: PlanFacts) -> None:
        """What comes next is told of this plan."""

    def relations_told(self, uses: RelationUses) -> tuple[NDArray[np.int64], Texts]:
        """Texts that tell what relations are, each with the place of the row before which it stands. Called once for all rows, in order."""
        raise NotImplementedError

    def told_upto(self, lsn: Lsn) -> None:
        """All that commits before `lsn` has been told: where the plan ends, and wherever else somebody may go on with what it remembers."""

    def finished(self, lines: Lines) -> Lines:
        """What is given of lines that are in order: called for all of them, once, in their order. Where it fails for one, it gives what ends before
        that and sets `failed`."""
        return lines

    # -- two phases ------------------------------------------------------------------------------------------------------------------

    @staticmethod
    def filter_prepare(xid: int, gid: str) -> bool:
        """Whether a prepared transaction is to wait for its commit, like any other, instead of coming at PREPARE. Static where options do not matter:
        then plugins of one kind have equal demands."""
        return False

    def prepare_texts(self, transactions: Transactions) -> Texts:
        """In two phases, what ends each of these instead of `commit_texts`."""
        raise NotImplementedError

    def commit_prepared_texts(self, transactions: Transactions) -> Texts:
        """In two phases, one text per COMMIT PREPARED."""
        raise NotImplementedError

    def rollback_prepared_texts(self, transactions: Transactions) -> Texts:
        raise NotImplementedError

    # -- blocks of transactions in progress --------------------------------------------------------------------------------------------
    # Their rows are printed by the formatter, which finds in `Batch.stream` whose they are.

    def stream_start_texts(self, transactions: Transactions, first: NDArray[np.bool_]) -> Texts:
        """What opens a block of each of these; `first` says which have not had one before."""
        raise NotImplementedError

    def stream_origin_texts(self, origins: NDArray[np.uint16], begun: NDArray[np.int64]) -> Texts | None:
        """What tells, behind that, of first blocks that were replicated from elsewhere, by the origin of the first change of each, told or not;
        `begun` are the LSNs where their transactions begin. None: nothing does, and of one an empty text."""
        return None

    def stream_stop_texts(self, transactions: Transactions) -> Texts:
        raise NotImplementedError

    def stream_commit_texts(self, transactions: Transactions) -> Texts:
        raise NotImplementedError

    def stream_prepare_texts(self, transactions: Transactions) -> Texts:
        raise NotImplementedError

    def stream_abort_texts(self, transactions: Transactions, tops: Sequence[int]) -> Texts:
        """One text per transaction rolled back, or subtransaction of one: the full xids of the top-level ones are in `tops`."""
        raise NotImplementedError

    def stream_truncate_text(self, truncation: Truncation, xid: int) -> str | bytes:
        """`xid` is the top-level transaction's, of 32 bits; that of the subtransaction, the truncation has."""
        raise NotImplementedError

    def stream_message_text(self, message: LogicalMessage, xid: int) -> str | bytes:
        raise NotImplementedError

    # ----------------------------------------------------------------------------------------------------------------------------------

    def under(self, parameters: Mapping[str, str]) -> None:
        """Set parameters of the session, before `startup`. Raises UsageError, in PostgreSQL's words, for names and values that are none."""
        others = dict(parameters)
        for name in [name for name in others if name.lower() == "logical_decoding_work_mem"]:
            self.work_mem = parse_work_mem(others.pop(name))
        self.style = self.style.under(others)


@contextmanager
def shut_down(plugin: OutputPlugin) -> Iterator[None]:
    """Shut a plugin down that was started up, when its stream ends, or nobody asks for more. What an error ends is not shut down, as on the server
    (`FreeDecodingContext`)."""
    try:
        yield
    except GeneratorExit:
        plugin.shutdown()
        raise
    plugin.shutdown()
