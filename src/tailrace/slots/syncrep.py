"""Synchronous replication: which standbys count, and what enough of them have (`replication/syncrep.c`, `syncrep_gram.y`).

In: the setting, and the standbys there are: clients of a server of ours, or slots whose consumers a server is to wait for. Out: the priority and
state of each, and the positions that are confirmed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError

_TOKEN = re.compile(r'\s*(?:"((?:[^"]|"")*)"|([A-Za-z_\x80-\U0010ffff][\w$]*)|(\d+)|(\*|,|\(|\)))')
_ANY = "*"


@dataclass(frozen=True, slots=True)
class SyncStandbyNames:
    """The setting: `number` standbys count, those named first or, if `is_quorum`, any. No names: none does."""

    names: tuple[str, ...] = ()
    number: int = 0
    is_quorum: bool = False

    @property
    def has_substitutes(self) -> bool:
        """Whether another may take the place of one that is away."""
        return not self.is_quorum and (len(self.names) > self.number or _ANY in self.names)

    def priority(self, application_name: str) -> int:
        """From 1 on, 0: it does not count. Where any will do they are all alike."""
        for place, name in enumerate(self.names, 1):
            if name in (_ANY, application_name.lower()):
                return 1 if self.is_quorum else place
        return 0


@dataclass(frozen=True, slots=True)
class Standby:
    """One that may count while it `is_heard`: by what it is known, its name, and what it has written, flushed and applied."""

    pid: int
    application_name: str
    is_heard: bool
    reached: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class SyncState:
    """By pid, priority and state of each; and what enough have written, flushed, applied, 0: there are too few."""

    states: dict[int, tuple[int, str]]
    confirmed: tuple[int, int, int]


def sync_state(setting: SyncStandbyNames, standbys: Sequence[Standby]) -> SyncState:
    """As pg_stat_get_wal_senders() and SyncRepGetSyncRecPtr() find them."""
    priorities = {each.pid: setting.priority(each.application_name) if each.is_heard else 0 for each in standbys}
    candidates = sorted((each for each in standbys if priorities[each.pid]), key=lambda each: (priorities[each.pid], each.pid))
    chosen = candidates if setting.is_quorum else candidates[: setting.number]
    names = {each.pid: "quorum" if setting.is_quorum else "sync" for each in chosen}
    states = {
        each.pid: (priorities[each.pid], names.get(each.pid, "potential" if priorities[each.pid] else "async"))
        for each in standbys
    }
    return SyncState(states, _confirmed(setting, chosen))


def _confirmed(setting: SyncStandbyNames, chosen: Sequence[Standby]) -> tuple[int, int, int]:
    if not setting.number or len(chosen) < setting.number:
        return 0, 0, 0
    written, flushed, applied = (
        sorted(positions, reverse=True)[setting.number - 1] for positions in zip(*(each.reached for each in chosen), strict=True)
    )
    return written, flushed, applied


def parse_synchronous_standby_names(text: str) -> SyncStandbyNames:
    """`a, b`, `2 (a, b)`, `FIRST 2 (a, b)` or `ANY 2 (a, b)`. Raises UsageError (22023) for anything else."""
    words = _words(text)
    if not words:
        return SyncStandbyNames()
    kinds, at = [kind for kind, _ in words], 0
    is_quorum = kinds[0] == "word" and words[0][1].lower() == "any" and kinds[1:2] == ["number"]
    is_first = kinds[0] == "word" and words[0][1].lower() == "first" and kinds[1:2] == ["number"]
    at += is_quorum or is_first
    number = 1
    if kinds[at : at + 2] == ["number", "("]:
        number, at = int(words[at][1]), at + 2
        if kinds[-1] != ")":
            raise _invalid(text)
        words, kinds = words[:-1], kinds[:-1]
        if not number:
            raise UsageError("number of synchronous standbys (0) must be greater than zero", sqlstate="22023")
    names = []
    for place, (kind, word) in enumerate(words[at:]):
        if (kind == ",") != bool(place % 2) or kind in ("(", ")"):
            raise _invalid(text)
        if kind != ",":
            names.append(word.lower())
    if not names or kinds[-1] == ",":
        raise _invalid(text)
    return SyncStandbyNames(tuple(names), number, is_quorum)


def _words(text: str) -> list[tuple[str, str]]:
    words, at = [], 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            raise _invalid(text)
        at = match.end()
        quoted, word, number, sign = match.groups()
        if quoted is not None:
            words.append(("name", quoted.replace('""', '"')))
        elif word is not None:
            words.append(("word", word))
        elif number is not None:
            words.append(("number", number))
        else:
            words.append(("name" if sign == _ANY else sign, sign))
    return words


def _invalid(text: str) -> UsageError:
    return UsageError(
        f'invalid value for parameter "synchronous_standby_names": "{text}"', detail="synchronous_standby_names parser failed.",
        sqlstate="22023",
    )  # fmt: skip
