"""Row filters as servers read them: the same tree, the same text, or the same refusal, of each of hundreds and of every major that has them."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from pglast.parser import parse_sql
from recorded_filters import (  # type: ignore[import-not-found]
    BEFORE,
    MAJORS,
    REFUSED_BY_US,
    answer,
    columns,
    every_filter,
    families,
    prepare,
    recorded,
    recorded_session,
    session_and_relation,
)

from support.sampling import some_of
from support.servers import Server
from tailrace.errors import UsageError
from tailrace.expressions import tree
from tailrace.expressions.analysis.parsing import constants_of
from tailrace.expressions.analysis.where_clause import analyse
from tailrace.expressions.deparse import deparse
from tailrace.expressions.expression_session import ExpressionSession
from tailrace.expressions.node_tree import read_node_tree
from tailrace.model import Column, Relation
from tailrace.types.built_in import built_in_type
from tailrace.types.style import TextStyle

OLDER_GRAMMAR = {
    "jb IS JSON",
    "t IS JSON OBJECT",
    "JSON_EXISTS(jb, '$.a')",
    "JSON_VALUE(jb, '$.a') = 'x'",
    "JSON_ARRAY(1, 2) IS NULL",
    "t = system_user",
}
"""What the grammar of 18 reads otherwise than that of a major before 17; it is refused by both."""
WITHOUT_DETAIL = {"jb = '{bad'", "ai = '{1'"}
"""Input functions whose message we have, but not their detail."""


def test_enough_is_compared() -> None:
    accepted = [len([each for each in recorded()[str(major)]["answers"].values() if "prqual" in each]) for major in MAJORS]
    kinds = {tuple(each["error"][:3]) for each in recorded()["18"]["answers"].values() if "error" in each}
    assert min(accepted) > 700
    assert len({(sqlstate, detail) for sqlstate, _, detail in kinds}) >= 25
    assert len(kinds) > 150
    assert set(every_filter()) == set(recorded()["18"]["answers"])


@pytest.mark.parametrize("major", some_of([pytest.param(each, id=str(each)) for each in MAJORS], 2))
def test_trees_texts_and_refusals_are_those_of_the_server(major: int) -> None:
    session, relation = recorded_session(major)
    wrong = {
        where: (found, told)
        for where, told in recorded()[str(major)]["answers"].items()
        if (found := compared(where, told, session, relation)) is not None
    }
    assert wrong == {}


def compared(where: str, told: dict[str, Any], session: ExpressionSession, relation: Relation) -> Any:
    """What we say that the server does not; None if we agree."""
    try:
        found = analyse(where, relation, session)
    except UsageError as error:
        if where in REFUSED_BY_US or (where in OLDER_GRAMMAR and session.major < 17 and "error" in told):
            return None
        said = [error.sqlstate, error.message, error.detail, error.hint, error.position]
        wanted = list(told.get("error", ()))
        if where in WITHOUT_DETAIL:
            assert wanted[2]
            wanted[2] = ""
        return None if said == wanted else said
    assert where not in REFUSED_BY_US, "no longer refused"
    if "prqual" not in told:
        return found
    text = deparse(found, relation, session)
    return None if found == read_node_tree(told["prqual"]) and text == told["text"] else (found, text)


@pytest.mark.parametrize("major", MAJORS)
def test_the_text_of_a_tree_is_read_as_what_prints_so_again(major: int) -> None:
    session, relation = recorded_session(major)
    answers = recorded()[str(major)]["answers"].items()
    texts = [told["text"] for where, told in answers if "text" in told and where not in REFUSED_BY_US]
    unstable = [text for text in texts if deparse(analyse(text, relation, session), relation, session) != text]
    assert len(unstable) == 3  # OR and AND within their like, as IN, IS DISTINCT FROM and BETWEEN make them, are read as one


def _compare_live(major: int) -> None:
    with Server(major) as server, server.connect() as connection:
        prepare(connection)
        ucs_basic = int(server.value("SELECT oid FROM pg_collation WHERE collname = 'ucs_basic'"))
        session, relation = session_and_relation(major, columns(connection), ucs_basic)
        answers = {where: answer(connection, where) for where in every_filter()}
    wrong = {where: found for where, told in answers.items() if (found := compared(where, told, session, relation)) is not None}
    assert wrong == {}


@pytest.mark.matrix
@pytest.mark.parametrize("major", MAJORS)
def test_a_running_server_says_the_same(major: int) -> None:
    _compare_live(major)


@pytest.mark.postgres
@pytest.mark.parametrize("major", [each if each == 18 else pytest.param(each, marks=pytest.mark.matrix) for each in MAJORS])
def test_the_form_with_few_parentheses(major: int) -> None:
    """pg_get_expr(…, true) of every filter that a server takes."""
    taken = [
        where for where, told in recorded()[str(major)]["answers"].items() if "prqual" in told and where not in REFUSED_BY_US
    ]
    wrong = {}
    with Server(major) as server, server.connect() as connection:
        prepare(connection)
        ucs_basic = int(server.value("SELECT oid FROM pg_collation WHERE collname = 'ucs_basic'"))
        session, relation = session_and_relation(major, columns(connection), ucs_basic)
        for number, where in enumerate(taken):
            connection.execute(f"CREATE PUBLICATION p{number} FOR TABLE {relation.name} WHERE ({where})".encode())
        shown = connection.execute("SELECT prqual::text, pg_get_expr(prqual, prrelid, true) FROM pg_publication_rel ORDER BY oid")
        for where, (prqual, text) in zip(taken, shown.fetchall(), strict=True):
            found = deparse(read_node_tree(prqual), relation, session, pretty=True)
            if found != text:
                wrong[where] = found, text
    assert wrong == {}


TABLE = Relation(
    16400, "public", "t", "r", "p", "d", 0,
    tuple(Column(number, name, built_in_type(oid), -1, 4, 4, generated=generated) for number, name, oid, generated in (
        (1, "a", 23, ""), (2, "b", 25, ""), (3, "e", 1184, ""), (4, "w", 23, "v"))),
)  # fmt: skip


def test_a_filter_may_come_as_part_of_a_parsed_statement() -> None:
    statement = "CREATE PUBLICATION \"ü\" FOR TABLE t WHERE (a > 5 AND b = 'é'), u WHERE (a = '1.5')"
    (parsed,) = parse_sql(statement)
    first, second = parsed.stmt.pubobjects
    places = constants_of(parsed.stmt, statement)
    found = analyse(first.pubtable.whereClause, TABLE, constants=places)
    assert found == analyse("a > 5 AND b = 'é'", TABLE)
    with pytest.raises(UsageError) as caught:
        analyse(second.pubtable.whereClause, TABLE, constants=places)
    assert statement[(caught.value.position or 0) - 1 :] == "'1.5')"


def test_literals_without_a_zone_are_of_the_sessions() -> None:
    berlin = ExpressionSession(style=TextStyle(time_zone="Europe/Berlin"))
    assert analyse("e > '2020-07-01'", TABLE, berlin) == analyse("e > '2020-07-01 00:00+02'", TABLE)
    assert deparse(analyse("e > '2020-01-01'", TABLE, berlin), TABLE, berlin) == (
        "(e > '2020-01-01 00:00:00+01'::timestamp with time zone)"
    )


def test_a_sign_that_means_something_else_in_sql_standard_is_refused() -> None:
    with pytest.raises(UsageError, match='cannot read "-1 2:03:04" as interval'):
        analyse("interval '-1 2:03:04' > '1 day'", TABLE, ExpressionSession(style=TextStyle(interval_style="sql_standard")))


def test_virtual_generated_columns_are_written_out() -> None:
    twice = analyse("a * 2 > 0", TABLE).args[0]  # type: ignore[union-attr]
    found = analyse("w > 1", TABLE, ExpressionSession(generated={4: twice}))
    assert found == analyse("a * 2 > 1", TABLE)
    with pytest.raises(UsageError, match='the expression of the virtual generated column "w" is not known'):
        analyse("w > 1", TABLE)


def test_what_was_there_before_pg_16_is_told_apart() -> None:
    assert analyse("a > 0x1F", TABLE, ExpressionSession(16)) == analyse("a > 31", TABLE)
    with pytest.raises(UsageError, match="trailing junk after numeric literal") as caught:
        analyse("a > 0x1F", TABLE, ExpressionSession(15))
    assert caught.value.position == 5
    with pytest.raises(UsageError, match="row filters of PostgreSQL 14 are not known"):
        analyse("a > 1", TABLE, ExpressionSession(14))


@pytest.mark.parametrize("where", ["a > 1), (b", "a > 1), TABLE u WHERE (b", "a > 1) WITH (publish = 'insert'", "", "a > 1, b"])
def test_a_filter_is_one_expression(where: str) -> None:
    with pytest.raises(UsageError) as caught:
        analyse(where, TABLE)
    assert caught.value.sqlstate == "42601"


def test_an_error_prints_and_travels_with_its_detail() -> None:
    with pytest.raises(UsageError) as caught:
        analyse("a > 1 AND ctid IS NULL", TABLE)
    assert str(caught.value) == "invalid publication WHERE expression\nDETAIL:  System columns are not allowed."
    travelled = pickle.loads(pickle.dumps(caught.value))
    assert (travelled.detail, travelled.position) == ("System columns are not allowed.", 11)


def test_a_case_begins_on_a_line_of_its_own() -> None:
    case = analyse("CASE WHEN a > 1 THEN true ELSE false END", TABLE)
    assert deparse(case, TABLE) == "\nCASE\n    WHEN (a > 1) THEN true\n    ELSE false\nEND"
    assert isinstance(case, tree.CaseExpr)


def test_the_families_do_not_repeat_each_other() -> None:
    everything = [line for name in ("filters.txt", "forbidden.txt") for lines in families(name).values() for line in lines]
    assert len(everything) == len(set(everything))
    assert BEFORE.endswith("(")
