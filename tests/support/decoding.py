"""A case decoded by tailrace, and compared with what PostgreSQL made of it: to the last byte, where the case is known that well."""

from __future__ import annotations

import difflib
import random
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.beginning import begin
from support.cases import DBNAME, Case
from support.cuts import random_groups, random_stretches
from support.normalise import normalise
from tailrace.catalog.state.catalog_state import CatalogState
from tailrace.catalog.state.state_file import read_state, write_state
from tailrace.model import STRETCH_BYTES, Lsn
from tailrace.pipeline import LocalRunner, Pipeline, Runner, Scanning, Source, capture, open_pipeline
from tailrace.pipeline.scanning import scan_stretch
from tailrace.pipeline.windows import step
from tailrace.plugins.printing import in_hex, print_rows, up_to_zero
from tailrace.plugins.test_decoding import TestDecoding
from tailrace.storage.index_store import IndexStore
from tailrace.transactions.outline import outline
from tailrace.types.style import TextStyle

SHOWN_LINES = 25


def decode(case: Case, runner: Runner, *, captured: bool, stretch_bytes: int | None = None) -> str:
    """The text of all rows, as `pg_logical_slot_get_changes` gives them; normalised if only that is known of the case.

    The catalogs are read from the stopped data directory and followed from the first checkpoint on; or, if `captured`, come from the state that
    was written down before.
    """
    pipeline = open_pipeline(
        case.data_dir,
        case.meta["dbname"],
        start_lsn=Lsn.parse(case.meta["start_lsn"]),
        runner=runner,
        catalog=state_before(case) if captured else None,
        scanning=Scanning(stretch_bytes),
    )
    text = text_of(pipeline, case.meta.get("options", {}))
    return text if case.is_exact else normalise(text)


def decode_in_windows(case: Case, dice: random.Random, *, captured: bool, cell: int = STRETCH_BYTES) -> str:
    """The same, window by window, each of them of stretches that end at any record, and where cells do (`transactions.indexes_of_unfinished`)."""
    runner = LocalRunner(2)
    state = state_before(case) if captured else None
    since = state.needs_wal_from if state else None
    source = Source.open(case.data_dir, since)
    indexes = [scan_stretch(source.segments, (), stretch) for stretch in random_stretches(source, dice, since, cell=cell)]
    running = np.array(sorted(state.xids_open if state else ()), np.int64)
    outlines = [outline(part, running) for part in indexes] if state else indexes
    options = case.meta.get("options", {})
    plugin = TestDecoding()
    plugin.startup(options, case.major)
    carried, asked = begin(
        source, runner, outlines, case.meta["dbname"], state,
        start_lsn=Lsn.parse(case.meta["start_lsn"]), upto_lsn=None, demand=plugin.demand,
    )  # fmt: skip
    text = ""
    for group in random_groups(indexes, dice):
        carried, window = step(source, runner, carried, group, asked)
        text += text_of(window, options)
    return text if case.is_exact else normalise(text)


def opened(
    source: Path | Source, dbname: str = DBNAME, *, start_lsn: str | int | None = None, stretch_bytes: int | None = None,
    index_store: IndexStore | None = None, **options: Any,
) -> Pipeline:  # fmt: skip
    """The changes of a database, read by one thread of this process; `start_lsn` as a number or as PostgreSQL prints it."""
    start = Lsn.parse(start_lsn) if isinstance(start_lsn, str) else None if start_lsn is None else Lsn(start_lsn)
    scanning = Scanning(stretch_bytes, index_store)
    return open_pipeline(source, dbname, runner=LocalRunner(1), start_lsn=start, scanning=scanning, **options)


def rows_of(source: Path | Source, **options: Any) -> str:
    """What test_decoding prints of it, with its options as they are."""
    return text_of(opened(source, **options), {})


def text_of(pipeline: Pipeline, options: Mapping[str, str], style: TextStyle | None = None, *, two_phase: bool = False) -> str:
    """What test_decoding prints, with LSN and xid before each row."""
    plugin = TestDecoding()
    plugin.context.style, plugin.context.two_phase = style or plugin.context.style, two_phase
    plugin.startup(options, pipeline.catalogs.state.major)
    printed = []
    for part in pipeline.lines(plugin):
        texts = in_hex(part.texts) if plugin.wants.binary_output else up_to_zero(part.texts)
        printed.append(print_rows(part.lsn, part.xid, texts.offsets, texts.data).tobytes())
    return b"".join(printed).decode()


def check_both_ways(case: Case, *, stretch_bytes: int = 1 << 20) -> None:
    """With catalogs rebuilt from the WAL, and with a state that was captured before; one of them over many borders of stretches, the other in random
    windows."""
    dice = random.Random(f"{case.story} {case.major} {case.variant} {case.expected}")
    in_windows = dice.random() < 0.5
    check(case, decode(case, LocalRunner(2), captured=not in_windows, stretch_bytes=stretch_bytes))
    check(case, decode_in_windows(case, dice, captured=in_windows))


def check(case: Case, text: str) -> None:
    check_equal(text, case.expected, f"PostgreSQL {case.major} ({case.story}, {case.variant})")


def check_equal(text: str, expected: str, source: str = "PostgreSQL") -> None:
    """To the last byte; else the first lines of the difference, each cut to what a screen shows."""
    if text == expected:
        return
    lines = difflib.unified_diff(expected.splitlines(), text.splitlines(), source, "tailrace", lineterm="", n=1)
    pytest.fail("\n".join(line[:250] for line in islice(lines, SHOWN_LINES)) or "only ends of lines differ", pytrace=False)


def state_before(case: Case) -> CatalogState:
    """The state captured before the story, by way of its file."""
    state = capture(Source.open(case.before_dir), LocalRunner(1), case.meta["dbname"])
    return read_state(write_state(state), "captured before the story")
