"""Golden cases: what a real server wrote while a story was told, and what its own decoder made of it.

In: `tests/cases/<story>/<major>/<variant>.tar.xz`, recorded by `tests/record_cases.py`. Out: a :class:`Case`, unpacked: a
directory that looks like the stopped server's data directory, as far as decoding can ask, and another as it was before the story.

Variants: `with_slot`, where a slot was kept while the story was told, so that PostgreSQL's output is known to the LSN; and
`no_slot`, where there was none, so that dead catalog rows were pruned as they are in most servers, and the output, which came
from another server told the same story, is known but for LSNs and xids (:mod:`support.normalise`).

Catalogs of a new cluster are a megabyte and the same in all cases of a major: they lie in `_template/<major>.tar.xz`, and a case
keeps of each changed file only its XOR with the template's, which is nearly all zeros and so compresses to nearly nothing.
"""

from __future__ import annotations

import io
import json
import lzma
import shutil
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

CASES = Path(__file__).parents[1] / "cases"
TEMPLATES = CASES / "_template"
VARIANTS = ("with_slot", "no_slot")
DBNAME = "app"
"""The database that all of them are about."""

_DELTA = "delta/"
_LZMA_PRESET = 9


@dataclass(frozen=True, slots=True)
class Case:
    """An unpacked case. `expected` is exact with a slot, normalised without."""

    story: str
    major: int
    variant: str
    data_dir: Path
    before_dir: Path
    expected: str
    meta: Mapping[str, Any]

    @property
    def wal_dir(self) -> Path:
        return self.data_dir / "pg_wal"

    @property
    def is_exact(self) -> bool:
        return self.variant == "with_slot"


def all_cases() -> list[tuple[str, int, str]]:
    """(story, major, variant) of every recorded case."""
    found = (path for path in CASES.glob("*/*/*.tar.xz"))
    return sorted((path.parts[-3], int(path.parts[-2]), path.name.removesuffix(".tar.xz")) for path in found)


def open_case(story: str, major: int, variant: str, directory: Path) -> Case:
    """Unpack a case below `directory`: `before/` and `data/`. The WAL of both is the same, all of the story's."""
    template = _template(major)
    members = read_archive(case_path(story, major, variant))
    meta = json.loads(members.pop("meta.json"))
    expected = members.pop("expected.txt").decode()
    after = apply_delta(template, members, meta["removed"])
    before_dir, data_dir = directory / "before", directory / "data"
    _write_files(before_dir, template)
    _write_files(data_dir, after)
    (before_dir / "pg_wal").symlink_to(data_dir.resolve() / "pg_wal")
    return Case(story, major, variant, data_dir, before_dir, expected, meta)


def case_path(story: str, major: int, variant: str) -> Path:
    return CASES / story / str(major) / f"{variant}.tar.xz"


def template_path(major: int) -> Path:
    return TEMPLATES / f"{major}.tar.xz"


@cache
def _template(major: int) -> Mapping[str, bytes]:
    return read_archive(template_path(major))


# -- files as a mapping: a path below the data directory -> its bytes ----------------------------------------------------------


def make_delta(template: Mapping[str, bytes], after: Mapping[str, bytes]) -> dict[str, bytes]:
    """The members that turn the template into `after`: whole files that it lacks, XORs of files that differ."""
    members = {name: data for name, data in after.items() if name not in template}
    changed = (name for name in after if name in template and after[name] != template[name])
    return members | {_DELTA + name: _xor(after[name], template[name]) for name in changed}


def apply_delta(template: Mapping[str, bytes], members: Mapping[str, bytes], removed: list[str]) -> dict[str, bytes]:
    after = {name: data for name, data in template.items() if name not in removed}
    for name, data in members.items():
        target = name.removeprefix(_DELTA)
        after[target] = _xor(data, template[target]) if name.startswith(_DELTA) else data
    return after


def _xor(data: bytes, base: bytes) -> bytes:
    """As long as `data`; beyond the end of `base`, `data` itself."""
    base = base[: len(data)].ljust(len(data), b"\0")
    return (int.from_bytes(data, "little") ^ int.from_bytes(base, "little")).to_bytes(len(data), "little")


def read_archive(path: Path) -> dict[str, bytes]:
    return dict(_members(path))


def write_archive(path: Path, members: Mapping[str, bytes]) -> None:
    """The same members give the same bytes: no times, no owners, names in order."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with lzma.open(path, "wb", preset=_LZMA_PRESET) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
        for name in sorted(members):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(members[name]), 0o644
            archive.addfile(entry, io.BytesIO(members[name]))


def _members(path: Path) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(path, "r:xz") as archive:
        for entry in archive:
            content = archive.extractfile(entry)
            assert content is not None, f"{path}: {entry.name} is not a file"
            yield entry.name, content.read()


def _write_files(directory: Path, files: Mapping[str, bytes]) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    for name, data in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
