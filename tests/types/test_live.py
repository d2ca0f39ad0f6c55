"""Every type that a column may have, against servers: the wheel's 18 always, npm's majors with `make test-matrix`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from literals import LITERALS, PREPARE
from live_types import NO_VALUES, Tried, has_xml, try_all
from record_vectors import record
from server_types import describe, make_table, names_of, read_back, sent
from table import DOCUMENT, render
from types_vectors import build

from support.servers import Server
from tailrace.types.registry import TextStyle, format_binary, format_values, parse_binary, parse_texts
from tailrace.types.values import Texts, Values


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(18, test_decoding=False) as started:
        yield started


@pytest.fixture(scope="module")
def tried(server: Server) -> list[Tried]:
    with server.connect() as connection:
        found = try_all(connection, server.data_dir)
        without = NO_VALUES | (set() if has_xml(connection) else {"xml"})
    assert {each.type.name for each in found if not each.values} == without
    return found


@pytest.mark.postgres
def test_every_type_of_a_column_is_printed_and_sent_as_the_server_does(tried: list[Tried]) -> None:
    assert len(tried) > 500
    assert [each.type.label for each in tried if not each.is_right] == []


@pytest.mark.postgres
def test_the_table_of_types_is_current(tried: list[Tried]) -> None:
    assert DOCUMENT.read_text() == render(tried), "run python tests/types/table.py"


@pytest.mark.postgres
def test_values_stored_before_attributes_were_dropped_and_added(server: Server) -> None:
    """Rows are not rewritten: the bytes of the dropped attribute, long or short, stay before those of the others."""
    with server.connect() as connection:
        connection.execute("CREATE TYPE changing AS (a text, b int, c numeric, d text)")
        make_table(connection, "changed", "changing")
        connection.execute(
            "INSERT INTO changed VALUES (('first', 1, 1.5, 'x')), ((NULL, 2, NULL, '')), ((repeat('y', 200), NULL, 3, 'z'))"
        )
        connection.execute(
            "ALTER TYPE changing DROP ATTRIBUTE a; ALTER TYPE changing DROP ATTRIBUTE c; ALTER TYPE changing ADD ATTRIBUTE e int8"
        )
        connection.execute("INSERT INTO changed VALUES ((4, 'new', 5)), (NULL)")
        connection.execute("CHECKPOINT")
        pg_type = build(describe(connection, "changing"))
        assert [field.dropped for field in pg_type.fields] == [True, False, True, False, False]
        rows = read_back(connection, server.data_dir, "changed", -1)
        values = Values.of_payloads([raw for _, raw in rows], -1)
        texts, forms = format_values(values, pg_type), format_binary(values, pg_type)
        assert texts.to_list() == [text or "" for text, _ in rows] == ["(1,x,)", '(2,"",)', "(,z,)", "(4,new,5)", ""]
        assert forms.to_bytes() == [form or b"" for form in sent(connection, "changed") or []]
        assert format_values(parse_texts(texts, values.valid, pg_type), pg_type).to_list() == texts.to_list()
        assert format_values(parse_binary(forms, values.valid, pg_type), pg_type).to_list() == texts.to_list()


@pytest.mark.matrix
@pytest.mark.parametrize("major", [14, 15, 16, 17, 18])
def test_every_type_of_every_major(major: int) -> None:
    with Server(major) as server, server.connect() as connection:
        found = try_all(connection, server.data_dir)
        assert [each.type.label for each in found if not each.is_right] == []
        assert {each.type.name for each in found if not each.values} <= NO_VALUES


@pytest.mark.matrix
@pytest.mark.parametrize("major", [14, 15, 16, 17, 18])
def test_every_recorded_literal_on_every_major(major: int, capsys: pytest.CaptureFixture[str]) -> None:
    """What a major refuses (intervals without end before 17, say) is not in its tables."""
    recorded: dict[str, Any] = {"types": {}, "vectors": {}}
    with Server(major) as server, server.connect() as connection:
        record(connection, server.data_dir, PREPARE, LITERALS, recorded)
        names = names_of(connection)
    style = TextStyle(names=lambda reg_type, oid: names.get(f"{reg_type} {oid}"), major=major)
    wrong = {}
    for name, rows in recorded["vectors"].items():
        pg_type = build(recorded["types"][name])
        values = Values.of_payloads([bytes.fromhex(raw) for _, raw, _ in rows], pg_type.length)
        texts = format_values(values, pg_type, style).to_bytes()
        if any(ours != theirs.encode("utf-8", "surrogateescape") for ours, (theirs, _, _) in zip(texts, rows, strict=True)):
            wrong[name] = [(ours, row[0]) for ours, row in zip(texts, rows, strict=True) if ours != row[0].encode()]
        if None not in [form for _, _, form in rows]:
            forms = format_binary(values, pg_type, style).to_bytes()
            if [form.hex() for form in forms] != [form for _, _, form in rows]:
                wrong[f"{name} binary"] = [
                    (ours.hex(), row) for ours, row in zip(forms, rows, strict=True) if ours.hex() != row[2]
                ]
    assert not wrong


def test_binary_forms_of_texts_that_are_views() -> None:
    """Receiving reads at the offsets, not from the start of the buffer."""
    int4 = build({"oid": 23, "schema": "pg_catalog", "name": "int4", "label": "integer", "kind": "b", "length": 4, "align": 4,
                  "delimiter": ",", "element": None, "labels": [], "fields": []})  # fmt: skip
    whole = Texts.of([b"\xff\xff", b"\0\0\0\1", b"", b"\0\0\0\2"])
    part = Texts(whole.offsets[1:], whole.data)
    values = parse_binary(part, Values.of_payloads([b"1111", None, b"2222"], 4).valid, int4)
    assert format_values(values, int4).to_list() == ["1", "", "2"]
