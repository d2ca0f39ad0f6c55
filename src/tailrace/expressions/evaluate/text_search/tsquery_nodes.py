"""A tsquery as a tree whose operators join as many operands as they like, and how two of them compare (`adt/tsquery_util.c`)."""

from __future__ import annotations

from dataclasses import field
from functools import cmp_to_key

from tailrace.dataclass import dataclass
from tailrace.expressions.evaluate.comparison.memcmp import bytes_compared
from tailrace.types.text_search.tsquery import AND, NOT, OR, TsQuery, legacy_crc, read_query


@dataclass(slots=True)
class QTNode:
    """QTNode: an operand, or an operator with as many children as it joins; one that was put in is not looked into (`is_new`)."""

    query: TsQuery
    children: list[QTNode] = field(default_factory=list)
    is_new: bool = False

    @classmethod
    def of_query(cls, query: TsQuery) -> QTNode:
        """QT2QTN: the right operand is the first child."""
        return cls(query, [cls.of_query(each) for each in (query.right, query.left) if each is not None])

    def flattened(self) -> QTNode:
        """QTNTernary and QTNSort."""
        for each in self.children:
            each.flattened()
        operator = self.query.operator
        if operator in (AND, OR):
            self.children = [
                inner for each in self.children for inner in (each.children if each.query.operator == operator else [each])
            ]
        self.sort()
        return self

    def sort(self) -> None:
        for each in self.children:
            each.sort()
        if self.query.operator in (AND, OR):
            self.children.sort(key=cmp_to_key(compare_nodes))

    def to_query(self) -> TsQuery:
        """QTNBinary and QTN2QT."""
        operator = self.query.operator
        if not operator:
            return self.query
        children = [each.to_query() for each in self.children]
        while len(children) > 2:
            children = [TsQuery(operator, left=children[1], right=children[0]), children[-1], *children[2:-1]]
        left, right = (children[0], None) if operator == NOT else (children[1], children[0])
        return TsQuery(operator, self.query.distance, left, right)


def compare_nodes(mine: QTNode, other: QTNode) -> int:
    """QTNodeCompare: operators are behind operands, and what is greater is first."""
    left, right = mine.query, other.query
    if bool(left.operator) != bool(right.operator):
        return -1 if left.operator else 1
    if not left.operator:
        checksums = [crc - (crc >> 31 << 32) for crc in map(legacy_crc, (left.word, right.word))]
        if checksums[0] != checksums[1]:
            return -1 if checksums[0] > checksums[1] else 1
        return bytes_compared(left.word, right.word)
    for one, two in ((left.operator, right.operator), (len(mine.children), len(other.children))):
        if one != two:
            return -1 if one > two else 1
    for pair in zip(mine.children, other.children, strict=True):
        if found := compare_nodes(*pair):
            return found
    return (left.distance < right.distance) - (left.distance > right.distance)


def compare_queries(left: bytes, right: bytes) -> int:
    """The same of two that are stored; an empty one is before all."""
    queries = [read_query(each) for each in (left, right)]
    if None in queries:
        return (queries[0] is not None) - (queries[1] is not None)
    return compare_nodes(*(QTNode.of_query(each) for each in queries if each is not None))
