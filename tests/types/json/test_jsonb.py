"""jsonb: any tree there and back."""

from __future__ import annotations

import json

from hostile_texts import WORDS
from hypothesis import given
from hypothesis import strategies as st
from types_vectors import pg_type, stored

from tailrace.types.registry import format_values

TREES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(10**30), 10**30), WORDS),
    lambda inner: st.one_of(st.lists(inner, max_size=40), st.dictionaries(WORDS, inner, max_size=40)),
    max_leaves=100,
)


@given(st.lists(TREES, max_size=4))
def test_json_trees_survive(trees: list[object]) -> None:
    texts = format_values(stored("jsonb", *(json.dumps(tree) for tree in trees)), pg_type("jsonb")).to_list()
    assert [json.loads(text) for text in texts] == trees
    assert format_values(stored("jsonb", *texts), pg_type("jsonb")).to_list() == texts
