"""What a filter does beyond giving rows: which errors it raises and when, and what it refuses."""

from __future__ import annotations

import pickle
from decimal import Decimal

import numpy as np
import pytest

from tailrace.errors import CorruptWal, UsageError
from tailrace.expressions import tree
from tailrace.expressions.evaluate import Facts, Refused, compile_filter
from tailrace.model import Column
from tailrace.types.built_in import built_in_type
from tailrace.types.numbers.numeric.text import parse_numeric
from tailrace.types.values import Values

INT4, TEXT, BOOL = 23, 25, 16
GREATER, DIVIDE, LESS_TEXT, EQUAL_TEXT, LIKE, UPPER, LOWER_RANGE = 147, 154, 740, 67, 850, 871, 3848
TEXT_TO_CHAR, EQUAL_CHAR, CHAR = 944, 61, 18
A, T = tree.Var(1, INT4), tree.Var(2, TEXT, collation=100)


def columns() -> list[Column]:
    integer, text = built_in_type(INT4), built_in_type(TEXT)
    return [Column(1, "a", integer, -1, 4, 4), Column(2, "t", text, -1, -1, 4)]


def integer(value: int) -> tree.Const:
    return tree.Const(INT4, value.to_bytes(4, "little", signed=True))


def text(value: str) -> tree.Const:
    return tree.Const(TEXT, value.encode(), collation=100)


def over(value: int) -> tree.OpExpr:
    """value / a > 1"""
    return tree.OpExpr(0, GREATER, BOOL, (tree.OpExpr(0, DIVIDE, INT4, (integer(value), A)), integer(1)))


def rows(numbers: list[int | None], texts: list[str | None] | None = None) -> dict[int, Values]:
    stored = [None if each is None else each.to_bytes(4, "little", signed=True) for each in numbers]
    return {
        1: Values.of_payloads(stored, 4),
        2: Values.of_payloads([None if each is None else each.encode() for each in texts or [None] * len(numbers)], -1),
    }


def test_null_does_not_match() -> None:
    found = compile_filter(tree.OpExpr(0, GREATER, BOOL, (A, integer(5))), columns())
    assert found.matches(rows([4, None, 6]), 3).tolist() == [False, False, True]
    assert found.columns == (1,)


def test_a_filter_travels_to_other_processes() -> None:
    found = pickle.loads(pickle.dumps(compile_filter(tree.OpExpr(0, GREATER, BOOL, (A, integer(5))), columns())))
    assert found.matches(rows([4, 6]), 2).tolist() == [False, True]


def test_an_error_is_raised_with_the_servers_words() -> None:
    found = compile_filter(over(10), columns())
    with pytest.raises(UsageError, match="division by zero") as caught:
        found.matches(rows([1, 2, 0, 3]), 4)
    assert caught.value.sqlstate == "22012"


def test_a_guard_keeps_the_other_side_from_rows_that_it_excludes() -> None:
    guarded = tree.And((tree.OpExpr(0, 144, BOOL, (A, integer(0))), over(10)))  # int4ne
    assert compile_filter(guarded, columns()).matches(rows([0, 4, 20, None]), 4).tolist() == [False, True, False, False]


def test_the_first_row_with_an_error_says_which() -> None:
    """a + max fails with one error, 1 / a with another; what the first bad row does is raised, though the column as a whole fails otherwise."""
    added = tree.OpExpr(0, GREATER, BOOL, (tree.OpExpr(0, 177, INT4, (A, integer(2147483647))), integer(0)))
    either = tree.Or((tree.OpExpr(0, GREATER, BOOL, (integer(0), integer(1))), tree.And((added, over(1)))))
    found = compile_filter(either, columns())
    with pytest.raises(UsageError, match="division by zero"):
        found.matches(rows([0, 5]), 2)
    with pytest.raises(UsageError, match="integer out of range"):
        found.matches(rows([5, 0]), 2)


def test_an_error_in_a_constant_is_one_of_the_first_row() -> None:
    constant = tree.OpExpr(0, GREATER, BOOL, (tree.OpExpr(0, DIVIDE, INT4, (integer(1), integer(0))), A))
    found = compile_filter(constant, columns())
    assert found.matches(rows([]), 0).tolist() == []
    with pytest.raises(UsageError, match="division by zero"):
        found.matches(rows([1]), 1)


def test_what_false_excludes_is_not_even_planned() -> None:
    failing = tree.OpExpr(0, GREATER, BOOL, (tree.OpExpr(0, DIVIDE, INT4, (integer(1), integer(0))), A))
    found = compile_filter(tree.And((tree.Const(BOOL, b"\0"), failing)), columns())
    assert found.matches(rows([1]), 1).tolist() == [False]


FRENCH = Facts(collate="fr_FR.UTF-8", ctype="fr_FR.UTF-8")


def test_an_order_of_texts_that_is_not_known_is_refused() -> None:
    less = tree.OpExpr(0, LESS_TEXT, BOOL, (T, text("b")), input_collation=100)
    assert compile_filter(less, columns()).matches(rows([None] * 2, ["a", "c"]), 2).tolist() == [True, False]
    with pytest.raises(Refused, match="fr_FR"):
        compile_filter(less, columns(), FRENCH)
    explicit = tree.OpExpr(0, LESS_TEXT, BOOL, (tree.CollateExpr(T, 950), text("b")), input_collation=950)
    assert compile_filter(explicit, columns(), FRENCH).matches(rows([None] * 2, ["a", "c"]), 2).tolist() == [True, False]


def test_equality_of_texts_needs_no_collation() -> None:
    equal = tree.OpExpr(0, EQUAL_TEXT, BOOL, (T, text("é")), input_collation=100)
    assert compile_filter(equal, columns(), FRENCH).matches(rows([None] * 2, ["é", "e"]), 2).tolist() == [True, False]


def test_letters_that_are_not_known_are_refused_where_they_come() -> None:
    upper = tree.FuncExpr(UPPER, TEXT, (T,), collation=100, input_collation=100)
    found = compile_filter(tree.OpExpr(0, EQUAL_TEXT, BOOL, (upper, text("A")), input_collation=100), columns(), FRENCH)
    assert found.matches(rows([None] * 2, ["a", "b"]), 2).tolist() == [True, False]
    with pytest.raises(Refused, match="letters beyond ASCII"):
        found.matches(rows([None], ["é"]), 1)
    turkish = Facts(ctype="tr_TR.UTF-8")
    with pytest.raises(Refused, match="function upper"):
        compile_filter(tree.OpExpr(0, EQUAL_TEXT, BOOL, (upper, text("A")), input_collation=100), columns(), turkish).matches(
            rows([None], ["i"]), 1
        )


def test_of_texts_in_other_encodings_some_functions_are_known() -> None:
    latin = Facts(encoding="LATIN1")
    equal = tree.OpExpr(0, EQUAL_TEXT, BOOL, (T, tree.Const(TEXT, b"\xe9", collation=100)), input_collation=100)
    values = {2: Values.of_payloads([b"\xe9", b"e"], -1)}
    assert compile_filter(equal, columns(), latin).matches(values, 2).tolist() == [True, False]
    upper = tree.OpExpr(
        0, EQUAL_TEXT, BOOL, (tree.FuncExpr(UPPER, TEXT, (T,), input_collation=100), text("E")), input_collation=100
    )
    assert compile_filter(upper, columns(), latin).matches(values, 2).tolist() == [False, True]
    letter = tree.FuncExpr(TEXT_TO_CHAR, CHAR, (T,))
    with pytest.raises(Refused, match="whose encoding is LATIN1"):
        compile_filter(tree.OpExpr(0, EQUAL_CHAR, BOOL, (letter, letter)), columns(), latin)


def test_a_function_that_is_not_evaluated_is_refused_by_name() -> None:
    parsed = tree.FuncExpr(3053, BOOL, (tree.Const(TEXT, b"<a/>"),))
    with pytest.raises(Refused, match=r"function xml_is_well_formed_content\(text\)"):
        compile_filter(parsed, columns())


def test_a_column_that_was_dropped_or_changed_is_refused() -> None:
    with pytest.raises(Refused, match="column number 3"):
        compile_filter(tree.NullTest(tree.Var(3, INT4), False), columns())
    with pytest.raises(Refused, match="column number 1"):
        compile_filter(tree.NullTest(tree.Var(1, TEXT), False), columns())


def test_a_filter_is_boolean() -> None:
    with pytest.raises(UsageError, match="argument of PUBLICATION WHERE must be type boolean, not type integer"):
        compile_filter(A, columns())


def test_many_rows_at_once() -> None:
    numbers = np.arange(100_000, dtype="<i4")
    values = {1: Values(np.ones(len(numbers), np.bool_), fixed=numbers.view(np.uint8).reshape(-1, 4))}
    found = compile_filter(
        tree.ScalarArrayOpExpr(96, 65, True, (A, tree.ArrayExpr(1007, INT4, (integer(3), integer(99_999))))), columns()
    )
    assert np.flatnonzero(found.matches(values, len(numbers))).tolist() == [3, 99_999]


NUMERIC, NUMERIC_GREATER, NUMERIC_ADD = 1700, 1720, 1724


@pytest.mark.parametrize("stored", [b"", b"\0", b"\0\0"], ids=["nothing", "half a header", "no weight"])
@pytest.mark.parametrize("computed", [False, True], ids=["compared", "computed"])
def test_a_value_that_is_none_of_its_type(stored: bytes, computed: bool) -> None:
    """By a kernel over what is stored, and by Python over what was read of it."""
    column, one = tree.Var(1, NUMERIC), tree.Const(NUMERIC, b"\0\x80\1\0")
    left = tree.OpExpr(0, NUMERIC_ADD, NUMERIC, (column, one)) if computed else column
    found = compile_filter(
        tree.OpExpr(0, NUMERIC_GREATER, BOOL, (left, one)), [Column(1, "n", built_in_type(NUMERIC), -1, -1, 4)]
    )
    values = Values.of_payloads([b"\0\x80\2\0", stored], -1)
    with pytest.raises(CorruptWal, match='of type "numeric" that is none'):
        found.matches({1: values}, 2)


def test_numerics_are_compared_as_they_are_stored() -> None:
    """Of any sign, weight and scale, with the infinities, and NaN above all (`cmp_numerics`)."""
    texts = ["-Infinity", "-100000000", "-10000.5", "-1", "-0.00010", "-0.0001", "0", "0.000", "1e-20", "0.5", "9999", "10000.0", "10000.00001",
             "1e40", "Infinity", "NaN"]  # fmt: skip
    order = ["-Infinity", *sorted(set(map(Decimal, texts[1:-2]))), "Infinity", "NaN"]
    rank = [order.index(text if text in order else Decimal(text)) for text in texts]
    stored = [*map(parse_numeric, texts), None]
    pairs = [(left, right) for left in range(len(stored)) for right in range(len(stored))]
    lefts, rights = ([stored[pair[side]] for pair in pairs] for side in (0, 1))
    number = [Column(attnum, name, built_in_type(NUMERIC), -1, -1, 4) for attnum, name in ((1, "l"), (2, "r"))]
    greater = tree.OpExpr(0, NUMERIC_GREATER, BOOL, (tree.Var(1, NUMERIC), tree.Var(2, NUMERIC)))
    found = compile_filter(greater, number).matches(
        {1: Values.of_payloads(lefts, -1), 2: Values.of_payloads(rights, -1)}, len(pairs)
    )
    expected = [len(texts) not in pair and rank[pair[0]] > rank[pair[1]] for pair in pairs]
    assert found.tolist() == expected
