"""Damage done to everything that decoding reads, and what came of it.

In: recorded cases. Each is set up once as a :class:`Scene`: the data directory, an archive of its WAL with a captured state, an index of all of it, a
spool. A trial damages one file in one way, runs `tailrace decode` in a forked process, and puts the file back. Out: an :class:`Outcome`. Only
these are fair:

- the same rows as without the damage, with or without a warning;
- one error, exit status 1, and before it no other rows than the first of those;
- fewer rows at the end, exit status 0, where nothing can tell: see `Damage.ends_log`;
- other rows, exit status 0, where nothing in PostgreSQL's own files can tell: see `Damage.untold`.

Records with a checksum that fits what they were changed to (:mod:`support.resealed`) are of the last kind; their errors must name a record.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path

import tailrace.cli.decode
from support.cases import Case, open_case
from support.resealed import resealed, swapped_pages
from support.segments import number_of
from tailrace.cli import main
from tailrace.model import PAGE_SIZE, Lsn
from tailrace.pipeline import LocalRunner, Scanning, Source, scan_log

CASES = (
    ("xact", 16), ("toast", 15), ("ddl", 18), ("catalog_rewrite", 15), ("subxact", 14), ("enums", 18), ("types", 16), ("messages", 17),
    ("speculative", 14), ("multi_insert", 16),
)  # fmt: skip
_SECONDS = 120
_STRETCH = 1 << 16
_LSN = re.compile(r"\b[0-9A-F]+/[0-9A-F]+\b")
_OF_AN_ERROR = re.compile(r'(HINT|DETAIL|CONTEXT):  |(slot "[^"]*", )?output plugin "')
"""Its further lines; a context has one more where it is a callback's."""
_PLUGINS = (("test_decoding",), ("wal2json",), ("wal2json", "format-version=2"), ("debezium",))
_TELLING = frozenset({"1247", "1249", "1259", "1262", "2610", "2615"})
_BROKEN = 70  # the status of a child that ended with a foreign exception


class Outcome(StrEnum):
    SAME = "same rows"
    WARNED = "same rows, warned"
    ERROR = "one error"
    ENDS = "log ends earlier"
    UNTOLD = "other rows, not to be told"
    NAMELESS = "NAMELESS"
    SILENT = "SILENT"
    TRACEBACK = "TRACEBACK"
    SIGNAL = "SIGNAL"
    HANG = "HANG"


FAIR = (Outcome.SAME, Outcome.WARNED, Outcome.ERROR, Outcome.ENDS, Outcome.UNTOLD)


@dataclass(frozen=True, slots=True)
class Damage:
    """One trial: the file, its new content (None: removed), how to run. `ends_log` says that it lies in the last page of a log of which nothing else
    tells how far it reached; `untold`, that it lies where the cluster keeps no checksum, and PostgreSQL would read it just so; `of_record`, that it
    is a record's, and an error has to name one."""

    kind: str
    what: str
    scene: Scene
    words: tuple[str, ...]
    path: Path
    content: bytes | None
    ends_log: bool = False
    untold: bool = False
    of_record: bool = False


@dataclass(frozen=True, slots=True)
class Scene:
    """A case with all that is kept beside it. `last_page` is where the page with the log's last record begins."""

    case: Case
    home: Path
    database: str
    last_page: int
    segment_size: int
    checksums: bool

    @property
    def system(self) -> str:
        return str(self.case.meta["system_identifier"])

    @property
    def expected(self) -> str:
        return (self.home / "expected").read_bytes().decode()

    def words(self, *more: object, archive: bool = False) -> tuple[str, ...]:
        source = self.home / "archive" if archive else self.case.data_dir
        state = ("--catalog", self.home / "state") if archive else ()
        start = ("--start-lsn", self.case.meta["start_lsn"])
        return tuple(map(str, ("decode", source, "--database", self.database, "--on", "local", *start, *state, *more)))

    @property
    def segments(self) -> list[Path]:
        return sorted(path for path in self.case.wal_dir.iterdir() if len(path.name) == 24)

    @property
    def archived(self) -> list[Path]:
        return sorted((self.home / "archive").iterdir())

    @property
    def indexes(self) -> list[Path]:
        return sorted((self.home / "index").rglob("*.index"))

    @property
    def spooled(self) -> list[Path]:
        return sorted(path for path in (self.home / "spool").rglob("*") if path.is_file() and len(path.name) == 24)


def build_scene(story: str, major: int, home: Path) -> Scene:
    """Unpack a case, and run everything once, so that all files are there. A running server's directory is told by its postmaster.pid."""
    case = open_case(story, major, "with_slot", home)
    segments = Source.open(case.data_dir).segments
    last = scan_log(segments, LocalRunner(1))[-1].last
    checksums = case.data_dir.joinpath("global/pg_control").read_bytes()[252] == 1
    scene = Scene(case, home, case.meta["dbname"], int(last) // PAGE_SIZE * PAGE_SIZE, segments.segment_size, checksums)
    shutil.copytree(case.wal_dir, home / "archive", ignore=shutil.ignore_patterns("archive_status", "summaries"))
    for name, words in {
        "state": ("catalog", "capture", case.before_dir, "--database", scene.database, "-o", home / "state"),
        "index": scene.words("--index", home / "index"),
        "archive": scene.words(archive=True),
        "expected": scene.words(),
    }.items():
        run_here(tuple(map(str, words)))
        status, out, err = run_forked(tuple(map(str, words)), home)
        assert status == 0, f"{name}: {err}"
        assert name == "state" or out == case.expected, f"{name} differs without damage"
    (home / "expected").write_text(case.expected)
    with running(scene):
        status, out, err = run_forked(scene.words(), home)
        assert (status, out) == (0, case.expected), err
    return scene


@contextmanager
def running(scene: Scene) -> Iterator[None]:
    """As if a server owned the directory: its WAL is then read by way of the spool."""
    pid = scene.case.data_dir / "postmaster.pid"
    pid.write_text("1\n")
    try:
        yield
    finally:
        pid.unlink()


def run_here(words: tuple[str, ...]) -> None:
    """A command line in this process, so that no child has to load what it takes."""
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere), suppress(SystemExit):
        _run(words)


def _run(words: tuple[str, ...]) -> None:
    # The cases are of a few megabytes, and only stretches that are complete are kept as indexes.
    tailrace.cli.decode.Scanning = partial(Scanning, _STRETCH)
    sys.argv = ["tailrace", *words]
    main()


def run_forked(words: tuple[str, ...], home: Path) -> tuple[int, str, str]:
    """A command line in a child of this process. A negative status is a signal's."""
    out, err = home / "out", home / "err"
    child = os.fork()
    if child == 0:
        status = _BROKEN
        try:
            for path, number in ((out, 1), (err, 2)):
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
            sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
            os.environ["TAILRACE_SPOOL"] = str(home / "spool")
            signal.alarm(_SECONDS)
            _run(words)
        except SystemExit as ended:
            status = int(ended.code or 0)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status, out.read_bytes().decode(errors="replace"), err.read_text(errors="replace")


def try_out(damage: Damage) -> tuple[Outcome, str]:
    """Do it, look what comes of it, put the file back. With the outcome comes what was said on standard error."""
    scene, path = damage.scene, damage.path
    sound = path.read_bytes()
    try:
        if damage.content is None:
            path.unlink()
        else:
            path.write_bytes(damage.content)
        if damage.kind == "spool":
            with running(scene):
                status, out, err = run_forked(damage.words, scene.home)
        else:
            status, out, err = run_forked(damage.words, scene.home)
    finally:
        path.write_bytes(sound)
    return _judged(damage, status, out, err), err


def _judged(damage: Damage, status: int, out: str, err: str) -> Outcome:
    expected = damage.scene.expected
    lines = [line for line in err.splitlines() if not line.startswith("tailrace: warning: ")]
    if status < 0:
        return Outcome.HANG if status == -signal.SIGALRM else Outcome.SIGNAL
    if status == 0:
        if lines:
            return Outcome.TRACEBACK
        if out == expected:
            return Outcome.WARNED if err else Outcome.SAME
        if damage.untold:
            return Outcome.UNTOLD
        return Outcome.ENDS if damage.ends_log and expected.startswith(out) else Outcome.SILENT
    told = lines and lines[0].startswith("tailrace: error: ") and all(_OF_AN_ERROR.match(line) for line in lines[1:])
    if status != 1 or not told:
        return Outcome.TRACEBACK
    if damage.of_record and not _LSN.search(err) and 'CONTEXT:  catalog "' not in err:
        return Outcome.NAMELESS
    return Outcome.ERROR if expected.startswith(out) or damage.untold else Outcome.SILENT


# -- ways to damage a file ------------------------------------------------------------------------------------------------------


def flipped(data: bytes, dice: random.Random, start: int = 0, stop: int | None = None) -> tuple[bytes, int]:
    """One bit; and where."""
    at = dice.randrange(start, len(data) if stop is None else stop)
    return data[:at] + bytes([data[at] ^ 1 << dice.randrange(8)]) + data[at + 1 :], at


def scrawled(data: bytes, dice: random.Random, start: int = 0, stop: int | None = None) -> tuple[bytes, int]:
    """A few bytes, anything."""
    at = dice.randrange(start, len(data) if stop is None else stop)
    noise = dice.randbytes(dice.choice((2, 8, 64, 512)))[: len(data) - at]
    return data[:at] + noise + data[at + len(noise) :], at


def cut(data: bytes, dice: random.Random) -> bytes:
    return data[: dice.randrange(len(data))]


Make = Callable[[Scene, list[Scene], random.Random], Damage | None]


def _in_wal(kind: str, scene: Scene, path: Path, dice: random.Random, words: tuple[str, ...], *, reach_known: bool) -> Damage:
    """A bit or some bytes of a segment, where it was written to."""
    number = int(path.name[8:16], 16) * ((1 << 32) // scene.segment_size) + int(path.name[16:], 16)
    begin = number * scene.segment_size
    end = int(Lsn.parse(scene.case.meta["end_lsn"]))
    data = path.read_bytes()  # a copy in the spool ends with what was written when it was made
    content, at = dice.choice((flipped, flipped, scrawled))(data, dice, 0, min(len(data), max(PAGE_SIZE, end - begin)))
    tail = begin + at >= scene.last_page - 512 and not reach_known
    return Damage(kind, f"{path.name} at {at}", scene, words, path, content, ends_log=tail)


def wal_under_index(scene: Scene, _: list[Scene], dice: random.Random) -> Damage:
    words = scene.words("--index", scene.home / "index")
    return _in_wal("WAL, indexed before", scene, dice.choice(scene.segments), dice, words, reach_known=True)


def wal(scene: Scene, _: list[Scene], dice: random.Random) -> Damage:
    return _in_wal("WAL of a data directory", scene, dice.choice(scene.segments), dice, scene.words(), reach_known=True)


def archived_wal(scene: Scene, _: list[Scene], dice: random.Random) -> Damage:
    path = dice.choice([path for path in scene.archived if len(path.name) == 24])
    return _in_wal("WAL archive", scene, path, dice, scene.words(archive=True), reach_known=False)


def spool(scene: Scene, _: list[Scene], dice: random.Random) -> Damage | None:
    copies = [path for path in scene.spooled if path.stat().st_size]
    return _in_wal("spool", scene, dice.choice(copies), dice, scene.words(), reach_known=True) if copies else None


def resealed_record(scene: Scene, _: list[Scene], dice: random.Random) -> Damage | None:
    """A record that is other than it was, with a checksum that fits it: read from a data directory, or replayed on a state captured before."""
    archive = dice.random() < 0.5
    paths = [path for path in scene.archived if len(path.name) == 24] if archive else scene.segments
    path = dice.choice(paths)
    found = resealed(path, number_of(path) * scene.segment_size, int(Lsn.parse(scene.case.meta["start_lsn"])), dice)
    if found is None:
        return None
    plugin, *options = dice.choice(_PLUGINS)
    words = scene.words("--plugin", plugin, *(word for each in options for word in ("-o", each)), archive=archive)
    kind = f"record with its checksum, {plugin}"
    return Damage(kind, f"{path.name} at {found[1]}", scene, words, path, found[0], untold=True, of_record=True)


def pages_swapped(scene: Scene, _: list[Scene], dice: random.Random) -> Damage | None:
    """Two pages of a segment, or of a catalog, in each other's place."""
    in_log = dice.random() < 0.5
    path = dice.choice(scene.segments if in_log else _catalog_files(scene))
    data = path.read_bytes()
    used = (
        min(len(data), int(Lsn.parse(scene.case.meta["end_lsn"])) - number_of(path) * scene.segment_size) if in_log else len(data)
    )
    found = swapped_pages(data, used, dice)
    if found is None:
        return None
    kind = "pages swapped, WAL" if in_log else "pages swapped, catalogs"
    return Damage(kind, f"{path.name}, pages {found[1]}", scene, scene.words(), path, found[0], untold=not in_log)


def wal_replaced(scene: Scene, others: list[Scene], dice: random.Random) -> Damage:
    """Cut off, removed, another's, or a neighbour's under this name; with an index and without."""
    path = dice.choice(scene.segments)
    content, what = _replaced(path, [p for p in scene.segments if p != path], [p for o in others for p in o.segments], dice)
    words = scene.words("--index", scene.home / "index") if dice.random() < 0.5 else scene.words()
    return Damage("WAL segment replaced", f"{path.name} {what}", scene, words, path, content)


def index_damaged(scene: Scene, _: list[Scene], dice: random.Random) -> Damage:
    path = dice.choice(scene.indexes)
    content, at = dice.choice((flipped, flipped, scrawled))(path.read_bytes(), dice)
    return Damage("index", f"{path.name} at {at}", scene, scene.words("--index", scene.home / "index"), path, content)


def index_replaced(scene: Scene, others: list[Scene], dice: random.Random) -> Damage:
    path = dice.choice(scene.indexes)
    content, what = _replaced(path, [p for p in scene.indexes if p != path], [p for o in others for p in o.indexes], dice)
    return Damage("index replaced", f"{path.name} {what}", scene, scene.words("--index", scene.home / "index"), path, content)


def state_damaged(scene: Scene, _: list[Scene], dice: random.Random) -> Damage:
    path = scene.home / "state"
    content, at = dice.choice((flipped, flipped, scrawled))(path.read_bytes(), dice)
    return Damage("catalog state", f"at {at}", scene, scene.words(archive=True), path, content)


def state_replaced(scene: Scene, others: list[Scene], dice: random.Random) -> Damage:
    path = scene.home / "state"
    content, what = _replaced(path, [*scene.indexes, *scene.segments], [o.home / "state" for o in others], dice)
    return Damage("catalog state replaced", what, scene, scene.words(archive=True), path, content)


def catalog_page(scene: Scene, _: list[Scene], dice: random.Random) -> Damage:
    """Half of them where it hurts: the rows of the story's own tables, at the end of the catalogs that say what they are."""
    files, start = _catalog_files(scene), 0
    if dice.random() < 0.5:
        files = [path for path in files if path.name in _TELLING]
    path = dice.choice(files)
    data = path.read_bytes()
    if path.name in _TELLING and dice.random() < 0.5:
        start = max(0, len(data) - 2 * PAGE_SIZE)
    content, at = dice.choice((flipped, flipped, flipped, scrawled))(data, dice, start)
    kind = "catalog page, with checksums" if scene.checksums else "catalog page, without checksums"
    return Damage(kind, f"{path.name} at {at}", scene, scene.words(), path, content, untold=not scene.checksums)


def catalog_replaced(scene: Scene, others: list[Scene], dice: random.Random) -> Damage:
    """What is left of a file that was cut at a page's end is a sound file, and so is one without pages, or with pages of zeros."""
    path = dice.choice(_catalog_files(scene))
    others_files = [p for o in others for p in _catalog_files(o)]
    content, what = _replaced(path, [p for p in _catalog_files(scene) if p != path], others_files, dice)
    return Damage("catalog file replaced", f"{path.name} {what}", scene, scene.words(), path, content, untold=True)


def control_or_map(scene: Scene, others: list[Scene], dice: random.Random) -> Damage:
    names = ("global/pg_control", "global/pg_filenode.map")
    paths = [scene.case.data_dir / name for name in names] + sorted(scene.case.data_dir.glob("base/*/pg_filenode.map"))
    path = dice.choice(paths)
    if dice.random() < 0.7:
        data = path.read_bytes()
        content, at = flipped(data, dice, 0, min(len(data), 296))
        return Damage("pg_control, relation maps", f"{path.name} at {at}", scene, scene.words(), path, content)
    others_files = [o.case.data_dir / path.relative_to(scene.case.data_dir) for o in others]
    content, what = _replaced(path, [p for p in paths if p != path], [p for p in others_files if p.exists()], dice)
    return Damage("pg_control, relation maps", f"{path.name} {what}", scene, scene.words(), path, content)


def commit_status(scene: Scene, _: list[Scene], dice: random.Random) -> Damage | None:
    """Two bits a transaction, and no checksum: which of them were flipped cannot be told; that the file is gone or short can."""
    paths = sorted(scene.case.data_dir.glob("pg_xact/0*"))
    if not paths:
        return None
    data = paths[0].read_bytes()
    if dice.random() < 0.5:
        return Damage(
            "pg_xact, gone or short", "", scene, scene.words(), paths[0], dice.choice((None, b"", data[:64], cut(data, dice)))
        )
    content, at = flipped(data, dice, 0, 256)
    return Damage("pg_xact, bits", f"at {at}", scene, scene.words(), paths[0], content, untold=True)


def _catalog_files(scene: Scene) -> list[Path]:
    """The files that decoding reads, and a few that it does not."""
    folders = [scene.case.data_dir / "global", *scene.case.data_dir.glob("base/*")]
    files = sorted(path for folder in folders for path in folder.iterdir() if path.name.isdigit() and path.stat().st_size)
    assert files
    return files


def _replaced(path: Path, own: list[Path], foreign: list[Path], dice: random.Random) -> tuple[bytes | None, str]:
    data = path.read_bytes()
    ways: list[tuple[str, Callable[[], bytes | None]]] = [
        ("cut off", lambda: cut(data, dice)),
        ("cut at a page", lambda: data[: len(data) // 2 // PAGE_SIZE * PAGE_SIZE]),
        ("empty", lambda: b""),
        ("gone", lambda: None),
        ("zeros", lambda: bytes(len(data))),
        ("noise", lambda: dice.randbytes(len(data))),
        ("longer", lambda: data + dice.randbytes(100)),
    ]
    if own:
        ways += [("another of ours", lambda: dice.choice(own).read_bytes())] * 2
    if foreign:
        ways += [("another system's", lambda: dice.choice(foreign).read_bytes())] * 2
    what, make = dice.choice(ways)
    return make(), what


KINDS: dict[Make, int] = {
    wal_under_index: 5, wal: 2, archived_wal: 2, spool: 2, wal_replaced: 3, index_damaged: 4, index_replaced: 2, state_damaged: 4, state_replaced: 2,
    catalog_page: 6, catalog_replaced: 2, control_or_map: 2, commit_status: 1, resealed_record: 8, pages_swapped: 2,
}  # fmt: skip
"""Ways to damage, and how often each is taken."""


def damages(scenes: list[Scene], count: int, seed: int) -> Iterator[Damage]:
    """As many, drawn from the seed. Each is to be tried before the next is drawn: it is made from the files as they are.

    Cases of one major may have been recorded from copies of one cluster. Those are no other's: nothing in PostgreSQL's files tells such copies apart.
    """
    dice = random.Random(seed)
    kinds = [make for make, often in KINDS.items() for _ in range(often)]
    while count:
        scene = dice.choice(scenes)
        damage = dice.choice(kinds)(scene, [other for other in scenes if other.system != scene.system], dice)
        if damage is not None:
            yield damage
            count -= 1
