"""The base class of output plugins that are written per change (`OutputPluginCallbacks` in `replication/output_plugin.h`).

A plugin overrides the callbacks that it wants to be called for. `begin`, `change` and `commit` are required. Where `prepare` is
there, prepared transactions of a slot in two phases come at PREPARE; where `stream_start` is, large transactions come in blocks
before they end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from tailrace.errors import UsageError
from tailrace.model import Lsn, Relation, Transaction

if TYPE_CHECKING:
    from tailrace.plugins.callbacks.change import Change
    from tailrace.plugins.callbacks.context import Context, OutputOptions

_REQUIRED = ("begin", "change", "commit")
_TWO_PHASE = ("begin_prepare", "prepare", "commit_prepared", "rollback_prepared")
_STREAMING = ("stream_start", "stream_stop", "stream_abort", "stream_commit", "stream_change")


class Plugin:
    """One instance lives as long as its stream, and its callbacks are called one at a time, as PostgreSQL calls those of a plugin
    in C: it may keep what it likes in itself.

    Unless it is `parallel`: then `change` is called in workers, in no order, on copies of it made after `startup`. What it does
    there may depend on the change and on the options alone, and its `txn` has no more than xid, commit_lsn, commit_time and
    origin. The other callbacks are called as ever, but know nothing of what `change` did.

    Values come as PostgreSQL prints them; where it is `typed`, as Python's int, Decimal, datetime, list and so on.
    """

    parallel = False
    typed = False

    # -- its life ----------------------------------------------------------------------------------------------------------------

    def startup(self, ctx: Context, options: OutputOptions, is_init: bool) -> None:
        """A slot is created (`is_init`) or asked to stream. Takes `ctx.options`, refusing what it does not know (UsageError);
        `options` are its own to set."""

    def shutdown(self, ctx: Context) -> None:
        """The stream has ended, and not by an error; or a slot has been created. What must be closed after an error, too, a
        plugin closes when it goes itself (`weakref.finalize`)."""

    # -- transactions ------------------------------------------------------------------------------------------------------------

    def begin(self, ctx: Context, txn: Transaction) -> None:
        """A committed transaction begins to be written. Required."""
        raise NotImplementedError

    def change(self, ctx: Context, txn: Transaction, relation: Relation, change: Change) -> None:
        """A row was inserted, updated or deleted. Required, or `change_batch` in its place."""
        raise NotImplementedError

    def change_batch(self, ctx: Context, relation: Relation, changes: pa.RecordBatch) -> pa.Array:
        """Many changes of a table at once, in workers: one text or bytes for each row of `changes`, NULL where nothing is
        written. Columns as those of the DataFrame: kind, unchanged, new, old, xid, lsn, commit_lsn, commit_timestamp."""
        raise NotImplementedError

    def truncate(self, ctx: Context, txn: Transaction, relations: tuple[Relation, ...], change: Change) -> None:
        """TRUNCATE, of one table or several."""

    def commit(self, ctx: Context, txn: Transaction, commit_lsn: Lsn) -> None:
        """All changes of the transaction have been written; `commit_lsn` is where its commit record begins. Required."""
        raise NotImplementedError

    def message(
        self, ctx: Context, txn: Transaction | None, message_lsn: Lsn, transactional: bool, prefix: str, message: bytes
    ) -> None:
        """pg_logical_emit_message. `message_lsn` is where its record ends. `txn` is None where the message is not transactional
        and its session had no xid yet."""

    def filter_by_origin(self, ctx: Context, origin_id: int) -> bool:
        """Whether to leave out what comes from an origin (0: from here). Asked once for each; no other callback is called for
        what it filters."""
        return False

    # -- two phases --------------------------------------------------------------------------------------------------------------

    def filter_prepare(self, ctx: Context, xid: int, gid: str) -> bool:
        """Whether a prepared transaction is to wait for its COMMIT PREPARED like any other. Asked for its PREPARE and for its
        end: it must answer the same."""
        return False

    def begin_prepare(self, ctx: Context, txn: Transaction) -> None:
        """A prepared transaction begins to be written. Its `commit_lsn` and `commit_time` are those of PREPARE."""

    def prepare(self, ctx: Context, txn: Transaction, prepare_lsn: Lsn) -> None:
        """All its changes have been written; what becomes of it is written later."""

    def commit_prepared(self, ctx: Context, txn: Transaction, commit_lsn: Lsn) -> None:
        """COMMIT PREPARED."""

    def rollback_prepared(self, ctx: Context, txn: Transaction, prepare_end_lsn: Lsn, prepare_time: int) -> None:
        """It was rolled back. Where its PREPARE ended, and when it was, in microseconds since 2000-01-01 UTC."""

    # -- transactions in progress ------------------------------------------------------------------------------------------------

    def stream_start(self, ctx: Context, txn: Transaction) -> None:
        """A block of a transaction in progress begins, its first or another. Of the transaction no more is known than its xid."""

    def stream_stop(self, ctx: Context, txn: Transaction) -> None:
        """The block ends."""

    def stream_abort(self, ctx: Context, txn: Transaction, abort_lsn: Lsn) -> None:
        """A transaction of which there were blocks was rolled back, or a subtransaction of one: then `txn` is that."""

    def stream_prepare(self, ctx: Context, txn: Transaction, prepare_lsn: Lsn) -> None:
        """It was prepared, behind its last block."""

    def stream_commit(self, ctx: Context, txn: Transaction, commit_lsn: Lsn) -> None:
        """It was committed, behind its last block."""

    def stream_change(self, ctx: Context, txn: Transaction, relation: Relation, change: Change) -> None:
        """As `change`, in a block."""

    def stream_message(
        self, ctx: Context, txn: Transaction | None, message_lsn: Lsn, transactional: bool, prefix: str, message: bytes
    ) -> None:
        """As `message`, in a block."""

    def stream_truncate(self, ctx: Context, txn: Transaction, relations: tuple[Relation, ...], change: Change) -> None:
        """As `truncate`, in a block."""


def implements(plugin: Plugin, callback: str) -> bool:
    """Whether a plugin has this callback."""
    return getattr(type(plugin), callback) is not getattr(Plugin, callback)


def check_callbacks(plugin: Plugin) -> None:
    """Raise the server's errors for callbacks that are missing (`LoadOutputPlugin`, `StartupDecodingContext` in
    `replication/logical/logical.c`)."""
    for callback in _REQUIRED:
        if not implements(plugin, callback) and not (callback == "change" and implements(plugin, "change_batch")):
            raise UsageError(f"output plugins have to register a {callback} callback", sqlstate="XX000")
    for callbacks, what in ((_TWO_PHASE, "logical replication at prepare time"), (_STREAMING, "logical streaming")):
        there = [implements(plugin, callback) for callback in callbacks]
        if any(there) and not all(there):
            raise UsageError(f"{what} requires a {callbacks[there.index(False)]}_cb callback", sqlstate="55000")
