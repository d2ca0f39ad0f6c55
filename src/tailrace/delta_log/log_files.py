"""The names of the files of a Delta table's log: which version each is of, and which of them make a whole checkpoint."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tailrace.dataclass import dataclass

FOLDER = "_delta_log/"
LAST_CHECKPOINT = FOLDER + "_last_checkpoint"
SIDECARS = FOLDER + "_sidecars/"
_COMMIT = re.compile(FOLDER + r"(\d{20})\.json")
_CHECKPOINT = re.compile(FOLDER + r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10})|\.[0-9a-fA-F-]{36})?\.(?:parquet|json)")


class CheckpointFiles(NamedTuple):
    """All of the table at `version`, in these files."""

    version: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LogFiles:
    """`commits` have the tag of their file; `checkpoints` are whole, in the order of their versions."""

    commits: Mapping[int, str]
    checkpoints: Sequence[CheckpointFiles]

    def newest_checkpoint(self, version: int | None) -> CheckpointFiles | None:
        """The last one that is not of a later version than this."""
        return next((each for each in reversed(self.checkpoints) if version is None or each.version <= version), None)


def commit_name(version: int) -> str:
    return f"{FOLDER}{version:020}.json"


def checkpoint_name(version: int) -> str:
    return f"{FOLDER}{version:020}.checkpoint.parquet"


def before_version(version: int) -> str:
    """A name that all files of a version, and of later ones, come behind."""
    return f"{FOLDER}{version:020}"


def log_files(names: Iterable[tuple[str, str]]) -> LogFiles:
    """What these names, each with its file's tag, are. Others, as those of checksums or of what writers left, are passed over."""
    commits: dict[int, str] = {}
    whole: list[CheckpointFiles] = []
    parts: dict[tuple[int, int], list[str]] = {}
    for name, tag in names:
        if found := _COMMIT.fullmatch(name):
            commits[int(found[1])] = tag
        elif found := _CHECKPOINT.fullmatch(name):
            if found[3] is None:
                whole.append(CheckpointFiles(int(found[1]), (name,)))
            else:
                parts.setdefault((int(found[1]), int(found[3])), []).append(name)
    whole += [CheckpointFiles(version, tuple(names)) for (version, number), names in parts.items() if len(names) == number]
    return LogFiles(commits, sorted(whole, key=lambda each: each.version))
