"""ts_rewrite (`adt/tsquery_rewrite.c`, `tsquery_util.c`) and querytree (`tsquery_cleanup.c`)."""

from __future__ import annotations

from tailrace.expressions.evaluate.fmgr.function_calls import Implementation, rows
from tailrace.expressions.evaluate.text_search.tsquery_nodes import QTNode, compare_nodes
from tailrace.types.text_search.tsquery import NOT, OR, TsQuery, format_query, read_query, write_query


def _replaced(node: QTNode, wanted: QTNode, new: TsQuery | None) -> QTNode | None:
    """findeq: the node with what stands for it, or for some of its children, put in; None where that is nothing."""
    if node.query.operator != wanted.query.operator or node.is_new:
        return node
    if len(node.children) == len(wanted.children):
        return node if compare_nodes(node, wanted) else _copy(new)
    if len(node.children) < len(wanted.children) or not wanted.children:
        return node
    kept, matched = [], 0
    for at, each in enumerate(node.children):
        order = 1 if matched == len(wanted.children) else compare_nodes(each, wanted.children[matched])
        if order > 0:
            kept += node.children[at:]
            break
        if order == 0:
            matched += 1
        else:
            kept.append(each)
    if matched == len(wanted.children):
        copy = _copy(new)
        node.children = kept if copy is None else [*kept, copy]
        node.sort()
    return node


def _copy(new: TsQuery | None) -> QTNode | None:
    if new is None:
        return None
    found = QTNode.of_query(new)
    found.is_new = True
    return found


def _substituted(node: QTNode, wanted: QTNode, new: TsQuery | None) -> QTNode | None:
    """dofindsubquery: at the node itself, else below it; an operator that has one child left, or none, goes."""
    found = _replaced(node, wanted, new)
    if found is None or found.is_new or not found.query.operator:
        return found
    children = [_substituted(each, wanted, new) for each in found.children]
    found.children = [each for each in children if each is not None]
    if not found.children:
        return None
    return found.children[0] if len(found.children) == 1 and found.query.operator != NOT else found


def _rewritten(stored: bytes, wanted: bytes, new: bytes) -> bytes:
    query, sought = read_query(stored), read_query(wanted)
    if query is None or sought is None:
        return stored
    found = _substituted(QTNode.of_query(query).flattened(), QTNode.of_query(sought).flattened(), read_query(new))
    return write_query(None if found is None else found.to_query())


def _without_not(query: TsQuery) -> TsQuery | None:
    """clean_NOT_intree: what an index can be asked about."""
    if not query.operator:
        return query
    if query.operator == NOT:
        return None
    assert query.left is not None
    assert query.right is not None
    left, right = _without_not(query.left), _without_not(query.right)
    if left is None or right is None:
        return None if query.operator == OR else left or right
    return TsQuery(query.operator, query.distance, left, right)


def _query_tree(stored: bytes) -> str:
    query = read_query(stored)
    if query is None:
        return ""
    indexable = _without_not(query)
    return "T" if indexable is None else format_query(indexable)


FUNCTIONS: dict[str, Implementation] = {"tsquery_rewrite": rows(_rewritten), "tsquerytree": rows(_query_tree, True)}
