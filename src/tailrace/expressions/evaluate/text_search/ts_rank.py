"""ts_rank and ts_rank_cd (`adt/tsrank.c`): how well a tsvector answers a tsquery, in single precision as there."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from tailrace.expressions.evaluate.fmgr.array_and_record import Array
from tailrace.expressions.evaluate.fmgr.function_calls import Implementation, rows
from tailrace.expressions.evaluate.fmgr.refusals import evaluation_error, refused
from tailrace.expressions.evaluate.text_search.ts_execute import NOWHERE, Found, PhraseMatch, execute
from tailrace.expressions.evaluate.text_search.tsvector_tsquery import PLACE, Vector, candidates
from tailrace.types.text_search.tsquery import AND, PHRASE, TsQuery, read_query

_float4 = np.float32
_DEFAULT_WEIGHTS = (0.1, 0.2, 0.4, 1.0)
_LOG_LENGTH, _LENGTH, _EXTENT_DISTANCE, _UNIQUE, _LOG_UNIQUE, _OVER_ITSELF = 1, 2, 4, 8, 16, 32
"""RANK_NORM_…, bits of how a rank is normalized."""
_NO_POSITIONS = PLACE - 1, 0
"""What stands for the positions of a lexeme without any: in ts_rank of AND, and of OR."""
_STABLE = 6
"""qsort keeps the order of equal operands up to so many."""
Weights = list[np.float32]


def _weights(given: Array | None) -> Weights:
    """getWeights, of D, C, B and A."""
    if given is None:
        return [_float4(each) for each in _DEFAULT_WEIGHTS]
    if len(given.lengths) != 1:
        raise evaluation_error("array of weight must be one-dimensional", "2202E")
    if len(given.items) < len(_DEFAULT_WEIGHTS):
        raise evaluation_error("array of weight is too short", "2202E")
    if None in given.items:
        raise evaluation_error("array of weight must not contain nulls", "22004")
    found = [_float4(each if each >= 0 else usual) for each, usual in zip(given.items, _DEFAULT_WEIGHTS, strict=False)]
    if max(found) > 1.0:
        raise evaluation_error("weight out of range", "22023")
    return found


def _operands(query: TsQuery | None) -> list[TsQuery]:
    """The operands as they are stored: what is right of an operator first."""
    if query is None:
        return []
    return [*_operands(query.right), *_operands(query.left)] if query.operator else [query]


def _unique_operands(query: TsQuery) -> list[TsQuery]:
    """SortAndUniqItems: of equal words the first."""
    operands = _operands(query)
    found: dict[bytes, TsQuery] = {}
    for each in sorted(operands, key=lambda operand: operand.word):
        if found.setdefault(each.word, each).prefix != each.prefix and len(operands) > _STABLE:
            raise refused("a rank by a tsquery that has a word both by itself and as a prefix, among many")
    return list(found.values())


def _length(vector: Vector) -> int:
    return sum(len(places) or 1 for _, places in vector)


def _word_distance(distance: int) -> np.float32:
    return _float4(1e-30) if distance > 100 else _float4(1.0 / (1.005 + 0.05 * math.exp(distance / 1.5 - 2)))


def _rank_and(weights: Weights, vector: Vector, query: TsQuery) -> np.float32:
    operands = _unique_operands(query)
    if len(operands) < 2:
        return _rank_or(weights, vector, query)
    found = _float4(-1.0)
    known: list[tuple[tuple[int, ...], bool]] = []
    for operand in operands:
        mine: tuple[tuple[int, ...], bool] = ((), True)
        for _, places in candidates(vector, operand):
            mine = (places or (_NO_POSITIONS[0],), bool(places))
            for other in known:
                found = _with_pairs(weights, found, mine, other)
        known.append(mine)
    return found


def _with_pairs(
    weights: Weights, found: np.float32, mine: tuple[tuple[int, ...], bool], other: tuple[tuple[int, ...], bool]
) -> np.float32:
    for place in mine[0]:
        for second in other[0]:
            distance = abs((place & PLACE) - (second & PLACE))
            if distance or not (mine[1] and other[1]):
                product = weights[place >> 14] * weights[second >> 14] * _word_distance(distance or PLACE + 1)
                weight = _float4(math.sqrt(product))
                found = weight if found < 0 else _float4(1.0 - (1.0 - float(found)) * (1.0 - float(weight)))
    return found


def _rank_or(weights: Weights, vector: Vector, query: TsQuery) -> np.float32:
    found = _float4(0.0)
    operands = _unique_operands(query)
    for operand in operands:
        for _, places in candidates(vector, operand):
            total, best, at = _float4(0.0), _float4(-1.0), 0
            for number, place in enumerate(places or (_NO_POSITIONS[1],), 1):
                weight = weights[place >> 14]
                total = total + weight / _float4(number * number)
                if weight > best:
                    best, at = weight, number
            found = _float4(float(found) + float(best + total - best / _float4(at * at)) / 1.64493406685)
    return found / _float4(len(operands))


def _rank(weights: Weights, vector: Vector, stored: bytes, method: int = 0) -> float:
    """calc_rank."""
    query = read_query(stored)
    if not vector or query is None:
        return 0.0
    found = (_rank_and if query.operator in (AND, PHRASE) else _rank_or)(weights, vector, query)
    if found < 0:
        found = _float4(1e-20)
    if method & _LOG_LENGTH:
        found = _float4(float(found) / (math.log(_length(vector) + 1) / math.log(2.0)))
    if method & _LENGTH:
        found = found / _float4(_length(vector))
    if method & _UNIQUE:
        found = found / _float4(len(vector))
    if method & _LOG_UNIQUE:
        found = _float4(float(found) / (math.log(len(vector) + 1) / math.log(2.0)))
    if method & _OVER_ITSELF:
        found = found / (found + _float4(1))
    return float(found)


# -- by covers ---------------------------------------------------------------------------------------------------------------------


class _Occurrence(NamedTuple):
    """DocRepresentation: a position of a lexeme, and which operands of the query it answers."""

    place: int
    operands: list[TsQuery]

    @property
    def position(self) -> int:
        return self.place & PLACE


def _occurrences(vector: Vector, query: TsQuery) -> list[_Occurrence]:
    """get_docrep."""
    found: dict[tuple[int, int, bytes], list[TsQuery]] = {}
    for operand in _operands(query):
        for word, places in candidates(vector, operand):
            for place in places:
                if not operand.weights or operand.weights >> (place >> 14) & 1:
                    found.setdefault((place & PLACE, place >> 14, word), []).append(operand)
    return [
        _Occurrence(weight << 14 | position, operands)
        for (position, weight, _), operands in sorted(found.items(), key=lambda each: each[0])
    ]


def _holds(query: TsQuery, seen: dict[int, set[int]], occurrence: _Occurrence) -> bool:
    """Whether the query holds with this occurrence among those that were seen."""
    for operand in occurrence.operands:
        seen.setdefault(id(operand), set()).add(occurrence.position)

    def check(operand: TsQuery, positions: bool) -> PhraseMatch:
        there = seen.get(id(operand))
        return NOWHERE if there is None else PhraseMatch(Found.YES, frozenset(there) if positions else frozenset())

    return execute(query, check)


def _covers(occurrences: list[_Occurrence], query: TsQuery) -> Iterator[tuple[int, int]]:
    """Cover: the shortest stretches of occurrences for which the query holds, one after the other."""
    start = 0
    while True:
        seen: dict[int, set[int]] = {}
        end = next((at for at in range(start, len(occurrences)) if _holds(query, seen, occurrences[at])), None)
        if end is None:
            return
        seen = {}
        begin = next((at for at in range(end, start - 1, -1) if _holds(query, seen, occurrences[at])), None)
        if begin is not None:
            yield begin, end
            start = begin + 1
        else:
            start += 1


def _rank_cd(weights: Weights, vector: Vector, stored: bytes, method: int = 0) -> float:
    """calc_rank_cd."""
    query = read_query(stored)
    occurrences = [] if query is None else _occurrences(vector, query)
    if query is None or not occurrences:
        return 0.0
    inverse = [1.0 / float(each) if each else math.inf for each in weights]
    found = distances = previous = 0.0
    extents = 0
    for begin, end in _covers(occurrences, query):
        total = 0.0
        for each in occurrences[begin : end + 1]:
            total += inverse[each.place >> 14]
        first, last = occurrences[begin].position, occurrences[end].position
        noise = (last - first) - (end - begin)
        found += ((end - begin + 1) / total) / (1 + (noise if noise >= 0 else (end - begin) // 2))
        middle = (last + first) / 2.0
        if extents and middle > previous:
            distances += 1.0 / (middle - previous)
        previous, extents = middle, extents + 1
    if method & _LOG_LENGTH:
        found /= math.log(_length(vector) + 1)
    if method & _LENGTH:
        found /= _length(vector)
    if method & _EXTENT_DISTANCE and extents and distances > 0:
        found /= extents / distances
    if method & _UNIQUE:
        found /= len(vector)
    if method & _LOG_UNIQUE:
        found /= math.log(len(vector) + 1) / math.log(2.0)
    if method & _OVER_ITSELF:
        found /= found + 1
    return float(_float4(found))


def _weighted(rank: Callable[..., float]) -> Implementation:
    return rows(lambda weights, *arguments: rank(_weights(weights), *arguments))


def _plain(rank: Callable[..., float]) -> Implementation:
    return rows(lambda *arguments: rank(_weights(None), *arguments))


FUNCTIONS: dict[str, Implementation] = {
    "ts_rank_wttf": _weighted(_rank), "ts_rank_wtt": _weighted(_rank), "ts_rank_ttf": _plain(_rank), "ts_rank_tt": _plain(_rank),
    "ts_rankcd_wttf": _weighted(_rank_cd), "ts_rankcd_wtt": _weighted(_rank_cd), "ts_rankcd_ttf": _plain(_rank_cd), "ts_rankcd_tt": _plain(_rank_cd),
}  # fmt: skip
