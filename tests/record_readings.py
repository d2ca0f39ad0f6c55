"""Writes down what foreign parsers read in messages that we make of recorded cases: `python tests/record_readings.py`, part of `make cases`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from support.cases import open_case
from support.foreign_parsers import PARSERS
from support.parser_readings import CASES_READ, FILE, OUTLETS_READ, Recorded, read_by, write_readings
from support.ways import Road


def record() -> list[Recorded]:
    """All cases, ways and parsers; what they read must be what our reader says."""
    found = []
    for story, major in CASES_READ:
        with tempfile.TemporaryDirectory() as name:
            told = Road(open_case(story, major, "with_slot", Path(name))).at_once(OUTLETS_READ)
        for number, outlet in enumerate(OUTLETS_READ):
            if outlet not in told:
                continue
            payloads = [data for _, _, data in told[outlet].rows]
            version, streaming = int(outlet.options["proto_version"]), outlet.options.get("streaming", "off")
            for parser in PARSERS:
                if payloads and parser.takes(streaming, binary="binary" in outlet.options):
                    read_by(parser, payloads, version, streaming, f"{story}, {major}, {outlet}")
                    found.append(Recorded(story, major, number, parser.name, tuple(parser.read(payloads, version))))
    return found


def main() -> None:
    several = record()
    write_readings(several)
    print(
        f"{FILE.name}: {len(several)} sessions, {sum(len(each.readings) for each in several)} readings, {FILE.stat().st_size} bytes"
    )


if __name__ == "__main__":
    main()
