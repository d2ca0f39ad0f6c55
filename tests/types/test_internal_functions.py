"""Types of somebody's own whose functions are the server's: whose they are, and what follows for their values."""

from __future__ import annotations

import pytest

from tailrace.errors import UnsupportedWal, UsageError
from tailrace.model import InternalFunctions, PgType
from tailrace.types.built_in import built_in_type, internal_functions
from tailrace.types.codec import format_binary, format_values, has_binary, parse_binary, parse_texts, quoting
from tailrace.types.style import TextStyle
from tailrace.types.values import Values

POINT = internal_functions(16, False, ("point_out", "point_send", "point_in", "point_recv"))


def _type(functions: InternalFunctions | None, length: int = -1) -> PgType:
    return PgType(70000, "public", "mine", "mine", "b", length, 4, functions=functions)


def test_whose_functions_they_are() -> None:
    assert POINT == (600, 600, 600, 600)
    assert internal_functions(-1, False, ("textout", "byteasend", "textin", "")) == (25, 17, 25, 0)
    assert internal_functions(-1, False, ("textout", None, "array_in", None)) == (25, -1, -1, -1)
    assert (
        internal_functions(4, False, ("int4out", "int4send", "int4in", "int4recv")) is None
    )  # the server would print an address
    assert internal_functions(20, False, ("uuid_out", "uuid_send", "uuid_in", "uuid_recv")) is None
    assert internal_functions(-1, False, (None, "textsend", "textin", "textrecv")) is None
    assert internal_functions(-1, False, ("array_out", "textsend", "textin", "textrecv")) is None


def test_values_are_those_of_the_built_in_type() -> None:
    mine, point = _type(POINT, 16), built_in_type(600)
    assert point is not None
    values = Values.of_payloads([bytes(16), None], 16)
    assert format_values(values, mine).to_list() == format_values(values, point).to_list() == ["(0,0)", ""]
    sent = format_binary(values, mine)
    assert sent.to_bytes() == format_binary(values, point).to_bytes()
    assert parse_binary(sent, values.valid, mine).payload_list() == values.payload_list()
    assert parse_texts(format_values(values, mine), values.valid, mine).payload_list() == values.payload_list()
    assert quoting(_type(internal_functions(4, True, ("int4out", "", "int4in", "")), 4)) == "quoted"


def test_binary_forms_that_nobody_knows() -> None:
    values = Values.of_payloads([b"a"], -1)
    unsent = _type(internal_functions(-1, False, ("textout", "", "textin", "")))
    assert not has_binary(unsent)
    with pytest.raises(UsageError, match="no binary output function available for type mine"):
        format_binary(values, unsent)
    stranger = _type(internal_functions(-1, False, ("textout", None, "textin", "")))
    assert has_binary(stranger)
    with pytest.raises(UnsupportedWal, match='cannot decode a value of type "mine"'):
        format_binary(values, stranger)
    assert format_values(values, stranger, TextStyle(unknown_types="hex")).to_list() == ["a"]
