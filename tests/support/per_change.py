"""test_decoding once more, as its users would write it in Python: a callback a change. What it prints is known to the byte."""

from __future__ import annotations

from tailrace.errors import UsageError
from tailrace.model import Lsn, Relation, Transaction
from tailrace.plugins.callbacks import Change, Context, OutputOptions, Plugin
from tailrace.types.quoting import quote_identifier

_BARE = frozenset({20, 21, 23, 26, 700, 701, 1700})
_BITS = frozenset({1560, 1562})
_BOOL = 16
_ACTIONS = {"insert": "INSERT", "update": "UPDATE", "delete": "DELETE"}


class PerChange(Plugin):
    """Options include-xids and skip-empty-xacts, of which the second needs the plugin to know what it has written."""

    def __init__(self) -> None:
        self.skips = False
        self.begun = False

    def startup(self, ctx: Context, options: OutputOptions, is_init: bool) -> None:
        for name, value in ctx.options.items():
            if name != "skip-empty-xacts":
                raise UsageError(f'option "{name}" = "{value if value is not None else "(null)"}" is unknown', sqlstate="22023")
            self.skips = value != "0"

    def begin(self, ctx: Context, txn: Transaction) -> None:
        self.begun = not self.skips
        if self.begun:
            ctx.emit(f"BEGIN {txn.xid}")

    def change(self, ctx: Context, txn: Transaction, relation: Relation, change: Change) -> None:
        self._begin_told(ctx, txn)
        ctx.prepare_write()
        ctx.out.write(f"table {_name(relation)}: {_ACTIONS[change.kind]}:")
        if change.kind == "delete":
            ctx.out.write(" (no-tuple-data)" if change.old is None else self._row(relation, change.old, (), skip_nulls=True))
        else:
            if change.old is not None:
                ctx.out.write(" old-key:" + self._row(relation, change.old, (), skip_nulls=True) + " new-tuple:")
            ctx.out.write("" if change.new is None else self._row(relation, change.new, change.unchanged))
        ctx.write()

    def _begin_told(self, ctx: Context, txn: Transaction) -> None:
        """What was not told of an empty transaction is told of one that is none."""
        if self.skips and not self.begun:
            ctx.emit(f"BEGIN {txn.xid}")
            self.begun = True

    def _row(
        self, relation: Relation, row: dict[str, str | None], unchanged: tuple[str, ...], *, skip_nulls: bool = False
    ) -> str:
        parts = []
        for column in relation.live_columns:
            if column.type is None or (skip_nulls and row.get(column.name) is None):
                continue
            value = "unchanged-toast-datum" if column.name in unchanged else _value(column.type.oid, row[column.name])
            parts.append(f" {quote_identifier(column.name)}[{column.type.label}]:{value}")
        return "".join(parts)

    def truncate(self, ctx: Context, txn: Transaction, relations: tuple[Relation, ...], change: Change) -> None:
        self._begin_told(ctx, txn)
        flags = " restart_seqs" * change.restart_sequences + " cascade" * change.cascade
        ctx.emit(f"table {', '.join(map(_name, relations))}: TRUNCATE:{flags or ' (no-flags)'}")

    def message(
        self, ctx: Context, txn: Transaction | None, message_lsn: Lsn, transactional: bool, prefix: str, message: bytes
    ) -> None:
        if transactional and txn is not None:
            self._begin_told(ctx, txn)
        ctx.prepare_write()
        ctx.out.write(f"message: transactional: {int(transactional)} prefix: {prefix}, sz: {len(message)} content:")
        ctx.out.write(message)
        ctx.write()

    def commit(self, ctx: Context, txn: Transaction, commit_lsn: Lsn) -> None:
        if self.begun or not self.skips:
            ctx.emit(f"COMMIT {txn.xid}")


class PerChangeInWorkers(PerChange):
    """The same, whose changes do not depend on each other."""

    parallel = True


def _name(relation: Relation) -> str:
    return f"{quote_identifier(relation.schema)}.{quote_identifier(relation.name)}"


def _value(oid: int, text: str | None) -> str:
    if text is None:
        return "null"
    if oid in _BARE:
        return text
    if oid in _BITS:
        return f"B'{text}'"
    if oid == _BOOL:
        return "true" if text == "t" else "false"
    return "'" + text.replace("'", "''") + "'"
