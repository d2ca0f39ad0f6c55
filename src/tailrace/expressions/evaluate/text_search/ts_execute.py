"""Whether a tsquery holds (`adt/tsvector_op.c`, TS_execute and TS_phrase_execute), wherever its lexemes are looked up."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from tailrace.types.text_search.tsquery import AND, NOT, OR, PHRASE, TsQuery

_PLACE = 0x3FFF


class Found(Enum):
    """TSTernaryValue."""

    NO = 0
    YES = 1
    MAYBE = 2


class PhraseMatch(NamedTuple):
    """ExecPhraseData: where a part of a phrase ends, or everywhere else with `negate`; `width` is how many lexemes it has, less one."""

    found: Found
    positions: frozenset[int] = frozenset()
    negate: bool = False
    width: int = 0


NOWHERE, UNCERTAIN = PhraseMatch(Found.NO), PhraseMatch(Found.MAYBE)
CheckCondition = Callable[[TsQuery, bool], PhraseMatch]
"""Looks an operand up, with positions if they are asked for (TSExecuteCallback)."""


def execute(query: TsQuery, check: CheckCondition) -> bool:
    """TS_execute: above phrases no position matters, and one that cannot be told is none."""
    if not query.operator:
        return check(query, False).found is not Found.NO
    assert query.left is not None
    if query.operator == PHRASE:
        return _phrase(query, check).found is Found.YES
    if query.operator == NOT:
        return not execute(query.left, check)
    assert query.right is not None
    if query.operator == AND:
        return execute(query.left, check) and execute(query.right, check)
    return execute(query.left, check) or execute(query.right, check)


def _phrase(query: TsQuery, check: CheckCondition) -> PhraseMatch:
    """TS_phrase_execute."""
    if not query.operator:
        return check(query, True)
    assert query.left is not None
    left = _phrase(query.left, check)
    if query.operator == NOT:
        return _negated(left)
    if left.found is Found.NO and query.operator != OR:
        return NOWHERE
    assert query.right is not None
    right = _phrase(query.right, check)
    if right.found is Found.NO and (query.operator != OR or left.found is Found.NO):
        return NOWHERE
    if Found.MAYBE in (left.found, right.found):
        return UNCERTAIN
    if query.operator == PHRASE:
        mine, other, width = query.distance + right.width, 0, query.distance + left.width + right.width
    else:
        widths = [each.width if each.found is Found.YES else 0 for each in (left, right)]
        width = max(widths)
        mine, other = width - widths[0], width - widths[1]
    return _merged(query.operator, left, right, mine, other, width)


def _negated(inner: PhraseMatch) -> PhraseMatch:
    if inner.found is Found.MAYBE:
        return inner
    if inner.found is Found.NO:
        return PhraseMatch(Found.YES, negate=True)
    return inner._replace(negate=not inner.negate) if inner.positions else NOWHERE


def _merged(operator: int, left: PhraseMatch, right: PhraseMatch, mine: int, other: int, width: int) -> PhraseMatch:
    """TS_phrase_output: the positions of both, moved to where the whole ends, put together as the operator and the negations say."""
    lefts, rights = {place + mine for place in left.positions}, {place + other for place in right.positions}
    negate = left.negate or right.negate if operator == OR else left.negate and right.negate
    if left.negate and right.negate:
        kept = lefts & rights if operator == OR else lefts | rights
    elif left.negate:
        kept = lefts - rights if operator == OR else rights - lefts
    elif right.negate:
        kept = rights - lefts if operator == OR else lefts - rights
    else:
        kept = lefts | rights if operator == OR else lefts & rights
    if not kept and not negate:
        return NOWHERE
    return PhraseMatch(Found.YES, frozenset(place & _PLACE for place in kept), negate, width)
