"""Plugins written per change: their callbacks come in the server's order, with what the manual says, wherever they are called."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from support.cases import open_case
from support.per_change import PerChange, PerChangeInWorkers
from tailrace.errors import PluginError, UsageError
from tailrace.model import Lsn, Relation, Transaction
from tailrace.pipeline import LocalRunner, Pipeline, Scanning, open_pipeline
from tailrace.plugins.callbacks import Change, Context, OutputOptions, Plugin
from tailrace.plugins.callbacks.cb_wrappers import CalledPlugin
from tailrace.plugins.output_plugin import OutputPlugin
from tailrace.plugins.printing import print_rows, up_to_zero
from tailrace.plugins.registry import as_output_plugin, plugin_named, register_plugin

STORIES = ("xact", "toast", "subxact", "truncate", "messages", "types", "replica_identity")


def _opened(story: str, folder: Path, plugin: OutputPlugin, options: dict[str, str | None] | None = None) -> Pipeline:
    case = open_case(story, 18, "with_slot", folder)
    plugin.startup(options or {}, 18)
    return open_pipeline(
        case.data_dir, case.meta["dbname"], start_lsn=Lsn.parse(case.meta["start_lsn"]), runner=LocalRunner(2), demand=plugin.demand,
        scanning=Scanning(1 << 17),
    )  # fmt: skip


def _printed(pipeline: Pipeline, plugin: OutputPlugin) -> str:
    return b"".join(
        print_rows(part.lsn, part.xid, texts.offsets, texts.data).tobytes()
        for part in pipeline.lines(plugin)
        for texts in [up_to_zero(part.texts)]
    ).decode()


@pytest.mark.parametrize("options", [{}, {"skip-empty-xacts": "1"}], ids=["plain", "skipping"])
@pytest.mark.parametrize("story", STORIES)
def test_a_plugin_called_in_order_prints_what_test_decoding_does(
    story: str, options: dict[str, str | None], tmp_path: Path
) -> None:
    theirs, ours = plugin_named("test_decoding"), as_output_plugin(PerChange)
    expected = _printed(_opened(story, tmp_path, theirs, options), theirs)
    assert expected
    assert _printed(_opened(story, tmp_path, ours, options), ours) == expected


@pytest.mark.parametrize("story", STORIES)
def test_so_does_one_whose_changes_are_printed_in_workers(story: str, tmp_path: Path) -> None:
    theirs, ours = plugin_named("test_decoding"), as_output_plugin(PerChangeInWorkers)
    expected = _printed(_opened(story, tmp_path, theirs), theirs)
    assert _printed(_opened(story, tmp_path, ours), ours) == expected


class Batches(Plugin):
    """Kinds and new keys, many at a time."""

    def begin(self, ctx: Context, txn: Transaction) -> None: ...

    def change_batch(self, ctx: Context, relation: Relation, changes: pa.RecordBatch) -> pa.Array:
        kinds = changes.column("kind")
        xids = changes.column("xid").cast(pa.string())
        told = pc.binary_join_element_wise(kinds, pa.scalar(relation.name), xids, " ")
        return pc.if_else(pc.equal(kinds, "delete"), pa.scalar(None, pa.string()), told)

    def commit(self, ctx: Context, txn: Transaction, commit_lsn: Lsn) -> None: ...


def test_a_plugin_may_take_batches_and_be_silent(tmp_path: Path) -> None:
    theirs, ours = plugin_named("test_decoding"), as_output_plugin(Batches)
    rows = [row.split("\t") for row in _printed(_opened("xact", tmp_path, theirs), theirs).splitlines()]
    changes = [(lsn, xid, text.split(" ", 3)) for lsn, xid, text in rows if text.startswith("table")]
    expected = [
        f"{lsn}\t{xid}\t{action.lower().rstrip(':')} {table.split('.')[1].rstrip(':')} {xid}"
        for lsn, xid, (_, table, action, *_) in changes
        if action != "DELETE:"
    ]
    pipeline = _opened("xact", tmp_path, ours)
    assert _printed(pipeline, ours).splitlines() == expected
    ends = [int(pipeline.plan.transactions.end_lsn[each]) for each in pipeline.plan.shown.tolist()]
    told = [int(lsn) for part in pipeline.lines(ours) for lsn in part.ended.tolist()]
    assert told == ends  # though no COMMIT is told, a consumer knows that it has them


class Trace(Plugin):
    """Says which callbacks are called."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def startup(self, ctx: Context, options: OutputOptions, is_init: bool) -> None:
        self.calls.append(f"startup is_init={is_init} {dict(ctx.options)}")

    def shutdown(self, ctx: Context) -> None:
        self.calls.append("shutdown")

    def begin(self, ctx: Context, txn: Transaction) -> None:
        ctx.emit(f"begin {txn.xid}")

    def change(self, ctx: Context, txn: Transaction, relation: Relation, change: Change) -> None:
        ctx.emit(f"change {txn.xid} {relation} {change.kind} {change.new}")

    def commit(self, ctx: Context, txn: Transaction, commit_lsn: Lsn) -> None:
        assert commit_lsn == txn.commit_lsn
        ctx.emit(f"commit {txn.xid}")
        ctx.emit("and a second row")

    def filter_by_origin(self, ctx: Context, origin_id: int) -> bool:
        self.calls.append(f"filter_by_origin {origin_id}")
        return origin_id != 0


def test_origins_are_asked_for_once_and_nothing_else_is_called_for_them(tmp_path: Path) -> None:
    theirs, plugin = plugin_named("test_decoding"), Trace()
    ours = CalledPlugin(plugin, "trace")
    expected = _printed(_opened("origin", tmp_path, theirs, {"only-local": "on"}), theirs)
    printed = _printed(_opened("origin", tmp_path, ours), ours)
    begins = [row.split("\t")[2].lower() for row in expected.splitlines() if "BEGIN" in row]
    assert begins == [row.split("\t")[2] for row in printed.splitlines() if "begin" in row]
    assert printed.count("and a second row") == printed.count("commit ")
    ours.shutdown()
    asked = [call for call in plugin.calls if call.startswith("filter")]
    assert len(asked) == len(set(asked)) > 1
    assert (plugin.calls[0], plugin.calls[-1]) == ("startup is_init=False {}", "shutdown")


class Typed(Trace):
    typed = True
    parallel = True


def test_values_are_python_s_where_a_plugin_wants_them(tmp_path: Path) -> None:
    ours = as_output_plugin(Typed)
    assert "{'id': 1, 'v': 'one'}" in _printed(_opened("xact", tmp_path, ours), ours)


def _raising(what: Any, *, in_workers: bool) -> type[Plugin]:
    class Raising(Trace):
        parallel = in_workers

        def change(self, ctx: Context, txn: Transaction, relation: Relation, change: Change) -> None:
            what(ctx)

    return Raising


@pytest.mark.parametrize("in_workers", [False, True])
@pytest.mark.parametrize(
    ("what", "message"),
    [
        (lambda ctx: ctx.write(), "OutputPluginPrepareWrite needs to be called before OutputPluginWrite"),
        (lambda ctx: 1 // 0, "ZeroDivisionError: integer division or modulo by zero"),
        (lambda ctx: ctx.emit(b"\xff"), 'invalid byte sequence for encoding "UTF8": 0xff'),
    ],
)
def test_what_a_callback_raises_says_where(what: Any, message: str, in_workers: bool, tmp_path: Path) -> None:
    ours = as_output_plugin(_raising(what, in_workers=in_workers), "raising")
    ours.context.slot = "s"
    pipeline = _opened("xact", tmp_path, ours)
    with pytest.raises(PluginError) as raised:
        _printed(pipeline, ours)
    assert raised.value.message == message
    assert raised.value.context.startswith('slot "s", output plugin "raising", in the change callback, associated LSN 0/')


def test_nothing_is_written_outside_of_callbacks_that_may() -> None:
    class Early(Trace):
        def startup(self, ctx: Context, options: OutputOptions, is_init: bool) -> None:
            ctx.emit("too early")

    with pytest.raises(PluginError, match="writes are only accepted in commit, begin and change callbacks"):
        as_output_plugin(Early).startup({}, 18)


def test_required_callbacks_are_required() -> None:
    class NoCommit(Plugin):
        def begin(self, ctx: Context, txn: Transaction) -> None: ...

        def change(self, ctx: Context, txn: Transaction, relation: Relation, change: Change) -> None: ...

    with pytest.raises(UsageError, match="output plugins have to register a commit callback"):
        as_output_plugin(NoCommit)

    class HalfStreaming(Trace):
        def stream_start(self, ctx: Context, txn: Transaction) -> None: ...

    with pytest.raises(UsageError, match="logical streaming requires a stream_stop_cb callback"):
        as_output_plugin(HalfStreaming)
    register_plugin("none", int)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="_PG_output_plugin_init"):
        plugin_named("none")


@pytest.mark.parametrize("in_workers", [False, True])
def test_what_was_told_before_a_callback_failed_is_given(in_workers: bool, tmp_path: Path) -> None:
    class Failing(PerChange):
        parallel = in_workers

        def change(self, ctx: Context, txn: Transaction, relation: Relation, change: Change) -> None:
            if txn.xid == failing:
                raise ValueError("enough")
            super().change(ctx, txn, relation, change)

    theirs, ours = plugin_named("test_decoding"), as_output_plugin(Failing)
    whole = _printed(_opened("xact", tmp_path, theirs), theirs).splitlines()
    failing = int(whole[len(whole) // 2].split("\t")[1])
    pipeline, told = _opened("xact", tmp_path, ours), deque[str]()
    with pytest.raises(PluginError, match="ValueError: enough"):
        told.extend(text for part in pipeline.lines(ours) for text in part.texts.to_list())
    before = next(number for number, row in enumerate(whole) if row.split("\t")[1] == str(failing))
    assert list(told) == [row.split("\t")[2] for row in whole[:before]]
