"""`tailrace doctor`: what is found of a source, a line each, and its remedy below it."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from tailrace.cli.choice import On
from tailrace.cli.engine import runner_for
from tailrace.cli.progress import counted
from tailrace.cli.tables import printable, write_json
from tailrace.client.doctor.examination import Examination
from tailrace.client.doctor.findings import NOTE, OK, STOPS, WARNING, Finding
from tailrace.errors import UsageError, count_of
from tailrace.pipeline.file_findings import file_findings

_SHOWN = 10
"""So many of a kind are printed; JSON has all."""
_WIDTH = len(WARNING)


def of_server(dsn: str, databases: list[str], copied: Sequence[str] | None, *, as_json: bool) -> bool:
    """Print what is found of a server, and of what is to be `copied` as `check_server` has it; whether nothing stops us."""
    return _write(Examination(dsn, databases, copied=copied).findings(), as_json=as_json)


def check_server(dsn: str, database: str, copied: Sequence[str] | None = None) -> None:
    """Say on standard error what would stop us at a server, and what is to be known; of tables that are to be `copied`, too, those of these
    publications, all if they are none. Raises UsageError where something would."""
    counts: Counter[str] = Counter()
    findings = Examination(dsn, [database], copied=copied).findings()
    told = [each for each in _counted(findings, counts) if each.severity in (STOPS, WARNING)]
    for line in _lines(told):
        sys.stderr.write(f"{line}\n")
    if counts[STOPS]:
        raise UsageError(
            f"{count_of(counts[STOPS], 'finding')} at the server would stop tailrace",
            hint="Put right what is said above, and start it again.", sqlstate="55000",
        )  # fmt: skip


def of_files(name: str, on: On, *, as_json: bool) -> bool:
    """The same of a data directory, or an archive."""
    with counted("records") as progress:
        return _write(file_findings(name, lambda size: runner_for(on, size, progress.tell)), as_json=as_json)


def _write(findings: Iterable[Finding], *, as_json: bool) -> bool:
    counts: Counter[str] = Counter()
    if as_json:
        found = list(findings)
        counts.update(each.severity for each in found)
        write_json([_row(each) for each in found])
    else:
        for line in _lines(_counted(findings, counts)):
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()  # a server may let us wait for the next
        sys.stdout.write(f"{_summary(counts)}\n")
    return not counts[STOPS]


def _counted(findings: Iterable[Finding], counts: Counter[str]) -> Iterator[Finding]:
    for each in findings:
        counts[each.severity] += 1
        yield each


def _row(finding: Finding) -> dict[str, str | None]:
    return {
        "check": finding.check, "severity": finding.severity, "database": finding.database or None, "finding": finding.told,
        "remedy": finding.remedy or None,
    }  # fmt: skip


def _lines(findings: Iterable[Finding]) -> Iterator[str]:
    for (severity, check, database), kind in groupby(findings, lambda each: (each.severity, each.check, each.database)):
        place = f"{severity.ljust(_WIDTH)}  {f'{database}: ' if database else ''}{check}: "
        more = 0
        for number, each in enumerate(kind):
            if number >= _SHOWN:
                more += 1
                continue
            yield printable(f"{place}{each.told}")
            if each.remedy:
                yield printable(f"{' ' * _WIDTH}    {each.remedy}")
        if more:
            yield printable(f"{place}and {more:,} more like these (--json has all)")


def _summary(counts: Counter[str]) -> str:
    stops = f"{count_of(counts[STOPS], 'finding')} would stop tailrace" if counts[STOPS] else "nothing stops tailrace"
    return f"{stops}; {count_of(counts[WARNING], 'warning')}, {count_of(counts[NOTE], 'note')}, {counts[OK]} as it should be"
