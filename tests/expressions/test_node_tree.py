"""Stored expressions read from the text that servers keep of them, and written as that; texts of all majors that have row filters, recorded."""

from __future__ import annotations

import re
from typing import Any

import pytest
from recorded_filters import BEFORE, MAJORS, REFUSED_BY_US, recorded, recorded_session  # type: ignore[import-not-found]

from tailrace.errors import UnsupportedWal
from tailrace.expressions import read_node_tree, tree, write_node_tree
from tailrace.expressions.analysis.catalog import built_in_catalog
from tailrace.expressions.analysis.where_clause import analyse

OF_15 = (
    "{OPEXPR :opno 521 :opfuncid 147 :opresulttype 16 :opretset false :opcollid 0 :inputcollid 0 :args ({VAR :varno 1 :varattno 1 :vartype 23 "
    ":vartypmod -1 :varcollid 0 :varlevelsup 0 :varnosyn 1 :varattnosyn 1 :location 70} {CONST :consttype 23 :consttypmod -1 :constcollid 0 "
    ":constlen 4 :constbyval true :constisnull false :location 72 :constvalue 4 [ 5 0 0 0 0 0 0 0 ]}) :location 71}"
)
OF_18 = (
    "{OPEXPR :opno 1209 :opfuncid 850 :opresulttype 16 :opretset false :opcollid 0 :inputcollid 100 :args ({VAR :varno 1 :varattno 2 :vartype 25 "
    ":vartypmod -1 :varcollid 100 :varnullingrels (b) :varlevelsup 0 :varreturningtype 0 :varnosyn 1 :varattnosyn 2 :location -1} {CONST :consttype "
    "25 :consttypmod -1 :constcollid 100 :constlen -1 :constbyval false :constisnull false :location -1 :constvalue 6 [ 24 0 0 0 120 37 ]}) "
    ":location -1}"
)
XML = (
    "{XMLEXPR :op 2 :name <> :named_args ({VAR :varno 1 :varattno 2 :vartype 25 :vartypmod -1 :varcollid 100 :varlevelsup 0 :varnosyn 1 "
    ":varattnosyn 2 "
    ':location 80}) :arg_names ("q\\ \\(x\\)") :args <> :xmloption 0 :type 142 :typmod -1 :location 70}'
)
NULL = "{CONST :consttype 16 :consttypmod -1 :constcollid 0 :constlen 1 :constbyval true :constisnull true :location 1 :constvalue <>}"


def test_an_operator_of_15() -> None:
    assert read_node_tree(OF_15) == tree.OpExpr(521, 147, 16, (tree.Var(1, 23), tree.Const(23, b"\5\0\0\0")))


def test_an_operator_of_18() -> None:
    column, pattern = tree.Var(2, 25, -1, 100), tree.Const(25, b"x%", -1, 100)
    assert read_node_tree(OF_18) == tree.OpExpr(1209, 850, 16, (column, pattern), 0, 100)


def test_locations_are_kept_and_not_compared() -> None:
    found = read_node_tree(OF_15)
    assert [node.location for node in tree.walk(found)] == [71, 70, 72]
    assert tree.columns_of(found) == (1,)


def test_names_with_escapes() -> None:
    found = read_node_tree(XML)
    assert isinstance(found, tree.XmlExpr)
    assert found.arg_names == ("q (x)",)


def test_a_constant_that_is_null() -> None:
    assert read_node_tree(NULL) == tree.Const(16, None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{PARAM :paramkind 0}", 'unrecognized node "PARAM" in a stored expression'),
        (OF_15.replace(":opretset", ":opnew"), 'unrecognized field "opnew" of node "OPEXPR" in a stored expression'),
        (OF_15[:100], "malformed stored expression"),
        ("", "malformed stored expression"),
        (OF_15 + ")", "malformed stored expression"),
        (OF_15.replace(":varno 1", ":varno 2"), "refers to a row that is not the one tested"),
        (OF_15.replace(":opno 521", ""), "malformed stored expression"),
    ],
)
def test_what_is_not_known_is_refused_by_name(text: str, said: str) -> None:
    with pytest.raises(UnsupportedWal) as caught:
        read_node_tree(text)
    assert said in caught.value.message


def _kept(major: int) -> dict[str, str]:
    """What the server keeps of each filter, by the filter."""
    answers: dict[str, dict[str, Any]] = recorded()[str(major)]["answers"]
    return {where: told["prqual"] for where, told in answers.items() if "prqual" in told}


@pytest.mark.parametrize("major", MAJORS)
def test_what_is_read_is_written_as_the_server_has_it(major: int) -> None:
    wrong = {where: text for where, text in _kept(major).items() if write_node_tree(read_node_tree(text), major) != text}
    assert wrong == {}


@pytest.mark.parametrize("major", MAJORS)
def test_an_analysed_filter_is_written_as_the_server_keeps_it(major: int) -> None:
    """Up to 16 with where its parts stand in the statement."""
    session, relation = recorded_session(major)
    wrong = {}
    for where, text in _kept(major).items():
        if where in REFUSED_BY_US:
            continue
        found = analyse(where, relation, session)
        written = write_node_tree(found, major)
        assert read_node_tree(written) == found
        moved = re.sub(r"(?<=:location )\d+", lambda at: str(int(at[0]) + len(BEFORE)), written)
        if moved != text:
            wrong[where] = moved
    assert wrong == {}


def test_every_node_of_a_filter_is_among_those() -> None:
    seen = {type(node) for text in _kept(18).values() for node in tree.walk(read_node_tree(text))}
    assert seen == set(tree.Expression.__args__) - {tree.SQLValueFunction, tree.OtherCast}  # type: ignore[attr-defined]


def test_what_only_a_default_has_is_not_written() -> None:
    with pytest.raises(TypeError, match='no row filter has a node "OtherCast"'):
        write_node_tree(tree.OtherCast(tree.Var(1, 25), 23, 0), 18)
    with pytest.raises(TypeError, match="no row filter has a constant of the type with OID 16400"):
        write_node_tree(tree.Const(16400, b"1234"), 18)


def test_types_of_constants_are_passed_as_the_catalogs_say() -> None:
    types = built_in_catalog(18).types.values()
    said = {each.oid: write_node_tree(tree.Const(each.oid, None), 18) for each in types}
    assert {each.oid for each in types if f":constbyval {str(each.by_value).lower()} " not in said[each.oid]} == set()


@pytest.mark.parametrize("name", ["", "<>", "<a", '"q"', "1a", "-.5", "+x", "a b(c){d}\\e\nf\tg", "ü"])
def test_names_with_any_character_are_written_and_read_again(name: str) -> None:
    row = tree.RowExpr(2249, (), (name, "x"))
    assert read_node_tree(write_node_tree(row, 18)) == row
    if name:
        element = tree.XmlExpr(4, 142, (), name)
        assert read_node_tree(write_node_tree(element, 18)) == element
