"""An output plugin that says which of its callbacks are called, in which order and with what: `tests/calls/trace.c` once more, in Python.

`Tracing` has all callbacks, `TracingRequired` those that a plugin must have, startup and shutdown, `TracingTwoPhase` those for two phases, too. Lines
of calls are kept in `CALLS`, whichever instance was called.
"""

from __future__ import annotations

from typing import Any

from tailrace.model import Lsn, Relation, Transaction
from tailrace.plugins.callbacks import Change, Context, OutputOptions, Plugin

CALLS: list[str] = []


class TracingRequired(Plugin):
    """What a plugin must have, and what begins and ends its life."""

    def startup(self, ctx: Context, options: OutputOptions, is_init: bool) -> None:
        self.options = ctx.options
        given = "".join(f" {name}={value}" for name, value in ctx.options.items())
        self.say(ctx, "startup", f"is_init={_word(is_init)} options:{given}", writes=False)

    def shutdown(self, ctx: Context) -> None:
        self.say(ctx, "shutdown", "", writes=False)

    def say(self, ctx: Context, callback: str, about: str, *, writes: bool = True) -> None:
        line = f"{callback} {about}".rstrip(" ")
        CALLS.append(line)
        if writes:
            ctx.emit(line)
        if self.options.get("raise") == callback:
            raise ValueError(f"raised in {callback}")

    def begin(self, ctx: Context, txn: Transaction) -> None:
        where = f"first_lsn={txn.first_lsn} commit_lsn={txn.commit_lsn} end_lsn={txn.end_lsn}"
        about = f"commit_time={txn.commit_time} origin={txn.origin} origin_lsn={txn.origin_lsn}"
        self.say(ctx, "begin", f"xid={txn.xid} {where} {about}")

    def change(self, ctx: Context, txn: Transaction, relation: Relation, change: Change) -> None:
        self.say(ctx, "change", _of_change(txn, relation, change))

    def commit(self, ctx: Context, txn: Transaction, commit_lsn: Lsn) -> None:
        self.say(ctx, "commit", f"xid={txn.xid} commit_lsn={commit_lsn}")


class TracingTwoPhase(TracingRequired):
    """… and of prepared transactions."""

    def filter_prepare(self, ctx: Context, xid: int, gid: str) -> bool:
        self.say(ctx, "filter_prepare", f"xid={xid} gid={gid}", writes=False)
        prefix = self.options.get("filter_gid")
        return prefix is not None and gid.startswith(prefix)

    def begin_prepare(self, ctx: Context, txn: Transaction) -> None:
        where = f"first_lsn={txn.first_lsn} prepare_lsn={txn.commit_lsn} end_lsn={txn.end_lsn}"
        self.say(ctx, "begin_prepare", f"xid={txn.xid} gid={txn.gid} {where} prepare_time={txn.commit_time}")

    def prepare(self, ctx: Context, txn: Transaction, prepare_lsn: Lsn) -> None:
        self.say(ctx, "prepare", f"xid={txn.xid} gid={txn.gid} prepare_lsn={prepare_lsn}")

    def commit_prepared(self, ctx: Context, txn: Transaction, commit_lsn: Lsn) -> None:
        self.say(ctx, "commit_prepared", f"xid={txn.xid} gid={txn.gid} commit_lsn={commit_lsn}")

    def rollback_prepared(self, ctx: Context, txn: Transaction, prepare_end_lsn: Lsn, prepare_time: int) -> None:
        about = f"prepare_end_lsn={prepare_end_lsn} prepare_time={prepare_time}"
        self.say(ctx, "rollback_prepared", f"xid={txn.xid} gid={txn.gid} {about}")


class Tracing(TracingTwoPhase):
    """… and all others."""

    def truncate(self, ctx: Context, txn: Transaction, relations: tuple[Relation, ...], change: Change) -> None:
        self.say(ctx, "truncate", _of_truncate(txn, relations, change))

    def message(self, ctx: Context, txn: Transaction | None, *about: Any) -> None:
        self.say(ctx, "message", _of_message(txn, *about))

    def filter_by_origin(self, ctx: Context, origin_id: int) -> bool:
        self.say(ctx, "filter_by_origin", f"origin={origin_id}", writes=False)
        return "filter_origins" in self.options and origin_id != 0

    def stream_start(self, ctx: Context, txn: Transaction) -> None:
        self.say(ctx, "stream_start", f"xid={txn.xid}")

    def stream_stop(self, ctx: Context, txn: Transaction) -> None:
        self.say(ctx, "stream_stop", f"xid={txn.xid}")

    def stream_abort(self, ctx: Context, txn: Transaction, abort_lsn: Lsn) -> None:
        self.say(ctx, "stream_abort", f"xid={txn.xid} abort_lsn={abort_lsn}")

    def stream_prepare(self, ctx: Context, txn: Transaction, prepare_lsn: Lsn) -> None:
        self.say(ctx, "stream_prepare", f"xid={txn.xid} gid={txn.gid} prepare_lsn={prepare_lsn}")

    def stream_commit(self, ctx: Context, txn: Transaction, commit_lsn: Lsn) -> None:
        self.say(ctx, "stream_commit", f"xid={txn.xid} commit_lsn={commit_lsn}")

    def stream_change(self, ctx: Context, txn: Transaction, relation: Relation, change: Change) -> None:
        self.say(ctx, "stream_change", _of_change(txn, relation, change))

    def stream_message(self, ctx: Context, txn: Transaction | None, *about: Any) -> None:
        self.say(ctx, "stream_message", _of_message(txn, *about))

    def stream_truncate(self, ctx: Context, txn: Transaction, relations: tuple[Relation, ...], change: Change) -> None:
        self.say(ctx, "stream_truncate", _of_truncate(txn, relations, change))


PLUGINS = {"trace": Tracing, "trace_required": TracingRequired, "trace_two_phase": TracingTwoPhase}
"""By the names of the libraries in C."""


def _of_change(txn: Transaction, relation: Relation, change: Change) -> str:
    rows = f"old={_word(change.old is not None)} new={_word(change.new is not None)}"
    return f"xid={txn.xid} relation={relation} kind={change.kind} lsn={change.lsn} {rows}"


def _of_truncate(txn: Transaction, relations: tuple[Relation, ...], change: Change) -> str:
    flags = f"cascade={_word(change.cascade)} restart_sequences={_word(change.restart_sequences)}"
    return f"xid={txn.xid} relations={','.join(map(str, relations))} lsn={change.lsn} {flags}"


def _of_message(txn: Transaction | None, lsn: Lsn, transactional: bool, prefix: str, message: bytes) -> str:
    xid = txn.xid if txn is not None else "NULL"
    return f"xid={xid} lsn={lsn} transactional={_word(transactional)} prefix={prefix} size={len(message)}"


def _word(value: bool) -> str:
    return str(value).lower()
