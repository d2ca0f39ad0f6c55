"""Compile all kernels before anybody waits for them: `make` does so for a checkout, and the build of the wheel for those who install it.

    python tools/compile_kernels.py            into the user's cache: for x86-64-v3, or for this processor where it is an older one
    python tools/compile_kernels.py FOLDER     for x86-64-v3, into FOLDER; what the user's cache has of them is not compiled again

Kernels are compiled for the arguments that recorded cases give them. Two processes share the work: one begins with what scans the log, the other
with what replays catalogs; what one has compiled the other loads.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]  # neither is installed where a wheel is built
CASES = {
    "scan": ["xact", "types", "names", "prepared", "message_ties"],
    "replay": ["toast", "types_more", "rows_as_values", "insert_conflict", "xml"],
}
MAJOR = 18
JSON_PLUGINS: tuple[tuple[str, dict[str, str | None]], ...] = (
    ("wal2json", {}), ("wal2json", {"format-version": "2"}), ("debezium", {}),
)  # fmt: skip
NUMERIC = 1700
GREATER = (1756, 1720)
"""Oids of numeric's > and of its function."""


def main() -> None:
    if len(sys.argv) == 3 and sys.argv[1] in CASES:
        compile_by(sys.argv[1], Path(sys.argv[2]))
        return
    began = time.monotonic()
    from tailrace.kernels import portable_settings  # noqa: PLC0415
    from tailrace.user_cache import user_cache  # noqa: PLC0415

    environment = os.environ | portable_settings()
    if len(sys.argv) == 2:
        if not portable_settings():
            sys.exit("kernels for x86-64-v3 cannot be compiled here: HATCH_BUILD_NO_HOOKS=true builds a wheel without")
        environment |= {"TAILRACE_KERNELS": sys.argv[1], "TAILRACE_KERNELS_FROM": str(user_cache() / "kernels")}
    with tempfile.TemporaryDirectory() as folder:
        chains = [subprocess.Popen([sys.executable, __file__, chain, f"{folder}/{chain}"], env=environment) for chain in CASES]
        if failed := [chain.args for chain in chains if chain.wait()]:
            sys.exit(f"kernels were not compiled: {failed}")
    print(f"kernels compiled in {time.monotonic() - began:.0f} s")


def compile_by(chain: str, folder: Path) -> None:
    """Decode recorded cases as text and as typed columns; the log of the first is also looked at."""
    if chain == "replay":
        replay_nothing()
    else:
        messages_there_and_back()
        filters_asked()
        other_encodings()
        payloads_framed()
        rows_compared()
        keys_matched()
    for story in CASES[chain]:
        decode_case(story, folder / story)


def replay_nothing() -> None:
    """Catalogs brought forward over no records at all: what compiles longest, and needs nothing of the scan."""
    import numpy as np  # noqa: PLC0415

    from tailrace.catalog.pages.heap_pages import CatalogPages  # noqa: PLC0415
    from tailrace.catalog.redo.replay import CatalogLog  # noqa: PLC0415
    from tailrace.catalog.rows.row_versions import Versions  # noqa: PLC0415
    from tailrace.catalog.state.catalog_state import CatalogState, advance  # noqa: PLC0415
    from tailrace.model import Lsn  # noqa: PLC0415
    from tailrace.transactions.epochs import XidClock  # noqa: PLC0415

    nothing = np.zeros(0, np.int64)
    log = CatalogLog(nothing, nothing, nothing, np.zeros(0, np.uint8))
    state = CatalogState(
        system=0, timeline=1, major=MAJOR, lsn=Lsn(0), database=1, database_name="", default_tablespace=1663, encoding=6, next_xid=3,
        versions=Versions.none(), files={(1, 1259): 1259}, complete=False, status=None, multixacts=None, xids_open={},
    )  # fmt: skip
    advance(state, log, CatalogPages({(1, 1259): np.zeros((1, 8192), np.uint8)}), XidClock.of([], (0, 3)), Lsn(1), frozenset())


def rows_compared() -> None:
    """Two sides of a table, as `tailrace verify` compares them."""
    import numpy as np  # noqa: PLC0415
    import pyarrow as pa  # noqa: PLC0415

    from tailrace.types.row_hashes import row_hashes  # noqa: PLC0415
    from tailrace.verify.checksums import BucketSums, RowNumbers, only_here  # noqa: PLC0415

    numbers = [
        pa.array([1, None], kind)
        for kind in (pa.int16(), pa.int32(), pa.int64(), pa.uint64(), pa.timestamp("us", "UTC"), pa.date32())
    ]
    others = [
        pa.array([True, None]),
        pa.array(["a", None]),
        pa.array([1, None], pa.decimal128(9, 2)),
        pa.array([[1], None]),
        pa.array([{"a": 1}, None]),
    ]
    hashes, sums = row_hashes([*numbers, *others], 2), BucketSums.none()
    sums.add_rows(hashes, hashes)
    rows = RowNumbers(hashes, hashes, np.arange(2)).of_buckets(sums.counts > 0)
    only_here(rows, rows)


def keys_matched() -> None:
    """Changes of rows that a lake has, found by their keys."""
    import pyarrow as pa  # noqa: PLC0415

    from tailrace.apply.keys import row_codes  # noqa: PLC0415
    from tailrace.apply.matching import KeySet  # noqa: PLC0415

    keys = pa.array([1, 2], pa.int64())
    row_codes([keys])
    KeySet([keys]).has([keys])


def messages_there_and_back() -> None:
    """Logical replication messages that servers sent, read as columns and written again."""
    import numpy as np  # noqa: PLC0415

    from support.message_sessions import check, written_again  # noqa: PLC0415
    from support.vectors import recorded_sessions  # noqa: PLC0415
    from tailrace.types.built_in import built_in_type  # noqa: PLC0415
    from tailrace.types.registry import parse_texts  # noqa: PLC0415
    from tailrace.types.values import Texts  # noqa: PLC0415

    for recorded in recorded_sessions():
        check(recorded.payloads, recorded.proto_version, recorded.streaming)
        written_again(recorded)
    for text, oid in (
        (b"1", 23),
        (b"1.5", 1700),
        (b"2020-02-03", 1082),
        (b"2020-02-03 04:05:06", 1114),
        (b"2020-02-03 04:05:06+00", 1184),
    ):
        pg_type = built_in_type(oid)
        assert pg_type is not None
        parse_texts(Texts.of([text]), np.ones(1, np.bool_), pg_type)


def payloads_framed() -> None:
    """What a plugin wrote, as a walsender sends it."""
    import numpy as np  # noqa: PLC0415

    from tailrace.types.values import Texts  # noqa: PLC0415
    from tailrace.wire.frames import frame_payloads  # noqa: PLC0415

    texts = Texts.of([b"a payload"])
    for lsn in (np.ones(1, np.int64), np.ones(2, np.int64)[:1]):
        frame_payloads(lsn, texts.offsets, texts.data, 0)
        frame_payloads(lsn, texts.part(0, 1).offsets, texts.part(0, 1).data, 0)


def filters_asked() -> None:
    """Row filters that compare numerics, with each other and with a constant, as rows and as columns of them come out of a log."""
    import numpy as np  # noqa: PLC0415

    from tailrace.expressions import tree  # noqa: PLC0415
    from tailrace.expressions.evaluate import compile_filter  # noqa: PLC0415
    from tailrace.model import Column  # noqa: PLC0415
    from tailrace.publications.publishing.row_filter import OLD, chosen  # noqa: PLC0415
    from tailrace.types import oids  # noqa: PLC0415
    from tailrace.types.built_in import built_in_type  # noqa: PLC0415
    from tailrace.types.registry import parse_texts  # noqa: PLC0415
    from tailrace.types.values import Texts  # noqa: PLC0415

    numeric = built_in_type(NUMERIC)
    assert numeric is not None
    column = Column(1, "n", numeric, -1, -1, 4)
    values = parse_texts(Texts.of([b"1.5", b"-3"]), np.ones(2, np.bool_), numeric)
    for other in (tree.Const(NUMERIC, values.payload_list()[1]), tree.Var(1, NUMERIC)):
        asked = compile_filter(tree.OpExpr(*GREATER, oids.BOOL, (tree.Var(1, NUMERIC), other)), [column])
        for rows in (values, values.take(np.arange(2)), chosen(values, values, np.full(2, OLD))):
            asked.matches({1: rows}, 2)


def decode_case(story: str, folder: Path) -> None:
    from support.cases import open_case  # noqa: PLC0415
    from tailrace.catalog.state.state_file import read_state, write_state  # noqa: PLC0415
    from tailrace.pipeline import LocalRunner, Scanning, Source, capture, count_log, open_pipeline  # noqa: PLC0415
    from tailrace.plan.invalidations import relation_invalidations  # noqa: PLC0415
    from tailrace.plugins.registry import plugin_named  # noqa: PLC0415
    from tailrace.storage.index_store import IndexStore  # noqa: PLC0415

    case = open_case(story, MAJOR, "with_slot", folder)
    database, runner = case.meta["dbname"], LocalRunner(1)
    captured = read_state(write_state(capture(Source.open(case.before_dir), runner, database)), story)
    for state in (None, captured):
        pipeline = open_pipeline(case.data_dir, database, runner=runner, catalog=state)
        as_text(pipeline)
    as_messages(pipeline)
    as_columns(pipeline)
    for name, options in JSON_PLUGINS:
        plugin = plugin_named(name)
        plugin.startup(options, MAJOR)
        for _ in open_pipeline(case.data_dir, database, runner=runner, demand=plugin.demand).lines(plugin):
            pass
    relation_invalidations(pipeline.planned_log, pipeline.catalogs.state.database, MAJOR)
    for _ in ("kept", "read"):
        open_pipeline(case.data_dir, database, runner=runner, scanning=Scanning(1 << 16, IndexStore(folder / "index")))
    count_log(pipeline.source.segments, runner)


def as_text(pipeline) -> None:  # type: ignore[no-untyped-def]
    from tailrace.plugins.printing import as_json_rows, as_lines, as_psql  # noqa: PLC0415
    from tailrace.plugins.test_decoding import TestDecoding  # noqa: PLC0415

    for options in ({}, {"force-binary": "1"}):
        plugin = TestDecoding()
        plugin.startup(options, MAJOR)
        for lines in pipeline.lines(plugin):
            for printed in (as_psql, as_json_rows, as_lines):
                printed(lines, plugin)


def as_messages(pipeline) -> None:  # type: ignore[no-untyped-def]
    """What pgoutput sends of the rows that were inserted, as text and in binary form."""
    from tailrace.plugins.pgoutput import PgOutput  # noqa: PLC0415
    from tailrace.plugins.printing import as_psql  # noqa: PLC0415
    from tailrace.publications.publication import Publication, PublicationActions  # noqa: PLC0415

    everything = Publication("everything", all_tables=True, actions=PublicationActions(insert=True), defined_here=True)
    for binary in ("false", "true"):
        plugin = PgOutput()
        plugin.startup({"proto_version": "1", "publication_names": everything.name, "binary": binary}, MAJOR)
        plugin.context.definitions = ((0, (everything,)),)
        for lines in pipeline.lines(plugin):
            as_psql(lines, plugin)


def other_encodings() -> None:
    """Text of databases that are not UTF8."""
    from tailrace.types.encodings.conversion import to_utf8  # noqa: PLC0415
    from tailrace.types.encodings.server_encodings import NAME_OF_CODEC  # noqa: PLC0415
    from tailrace.types.values import Texts  # noqa: PLC0415

    codecs = {name: codec for codec, name in NAME_OF_CODEC.items()}
    for encoding, text in (("LATIN1", b"\xe9"), ("EUC_JP", b"\xc6\xfc")):
        to_utf8(Texts.of([text]), codecs[encoding])


def as_columns(pipeline) -> None:  # type: ignore[no-untyped-def]
    from tailrace.changes import change_batch  # noqa: PLC0415
    from tailrace.decode import decode  # noqa: PLC0415
    from tailrace.errors import UsageError  # noqa: PLC0415
    from tailrace.types.registry import ArrowStyle  # noqa: PLC0415

    for stretch in pipeline.plan.stretches:
        for batch in decode(stretch, pipeline.source.segments.read):
            for style in (ArrowStyle(), ArrowStyle(numeric="text", arrays="text")):
                with suppress(UsageError):  # values that Arrow has no type for
                    change_batch(batch, pipeline.plan.transactions, style=style, codec=stretch.codec)


if __name__ == "__main__":
    main()
