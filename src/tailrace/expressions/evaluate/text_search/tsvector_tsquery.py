"""tsvector and tsquery (`adt/tsvector_op.c`, `adt/tsquery_op.c`): what needs neither a dictionary nor a parser of documents.

A tsquery is its stored form. A tsvector is its lexemes in their stored order, each (word, positions); a position is the place in its low 14 bits,
the weight above.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tailrace.expressions.evaluate.fmgr.array_and_record import Array
from tailrace.expressions.evaluate.fmgr.function_calls import Implementation, rows
from tailrace.expressions.evaluate.fmgr.refusals import evaluation_error
from tailrace.expressions.evaluate.text_search.ts_execute import NOWHERE, UNCERTAIN, Found, PhraseMatch, execute
from tailrace.expressions.evaluate.text_search.tsquery_nodes import compare_queries
from tailrace.types import oids
from tailrace.types.text_search.tsquery import AND, NOT, OR, PHRASE, TsQuery, read_query, write_query
from tailrace.types.text_search.tsvector import write_lexemes

Lexeme = tuple[bytes, tuple[int, ...]]
Vector = list[Lexeme]
WEIGHTS = {"A": 3, "B": 2, "C": 1, "D": 0}
PLACE = 0x3FFF
_MOST_POSITIONS, _MOST_BYTES = 256, (1 << 20) - 1
"""MAXNUMPOS and MAXSTRPOS (`tsearch/ts_type.h`)."""


def _text(word: bytes) -> str:
    return word.decode("utf-8", "surrogateescape")


def _raw(word: str) -> bytes:
    return word.encode("utf-8", "surrogateescape")


def _weight(letter: int) -> int:
    found = WEIGHTS.get(chr(letter).upper())
    if found is None:
        raise evaluation_error(f"unrecognized weight: {letter if letter < 128 else letter - 256}", "XX000")
    return found


def _set_weight(vector: Vector, letter: int) -> Vector:
    weight = _weight(letter)
    return [(word, tuple(place & PLACE | weight << 14 for place in places)) for word, places in vector]


def _set_weight_of(vector: Vector, letter: int, words: Array) -> Vector:
    if chr(letter).upper() not in WEIGHTS:
        raise evaluation_error(f"unrecognized weight: {chr(letter)}", "XX000")
    weight, chosen = _weight(letter), {_raw(word) for word in words.items if word is not None}
    return [
        (word, tuple(place & PLACE | weight << 14 for place in places) if word in chosen else places) for word, places in vector
    ]


def _filtered(vector: Vector, letters: Array) -> Vector:
    """Lexemes with a position of one of the weights, and only these positions."""
    wanted = set()
    for letter in letters.items:
        if letter is None:
            raise evaluation_error("weight array may not contain nulls", "22004")
        found = WEIGHTS.get(chr(letter).upper())
        if found is None:
            raise evaluation_error(f'unrecognized weight: "{chr(letter)}"', "22023")
        wanted.add(found)
    kept = [(word, tuple(place for place in places if place >> 14 in wanted)) for word, places in vector]
    return [(word, places) for word, places in kept if places]


def _deleted(vector: Vector, words: Array) -> Vector:
    gone = {_raw(word) for word in words.items if word is not None}
    return [each for each in vector if each[0] not in gone]


def _array_to_vector(words: Array) -> Vector:
    if None in words.items:
        raise evaluation_error("lexeme array may not contain nulls", "22004")
    if "" in words.items:
        raise evaluation_error("lexeme array may not contain empty strings", "2200F")
    return [(word, ()) for word in sorted({_raw(word) for word in words.items})]


def _concatenated(left: Vector, right: Vector) -> Vector:
    """`||`: positions of the right one count on from the last of the left one, as far as there is room (`add_pos`)."""
    furthest = max((place & PLACE for _, places in left for place in places), default=0)
    found = dict(left)
    for word, places in right:
        kept = list(found.get(word, ()))
        for place in places:
            if len(kept) >= _MOST_POSITIONS or (kept and kept[-1] & PLACE == PLACE):
                break
            kept.append(place & ~PLACE | min((place & PLACE) + furthest, PLACE))
        found[word] = tuple(kept)
    return checked_size(sorted(found.items()))


def checked_size(vector: Vector) -> Vector:
    size = len(write_lexemes(vector)) - 4 - 4 * len(vector)
    if size > _MOST_BYTES:
        raise evaluation_error(f"string is too long for tsvector ({size} bytes, max {_MOST_BYTES} bytes)", "54000")
    return vector


# -- matching ----------------------------------------------------------------------------------------------------------------------


def candidates(vector: Vector, query: TsQuery) -> list[Lexeme]:
    if query.prefix:
        return [each for each in vector if each[0].startswith(query.word)]
    return [each for each in vector if each[0] == query.word]


def _check(vector: Vector, operand: TsQuery, positions: bool) -> PhraseMatch:
    """checkcondition_str. Lexemes without positions are of every weight, and nowhere for certain."""
    lexemes = candidates(vector, operand)
    if not positions:
        there = any(not places or _of_weights(places, operand.weights) for _, places in lexemes)
        return PhraseMatch(Found.YES) if there else NOWHERE
    if any(not places for _, places in lexemes):
        return UNCERTAIN
    found = frozenset(place & PLACE for _, places in lexemes for place in _of_weights(places, operand.weights))
    return PhraseMatch(Found.YES, found) if found else NOWHERE


def _of_weights(places: tuple[int, ...], weights: int) -> tuple[int, ...]:
    return tuple(place for place in places if weights >> (place >> 14) & 1) if weights else places


def _match(vector: Vector, stored: bytes) -> bool:
    """@@."""
    query = read_query(stored)
    return query is not None and execute(query, partial(_check, vector))


# -- queries -----------------------------------------------------------------------------------------------------------------------


def _joined(operator: int, distance: int = 0) -> Callable[[bytes, bytes], bytes]:
    def run(left: bytes, right: bytes) -> bytes:
        one, two = read_query(left), read_query(right)
        if one is None or two is None:
            return right if one is None else left
        return write_query(TsQuery(operator, distance, left=one, right=two))

    return run


def _phrase(left: bytes, right: bytes, distance: int) -> bytes:
    if not 0 <= distance <= 16384:
        raise evaluation_error("distance in phrase operator must be an integer value between zero and 16384 inclusive", "22023")
    return _joined(PHRASE, distance)(left, right)


def _nodes(query: TsQuery | None) -> int:
    if query is None:
        return 0
    return 1 + _nodes(query.left) + _nodes(query.right)


def _words(query: TsQuery | None) -> set[bytes]:
    if query is None:
        return set()
    return {query.word} if not query.operator else _words(query.left) | _words(query.right)


def _negated(stored: bytes) -> bytes:
    query = read_query(stored)
    return stored if query is None else write_query(TsQuery(NOT, left=query))


def _same(left: bytes, right: bytes) -> bool:
    """Comparisons do not look at weights and marks of prefixes."""
    return compare_queries(left, right) == 0


def _safe(function: Callable[..., Any]) -> Implementation:
    return rows(function, True)


FUNCTIONS: dict[str, Implementation] = {
    "tsvector_length": _safe(len), "tsvector_strip": _safe(lambda vector: [(word, ()) for word, _ in vector]),
    "tsvector_to_array": _safe(lambda vector: Array.of_list([_text(word) for word, _ in vector], oids.TEXT)),
    "tsvector_setweight": rows(_set_weight),
    "tsvector_setweight_by_filter": rows(_set_weight_of), "tsvector_filter": rows(_filtered),
    "tsvector_delete_str": _safe(lambda vector, word: [each for each in vector if each[0] != _raw(word)]), "tsvector_delete_arr": _safe(_deleted),
    "tsvector_concat": rows(_concatenated), "array_to_tsvector": rows(_array_to_vector), "tsvector_eq": _safe(lambda left, right: left == right),
    "tsvector_ne": _safe(lambda left, right: left != right), "ts_match_vq": rows(_match), "ts_match_qv": rows(lambda query, vector: _match(vector,
    query)),
    "tsquery_and": _safe(_joined(AND)), "tsquery_or": _safe(_joined(OR)), "tsquery_not": _safe(_negated), "tsquery_phrase": _safe(_joined(PHRASE, 1)),
    "tsquery_phrase_distance": rows(_phrase), "tsquery_numnode": _safe(lambda stored: _nodes(read_query(stored))), "tsquery_eq": _safe(_same),
    "tsquery_ne": _safe(lambda left, right: not _same(left, right)), "tsq_mcontains": _safe(lambda left,
    right: _words(read_query(left)) >= _words(read_query(right))),
    "tsq_mcontained": _safe(lambda left, right: _words(read_query(left)) <= _words(read_query(right))),
}  # fmt: skip
