"""Writes down the events that Debezium's engine makes of the story: `python tests/record_debezium_events.py`, part of `make cases`."""

from __future__ import annotations

from plugins.test_debezium_engine import told_story
from support.debezium_engine import FILE, RUNS, events_of, write_events


def main() -> None:
    with told_story(18) as (server, _):
        told = {name: events_of(server, name) for name in RUNS}
    write_events(told)
    print(f"{FILE.name}: {sum(len(events) for events in told.values())} events, {FILE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
