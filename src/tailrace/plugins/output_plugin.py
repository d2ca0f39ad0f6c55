"""What an output plugin is called for (manual, "Logical Decoding Output Plugins"; `replication/output_plugin.h`): the callbacks,
many at a time.

They stand in the groups in which `OutputPluginCallbacks` has them: those of every plugin (`OutputPlugin`), those for two-phase
commit (`TwoPhaseCallbacks`), and those for transactions in progress (`StreamingCallbacks`). What a plugin in C does inside of its
change callback, to send relations before their rows, is a group of its own (`relation_callbacks.py`). Changes themselves are
printed by the other half, a `Formatter`.

An `OutputPlugin` lives with the ordered driver, as long as its stream, and may remember what it has written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.errors import TailraceError, UsageError
from tailrace.model import Lsn
from tailrace.plan.demand import Demand
from tailrace.plan.events import LogicalMessage, Truncation
from tailrace.plan.origin_filter import OriginFilter
from tailrace.plugins.formatter import Formatter
from tailrace.plugins.lines import Lines
from tailrace.plugins.parameters import with_parameters
from tailrace.publications.publishing.entry_timeline import Definitions
from tailrace.settings import WORK_MEM
from tailrace.transactions.commit_or_abort import Transactions, TwoPhase
from tailrace.types.encodings.server_encodings import UTF8
from tailrace.types.style import TextStyle
from tailrace.types.values import Texts


@dataclass(frozen=True, slots=True)
class OutputPluginOptions:
    """What a plugin asks of the driver: its startup callback says it, as in C, and with it what a plugin in C decides later,
    change by change."""

    binary_output: bool = False
    """Its output is bytes, and not text in the encoding of the database."""
    receive_rewrites: bool = False
    """It is given the rows that ALTER TABLE or REFRESH MATERIALIZED VIEW write into the new file of a table."""
    streaming: bool = False
    """It takes large transactions in blocks before they end."""
    messages: bool = True
    """It takes logical messages."""
    publication_names: tuple[str, ...] | None = None
    """It is given what these publications publish; None: all changes."""
    skip_empty_xacts: bool = False
    """It writes no BEGIN and COMMIT around nothing."""
    skip_empty_prepared: bool = True
    """Where empty transactions are skipped, prepared ones are, too."""
    messages_begin: bool = True
    """Where empty transactions are skipped, one that has a logical message is not empty."""
    stream_empty: bool = False
    """It opens a block for a transaction that is large enough to be streamed, and of which nothing is published."""
    truncate_each: bool = False
    """It is called for each table of a TRUNCATE by itself."""
    may_write_nothing: bool = False
    """An empty text stands for nothing: no row comes of it."""
    column_defaults: bool = False
    """Its formatter reads the default expressions of columns (`Column.default`)."""
    commits: bool = False
    """Its formatter reads how the transactions of rows ended (`Batch.commits`)."""


@dataclass(slots=True)
class DecodingContext:
    """What whoever opens a stream says of it to the plugin (`LogicalDecodingContext` in `replication/logical.h`)."""

    # -- set before startup
    slot: str = ""
    """The name of its slot, for errors, if it has one."""
    style: TextStyle = TextStyle()
    """How values are printed: parameters of the session."""
    work_mem: int = WORK_MEM
    """Bytes of WAL from which on transactions are streamed, if they are: logical_decoding_work_mem."""
    two_phase: bool = False
    """Whether prepared transactions come at PREPARE. The slot says so, or the plugin's options."""
    two_phase_since: int = 0
    """What was prepared before this LSN comes at its commit, PREPARE included."""
    # -- set before its stream begins
    upto_nchanges: int = 0
    """So many rows are asked for (0: all): behind the transaction or block that ends with as many, nothing more is."""
    definitions: Definitions = ()
    """Publications that are defined here, beside those of the source."""
    database: str = ""
    codec: str = UTF8
    """What text of the database is written in."""
    is_sql_ascii: bool = False
    """Whether the database does not know what its bytes mean: what is printed of it may be no UTF-8."""
    # -- kept by the driver
    transactions: Transactions | None = None
    """Those that are being written, by ordinal: whose a message or a TRUNCATE is."""

    def set_parameters(self, parameters: Mapping[str, str]) -> None:
        """Parameters of the session. Raises UsageError, in PostgreSQL's words, for names and values that are none."""
        self.style, self.work_mem = with_parameters(self.style, self.work_mem, parameters)


class PluginWarning(UserWarning):
    """What a plugin on the server raises with elog(WARNING)."""


class OutputPlugin:
    """The callbacks of every plugin. One instance lives as long as its stream."""

    name = ""

    def __init__(self) -> None:
        self.context = DecodingContext()
        self.wants = OutputPluginOptions()
        """What it asks of the driver, once it was started up."""
        self.failed: TailraceError | None = None
        """What ends the stream, behind what has been given."""
        self.warned: set[str] = set()
        """The warnings that were raised. The driver keeps it."""
        self.begun: set[int] = set()
        """Transactions in progress, by full xid, of which it has been given blocks. The driver keeps it."""

    # -- its life ----------------------------------------------------------------------------------------------------------------

    def startup(self, options: Mapping[str, str | None], major: int, *, is_init: bool = False) -> None:
        """Start the plugin up for a stream of a source of this major, or because a slot is created for it (`is_init`). Raises
        UsageError for options that it does not take."""
        self.context.style = replace(self.context.style, major=major)
        self.wants = self.started(options, major, is_init=is_init)

    def started(self, options: Mapping[str, str | None], major: int, *, is_init: bool) -> OutputPluginOptions:
        """startup_cb: it takes the options, refusing unknown names and values, and says what it asks of the driver."""
        raise NotImplementedError

    def shutdown(self) -> None:
        """shutdown_cb: its stream has ended, and not by an error."""

    @property
    def memory(self) -> dict[str, Any]:
        """What it must know of what it has written, to go on in another process; in what JSON can hold."""
        return {"begun": sorted(self.begun)}

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Go on from what `memory` gave."""
        self.begun = set(memory.get("begun", ()))

    # -- what it is given --------------------------------------------------------------------------------------------------------

    @property
    def filter_by_origin(self) -> OriginFilter | None:
        """filter_by_origin_cb: which replication origins it is given nothing of; None: it is given all."""
        return None

    def choose(self, publications: Sequence[str]) -> None:
        """Give what these publish, and no more, once it was started up. Raises UsageError if it has publications from its
        options."""
        if self.wants.publication_names is not None:
            raise UsageError(
                "conflicting or redundant options", hint=f"{self.name} has publications in its own options.", sqlstate="42601"
            )
        self.wants = replace(self.wants, publication_names=tuple(publications))

    @property
    def demand(self) -> Demand:
        """What it asks of a plan, once it was started up. It is given no other plan."""
        context, wants = self.context, self.wants
        two_phase = None
        if context.two_phase and isinstance(self, TwoPhaseCallbacks):
            two_phase = TwoPhase(context.two_phase_since, self.filter_prepare)
        return Demand(
            rewrites=wants.receive_rewrites, filter_by_origin=self.filter_by_origin, search_path=context.style.schemas,
            two_phase=two_phase, streaming=context.work_mem if wants.streaming else None,
            commits=wants.commits, defaults=context.style if wants.column_defaults else None,
        )  # fmt: skip

    # -- what it writes ----------------------------------------------------------------------------------------------------------

    @property
    def formatter(self) -> Formatter:
        """change_cb: the half that prints changes, once it was started up."""
        raise NotImplementedError

    def begin_texts(self, transactions: Transactions) -> Texts:
        """begin_cb: one text per transaction."""
        raise NotImplementedError

    def origin_texts(self, transactions: Transactions, ordinals: NDArray[np.int64], first: NDArray[np.int64]) -> Texts | None:
        """Behind the beginning of transactions that were replicated from elsewhere, where they come from; None: nothing, and of
        one an empty text. `first` are the LSNs of what is written first of each; 0: of one that begins before that is known."""
        return None

    def truncate_text(self, truncation: Truncation) -> str | bytes:
        """truncate_cb."""
        raise NotImplementedError

    def message_text(self, message: LogicalMessage) -> str | bytes:
        """message_cb."""
        raise NotImplementedError

    def commit_texts(self, transactions: Transactions) -> Texts:
        """commit_cb: one text per transaction."""
        raise NotImplementedError

    def written_upto(self, lsn: Lsn) -> None:
        """All that commits before `lsn` has been written: where a plan ends, and wherever else somebody may go on with what the
        plugin remembers."""

    def header_lsns(self, lines: Lines) -> NDArray[np.int64]:
        """The LSN under which a walsender sends each row: its own, but 0 for one that is not the last that its callback writes, so
        that nobody takes a position for passed that is not (`WalSndPrepareWrite`)."""
        return lines.lsn

    def finished(self, lines: Lines) -> Lines:
        """What is given of lines that are in order: called for all of them, once, in their order. Where it fails for one, it
        gives what ends before that and sets `failed`."""
        return lines


class TwoPhaseCallbacks:
    """Streaming of changes at prepare time: what a plugin has that takes prepared transactions at PREPARE."""

    @staticmethod
    def filter_prepare(xid: int, gid: str) -> bool:
        """filter_prepare_cb: whether a prepared transaction is to wait for its commit, like any other, instead of coming at
        PREPARE. Static where options do not matter: then plugins of one kind have equal demands."""
        return False

    def begin_prepare_texts(self, transactions: Transactions) -> Texts:
        """begin_prepare_cb: one text per transaction, as the others."""
        raise NotImplementedError

    def prepare_texts(self, transactions: Transactions) -> Texts:
        raise NotImplementedError

    def commit_prepared_texts(self, transactions: Transactions) -> Texts:
        raise NotImplementedError

    def rollback_prepared_texts(self, transactions: Transactions) -> Texts:
        raise NotImplementedError


class StreamingCallbacks:
    """Streaming of transactions in progress: what a plugin has that takes large ones in blocks before they end. Its formatter
    prints their rows, stream_change_cb, and finds in `Batch.stream` whose they are."""

    def stream_start_texts(self, transactions: Transactions, first: NDArray[np.bool_]) -> Texts:
        """stream_start_cb: one text per block; `first` says which of the transactions have not had one before."""
        raise NotImplementedError

    def stream_origin_texts(self, origins: NDArray[np.uint16], begun: NDArray[np.int64]) -> Texts | None:
        """Behind that, of first blocks that were replicated from elsewhere, where they come from: the origin of the first change
        of each, written or not; `begun` are the LSNs where their transactions begin. None: nothing, and of one an empty text."""
        return None

    def stream_stop_texts(self, transactions: Transactions) -> Texts:
        raise NotImplementedError

    def stream_abort_texts(self, transactions: Transactions, tops: Sequence[int]) -> Texts:
        """stream_abort_cb: one text per transaction rolled back, or subtransaction of one: the full xids of the top-level ones
        are in `tops`."""
        raise NotImplementedError

    def stream_prepare_texts(self, transactions: Transactions) -> Texts:
        raise NotImplementedError

    def stream_commit_texts(self, transactions: Transactions) -> Texts:
        raise NotImplementedError

    def stream_message_text(self, message: LogicalMessage, xid: int) -> str | bytes:
        raise NotImplementedError

    def stream_truncate_text(self, truncation: Truncation, xid: int) -> str | bytes:
        """stream_truncate_cb: `xid` is the top-level transaction's, of 32 bits; that of the subtransaction, the truncation
        has."""
        raise NotImplementedError


@contextmanager
def shut_down(plugin: OutputPlugin) -> Iterator[None]:
    """Shut a plugin down that was started up, when its stream ends, or nobody asks for more. What an error ends is not shut down,
    as on the server (`FreeDecodingContext`)."""
    try:
        yield
    except GeneratorExit:
        plugin.shutdown()
        raise
    plugin.shutdown()
