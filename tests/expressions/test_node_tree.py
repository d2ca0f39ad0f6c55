"""Stored expressions read from the text that servers keep of them; texts of 15 and 18, recorded."""

from __future__ import annotations

import pytest

from tailrace.errors import UnsupportedWal
from tailrace.expressions import read_node_tree, tree

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
    assert read_node_tree(OF_15) == tree.Operator(521, 147, 16, (tree.Column(1, 23), tree.Constant(23, b"\5\0\0\0")))


def test_an_operator_of_18() -> None:
    column, pattern = tree.Column(2, 25, -1, 100), tree.Constant(25, b"x%", -1, 100)
    assert read_node_tree(OF_18) == tree.Operator(1209, 850, 16, (column, pattern), 0, 100)


def test_locations_are_kept_and_not_compared() -> None:
    found = read_node_tree(OF_15)
    assert [node.location for node in tree.walk(found)] == [71, 70, 72]
    assert tree.columns_of(found) == (1,)


def test_names_with_escapes() -> None:
    found = read_node_tree(XML)
    assert isinstance(found, tree.XmlExpression)
    assert found.arg_names == ("q (x)",)


def test_a_constant_that_is_null() -> None:
    assert read_node_tree(NULL) == tree.Constant(16, None)


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
