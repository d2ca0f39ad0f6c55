"""Marks: what is carried from window to window is the same after it was a file, and what was damaged meanwhile is not believed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.beginning import begin
from support.cases import all_cases, open_case
from support.cuts import random_groups, random_stretches
from support.decoding import check, state_before, text_of
from support.sampling import some_of
from tailrace.checksummed_file import FileKind
from tailrace.errors import CorruptFile, TailraceError, UnsupportedFile
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, Pipeline, Source
from tailrace.pipeline.scanning import scan_stretch
from tailrace.pipeline.windows import step
from tailrace.plan.carried import Carried
from tailrace.plugins.test_decoding import TestDecoding
from tailrace.replication.marks import Marks
from tailrace.slots.mark import read_mark, write_mark
from tailrace.transactions.commit_or_abort import EndedElsewhere

STORIES = [story for story, major, variant in all_cases() if (major, variant) == (18, "with_slot")]


def _windows(story: str, home: Path, dice: random.Random) -> Iterator[tuple[Carried, str]]:
    """What was carried into each window, by way of a file, and the text of the window."""
    case = open_case(story, 18, "with_slot", home)
    state = state_before(case)
    source = Source.open(case.data_dir, state.needs_wal_from)
    indexes = [scan_stretch(source.segments, (), stretch) for stretch in random_stretches(source, dice, state.needs_wal_from)]
    plugin = TestDecoding()
    plugin.startup(case.meta.get("options", {}), case.major)
    runner = LocalRunner(1)
    carried, asked = begin(
        source, runner, indexes, case.meta["dbname"], state,
        start_lsn=Lsn.parse(case.meta["start_lsn"]), upto_lsn=None, demand=plugin.demand,
    )  # fmt: skip
    for group in random_groups(indexes, dice):
        written = write_mark(carried)
        again = read_mark(written, "here")
        assert _differing(carried, again) == []
        assert write_mark(again) == written
        # The decoder has nothing but what came out of the file.
        window: Pipeline
        carried, window = step(source, runner, again, group, asked)
        yield again, text_of(window, case.meta.get("options", {}))


@pytest.mark.parametrize("story", some_of([pytest.param(story) for story in STORIES], 4))
def test_golden_cases_by_way_of_marks(story: str, tmp_path: Path) -> None:
    """Every window knows of those before it only what their mark says."""
    text = "".join(text for _, text in _windows(story, tmp_path, random.Random(f"{story} mark")))
    check(open_case(story, 18, "with_slot", tmp_path / "again"), text)


def _differing(a: Any, b: Any, path: str = "") -> list[str]:
    """Paths to what is not the same in both. `status` and `multixacts` of a state are for states that are not complete."""
    if is_dataclass(a):
        named = [field.name for field in fields(a) if field.name not in ("status", "multixacts")]
        return [where for name in named for where in _differing(getattr(a, name), getattr(b, name), f"{path}.{name}")]
    if isinstance(a, np.ndarray):
        return [] if a.dtype == b.dtype and np.array_equal(a, b) else [path]
    if isinstance(a, tuple) and len(a) == len(b):
        return [where for i, (x, y) in enumerate(zip(a, b, strict=True)) for where in _differing(x, y, f"{path}[{i}]")]
    return [] if type(a) is type(b) and a == b else [f"{path}: {a!r} is not {b!r}"]


@pytest.fixture(scope="module")
def carried(tmp_path_factory: pytest.TempPathFactory) -> Carried:
    """One with indexes of unfinished transactions, subtransactions and TOAST chunks among them."""
    found = [
        carried
        for story in ("spill", "toast", "subxact")
        for carried, _ in _windows(story, tmp_path_factory.mktemp(story), random.Random(story))
    ]
    return max(found, key=lambda each: (len(each.earlier.indexes_of_unfinished), len(each.earlier.catalog_changes)))


def test_what_is_damaged_is_never_believed(carried: Carried) -> None:
    written = write_mark(carried)
    dice = random.Random(11)
    for _ in range(150):
        damaged = bytearray(written)
        at = dice.randrange(32) if dice.random() < 0.2 else dice.randrange(len(written))
        damaged[at] ^= dice.randint(1, 255)
        with pytest.raises(UnsupportedFile if at < 20 else CorruptFile, match='"here"'):
            read_mark(bytes(damaged), "here")
    for _ in range(150):
        with pytest.raises(TailraceError, match='"here"') as caught:
            read_mark(written[: dice.randrange(len(written))], "here")
        assert caught.value.hint.startswith("The mark before it is used.")


def test_what_is_damaged_behind_a_right_checksum_is_never_believed_beyond_its_bounds(
    carried: Carried, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrays and facts changed before the file is written: an error, or a mark whose parts are sound to their kernels."""
    dice = random.Random(12)
    write = FileKind.write

    def damaging(kind: FileKind, facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> bytes:
        if dice.random() < 0.3:
            facts = {**facts, dice.choice(list(facts)): dice.choice([None, -1, "x", [], {}, [[1]], 2**70, 1.5, True])}
        else:
            name = dice.choice([name for name, array in arrays.items() if array.size])
            array = arrays[name].copy().reshape(-1)
            if dice.random() < 0.5:
                array = array[: dice.randrange(len(array))]
            else:
                array.view(np.uint8)[dice.randrange(array.nbytes)] ^= dice.randint(1, 255)
            arrays = {**arrays, name: array}
        return write(kind, facts, arrays)

    monkeypatch.setattr(FileKind, "write", damaging)
    refused: list[str] = []
    for _ in range(300):
        written = write_mark(carried)
        try:
            read_mark(written, "here")
        except CorruptFile as error:
            refused.append(error.message)
    assert len(refused) > 100
    assert [message for message in refused if not message.startswith('"here" is no sound mark: ')] == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ended", EndedElsewhere(np.array([5, 4]), np.array([1, 1]))),
        ("ended", EndedElsewhere(np.array([5]), np.array([], np.int64))),
        ("ended", EndedElsewhere(np.array([5]), np.array([-1]))),
        ("open_at_start", {-3: 0}),
        ("open_at_start", {3: -1}),
        ("catalog_changes", np.array([-1])),
    ],
)
def test_a_mark_whose_checksum_is_right_and_whose_content_is_not(name: str, value: Any, carried: Carried) -> None:
    bad = replace(carried, earlier=replace(carried.earlier, **{name: value}))
    with pytest.raises(CorruptFile, match='"here" is no sound mark: '):
        read_mark(write_mark(bad), "here")


def test_parts_of_the_indexes_of_another_system(carried: Carried) -> None:
    first, *others = carried.earlier.indexes_of_unfinished
    foreign = replace(carried.earlier, indexes_of_unfinished=(replace(first, system=first.system + 1), *others))
    with pytest.raises(CorruptFile, match=f"it has a part of the index of system {first.system + 1}"):
        read_mark(write_mark(replace(carried, earlier=foreign)), "here")


def test_xids_beyond_32_bits_come_back(carried: Carried) -> None:
    first, *others = carried.earlier.indexes_of_unfinished
    far = replace(first, xids=replace(first.xids, xid=first.xids.xid + (7 << 32)))
    again = read_mark(
        write_mark(replace(carried, earlier=replace(carried.earlier, indexes_of_unfinished=(far, *others)))), "here"
    )
    assert again.earlier.indexes_of_unfinished[0].xids.xid.tolist() == far.xids.xid.tolist()
    assert min(again.earlier.indexes_of_unfinished[0].xids.xid.tolist()) >= 7 << 32


def test_what_is_not_known_stays_unknown(carried: Carried) -> None:
    unknown = replace(carried, earlier=replace(carried.earlier, open_at_start=None, ended=None, indexes_of_unfinished=()))
    assert _differing(unknown, read_mark(write_mark(unknown), "here")) == []


def test_a_mark_needs_every_page(carried: Carried) -> None:
    with pytest.raises(ValueError, match="every page"):
        write_mark(replace(carried, state=replace(carried.state, complete=False)))


def test_other_files_and_other_versions(carried: Carried) -> None:
    written = write_mark(carried)
    with pytest.raises(UnsupportedFile, match='"here" is not a mark'):
        read_mark(b"", "here")
    with pytest.raises(UnsupportedFile, match='"here" is a mark of format 9, this version reads 2'):
        read_mark(written[:16] + b"\x09" + written[17:], "here")


def test_one_process_writes_a_place_once(carried: Carried, tmp_path: Path) -> None:
    """However many slots come there; but what is damaged or gone meanwhile is written again."""
    marks = Marks(tmp_path, warn=pytest.fail)
    marks.save(carried)
    ((_, lsn, path),) = marks.of(carried.state.database)
    assert lsn == carried.lsn
    written = path.stat()
    marks.save(carried)
    assert path.stat() == written
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    marks.save(carried)
    assert path.read_bytes() == whole
    path.unlink()
    marks.save(carried)
    assert path.read_bytes() == whole
