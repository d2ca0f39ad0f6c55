"""What files tell of a source: the data directory's pg_control, and the log itself. What only a server knows needs a connection (`client.doctor`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field
from pathlib import Path

import numpy as np

from tailrace.catalog.data_directory.control_file import ControlFile
from tailrace.client.doctor.findings import NOTE, OK, STOPS, WARNING, Finding
from tailrace.dataclass import dataclass
from tailrace.errors import CorruptWal, TailraceError, count_of
from tailrace.model import Lsn
from tailrace.pipeline.runner import Runner
from tailrace.pipeline.scanning import scanned
from tailrace.sources.named import directory_of, existing, files_of
from tailrace.sources.source import Source
from tailrace.sources.source_name import SourceName
from tailrace.storage.directory import DataDirectory
from tailrace.storage.segment_files import arrange
from tailrace.storage.segments import Segments
from tailrace.transactions.commit_or_abort import NEVER
from tailrace.wal import xact
from tailrace.wal.index import Index
from tailrace.wal.kept_records import wal_level_changes
from tailrace.wal.xlog import LOGICAL, WAL_LEVELS

_LOG_LEVEL = "wal_level in the log"
_RAISE = "ALTER SYSTEM SET wal_level = logical;  -- on the server; then restart it"


def file_findings(name: SourceName, runner_for: Callable[[int], Runner]) -> Iterator[Finding]:
    """Of a data directory, its pg_wal, or an archive of segments. The whole log is scanned, by the runner for so many bytes."""
    try:
        directory = directory_of(existing(name))
        control = directory.control() if directory else None
        yield from _of_directory(directory, control)
        segments = arrange(files_of(name))
        yield from _of_segments(segments)
        source = Source.open(name, for_catalogs=False)
        yield from _of_log(source.segments, runner_for(source.segments.stop_lsn - source.segments.first_lsn))
    except TailraceError as error:
        yield Finding("files", STOPS, _said(error), error.hint)
    except OSError as error:
        remedy = "sudo -u postgres tailrace doctor …  # as a user who may"
        yield Finding("files", STOPS, f'could not read "{error.filename or name}": {error.strerror}', remedy)
    yield Finding(
        "server",
        NOTE,
        "rights, slots, replica identities, types and clocks are not in files",
        "tailrace doctor 'host=… dbname=…'",
    )


def _of_directory(directory: DataDirectory | None, control: ControlFile | None) -> Iterator[Finding]:
    if directory is None or control is None:
        told, remedy = (
            "it is none: decoding needs a captured catalog state",
            "tailrace catalog capture SOURCE --database NAME -o STATE",
        )
        yield Finding("data directory", NOTE, told, remedy)
        return
    is_running = directory.is_running and not directory.is_abandoned
    kind = "a standby" if (directory.path / "standby.signal").exists() else "a server"
    yield Finding(
        "data directory", OK, f"of system {control.system}, {f'{kind} runs on it' if is_running else 'stopped, or a backup'}"
    )
    if control.wal_level < LOGICAL:
        told = f"it is {WAL_LEVELS[control.wal_level]}: what is written below logical cannot be decoded"
        yield Finding("wal_level", STOPS, told, _RAISE)
    else:
        yield Finding("wal_level", OK, "it is logical")
    if is_running and not control.full_page_writes:
        told = "it is off: pages of catalogs may be torn when they are read beside the running server"
        yield Finding(
            "full_page_writes", WARNING, told, "ALTER SYSTEM SET full_page_writes = on;  -- then SELECT pg_reload_conf();"
        )
    if control.checksums:
        yield Finding("data_checksums", OK, "it is on")
    else:
        told = "it is off: what a broken disk does to catalogs is not noticed"
        yield Finding("data_checksums", NOTE, told, "pg_checksums --enable -D DATA  # while the server is stopped")


def _of_segments(segments: Segments) -> Iterator[Finding]:
    yield Finding("version", OK, f"PostgreSQL {segments.major}")
    for missing, present in segments.gaps:
        first = Path(segments.name_at(missing * segments.segment_size)).name
        end = Lsn(missing * segments.segment_size)
        told = f"{count_of(present - missing, 'segment', 'are')} missing, from {first} on: the log ends at {end} for now"
        yield Finding("gaps", STOPS, told, f"cp ARCHIVE/{first} {segments.directory}/  # or what restore_command does")
    if not segments.gaps:
        yield Finding("gaps", OK, f"none between {segments.first_lsn} and {segments.stop_lsn}")


def _of_log(segments: Segments, runner: Runner) -> Iterator[Finding]:
    """Whether all its records are sound, and of which wal_level they are."""
    levels, records, end = _Levels(), 0, segments.first_lsn
    problem: CorruptWal | None = None
    try:
        for part in scanned(segments, runner):
            levels.add(part)
            records, end = records + part.records, part.next_lsn
    except CorruptWal as error:
        problem = error
    yield from levels.findings()
    if problem is None:
        yield Finding("log", OK, f"{count_of(records, 'record')} up to {end}, all sound")
    elif not segments.gaps:
        yield Finding("log", STOPS, _said(problem), problem.hint)


@dataclass(slots=True)
class _Levels:
    """What the log says of wal_level: records tell it where a server starts with another than before; and commits that invalidate no cache, which
    name their database at logical alone (`XactLogCommitRecord`). `is_low` is how it was last, None as long as nothing has told."""

    changes: list[tuple[Lsn, int]] = field(default_factory=list)
    is_low: bool | None = None
    was_high: bool = False

    def add(self, part: Index) -> None:
        told = wal_level_changes([part])
        if self.is_low is None:
            ends = part.ends
            telling = (
                (ends.kind == xact.COMMIT)
                & (ends.lsn < (told[0][0] if told else NEVER))
                & (np.diff(ends.invalidation_bounds) == 0)
            )
            if telling.any():
                self._is(low=bool((ends.database[telling] == 0).any()))
        for lsn, level in told:
            before = self.is_low
            self._is(low=level < LOGICAL)
            if before not in (None, self.is_low):
                self.changes.append((lsn, level))

    def _is(self, *, low: bool) -> None:
        self.is_low, self.was_high = low, self.was_high or not low

    def findings(self) -> Iterator[Finding]:
        if self.is_low and not self.was_high:
            yield Finding(_LOG_LEVEL, STOPS, "all of it was written below logical: nothing of it can be decoded", _RAISE)
        elif not self.changes:
            yield Finding(_LOG_LEVEL, OK, "nothing of it was written below logical")
        for lsn, level in self.changes:
            if level < LOGICAL:
                told = f"it became {WAL_LEVELS[level]} at {lsn}: what follows cannot be decoded until it is raised"
                yield Finding(_LOG_LEVEL, WARNING, told, f"--upto-lsn {lsn}  # of tailrace decode")
            else:
                told = f"it became logical at {lsn}: decoding can begin there"
                yield Finding(_LOG_LEVEL, NOTE, told, f"--start-lsn {lsn}  # of tailrace decode")


def _said(error: TailraceError) -> str:
    return f"{error.message} ({error.context})" if error.context else error.message
