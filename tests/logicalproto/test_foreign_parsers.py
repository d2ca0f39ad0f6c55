"""Messages, the servers' and ours, as programs that others wrote read them: none of it is refused, and it is what our own reader says."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from oracle.test_walsender import SETTINGS, SETUP, STORY, TWO_PHASE_SINCE, Session, sessions_of
from support.cases import DBNAME, all_cases, open_case
from support.foreign_parsers import PARSERS, Parser, agrees, our_readings
from support.outlets import OUTLETS
from support.parser_readings import OUTLETS_READ, read_by, recorded_readings
from support.pgoutput_rows import PUBLICATION, ours
from support.reassembly import reassembled
from support.sampling import some_of
from support.servers import Server
from support.vectors import recorded_sessions
from support.walsender import LogicalStream
from support.ways import Road
from tailrace.model import Lsn

CASES = [pytest.param(*each, id="-".join(map(str, each))) for each in all_cases() if each[2] == "with_slot"]
LEAST_READ = 100


@pytest.mark.matrix
@pytest.mark.marathon
@pytest.mark.parametrize("parser", PARSERS, ids=str)
def test_what_servers_sent(parser: Parser) -> None:
    count = 0
    for recorded in recorded_sessions():
        if parser.takes(recorded.streaming, binary="binary" in recorded.name):
            count += read_by(parser, recorded.payloads, recorded.proto_version, recorded.streaming, recorded.name)
    assert count > LEAST_READ


@pytest.mark.matrix
@pytest.mark.marathon
@pytest.mark.parametrize(("story", "major", "variant"), some_of(CASES, 8))
def test_what_we_make_of_recorded_logs(story: str, major: int, variant: str, tmp_path: Path) -> None:
    case = open_case(story, major, variant, tmp_path)
    for outlet, told in Road(case).at_once(OUTLETS_READ).items():
        payloads = [data for _, _, data in told.rows]
        streaming = outlet.options.get("streaming", "off")
        for parser in PARSERS:
            if parser.takes(streaming, binary="binary" in outlet.options):
                read_by(parser, payloads, int(outlet.options["proto_version"]), streaming, f"{outlet}")


@pytest.mark.matrix
@pytest.mark.marathon
@pytest.mark.postgres
@pytest.mark.parametrize("major", some_of([pytest.param(major, id=str(major)) for major in (18, 14, 16, 15, 17)], 2))
def test_a_live_server_and_ours(major: int, tmp_path: Path) -> None:
    """The server's messages, as a subscriber is sent them, and ours of the same log: parsers read both, and they come to the same."""
    sessions = [*_plain_sessions(major), *sessions_of(major)]
    with Server(major, SETTINGS, dbname=DBNAME, test_decoding=False) as server:
        server.say(*SETUP)
        made = "SELECT lsn FROM pg_create_logical_replication_slot(%s, 'pgoutput', false, %s)"
        starts = [str(server.value(made, [session.slot, session.two_phase])) for session in sessions]
        with ExitStack() as stack:
            streams = [stack.enter_context(LogicalStream(server, session.slot, session.options)) for session in sessions]
            for chapter in STORY:
                for _ in chapter(server):
                    server.say("INSERT INTO flushed VALUES (1)")
                    flushed = server.flush_lsn()
                    for session, stream in zip(sessions, streams, strict=True):
                        session.received += stream.read_to(flushed)
        server.stop()
        counts: Counter[str] = Counter()
        for session, start in zip(sessions, starts, strict=True):
            version, streaming = session.of_reader
            rows = ours(server.data_dir, session.options, start_lsn=start, two_phase=session.two_phase, major=major, work_mem=0)
            mine = [(int(Lsn.parse(lsn)), data) for lsn, _, data in rows]
            assert reassembled(mine, version, streaming) == reassembled(session.received, version, streaming)
            for parser in PARSERS:
                if parser.takes(streaming, binary="binary" in session.options):
                    for received in (session.received, mine):
                        payloads = [data for _, data in received]
                        counts[parser.name] += read_by(parser, payloads, version, streaming, f"{major}, {session.options}")
    assert min(counts[parser.name] for parser in PARSERS) > LEAST_READ


def _plain_sessions(major: int) -> list[Session]:
    options = {"publication_names": PUBLICATION, "streaming": "off"}
    sessions = [
        Session("plain", {**options, "proto_version": "1", "messages": "on"}, False),
        Session("plain_binary", {**options, "proto_version": "1", "binary": "on"}, False),
    ]
    if major >= TWO_PHASE_SINCE:
        sessions.append(Session("plain_two_phase", {**options, "proto_version": "3", "two_phase": "on"}, True))
    return sessions


@pytest.mark.parametrize(("story", "major"), sorted({(each.story, each.major) for each in recorded_readings()}))
def test_what_they_have_read_is_what_we_make_and_read(story: str, major: int, tmp_path: Path) -> None:
    """As recorded (`record_readings.py`): here nothing need be fetched."""
    told = Road(open_case(story, major, "with_slot", tmp_path)).at_once(OUTLETS_READ)
    parsers = {parser.name: parser for parser in PARSERS}
    count = 0
    for recorded in recorded_readings():
        if (recorded.story, recorded.major) == (story, major):
            outlet = OUTLETS_READ[recorded.outlet]
            payloads = [data for _, _, data in told[outlet].rows]
            mine = our_readings(payloads, int(outlet.options["proto_version"]), outlet.options.get("streaming", "off"))
            for payload, reading, theirs in zip(payloads, mine, recorded.readings, strict=True):
                assert agrees(parsers[recorded.parser], payload, reading, theirs), (
                    f"{outlet}, {recorded.parser}: {reading}, {theirs}"
                )
                count += 1
    assert count > LEAST_READ


def test_every_option_is_read() -> None:
    assert set(OUTLETS_READ) == {each for each in OUTLETS if each.plugin == "pgoutput"}
    assert {each.parser for each in recorded_readings()} == {parser.name for parser in PARSERS}
