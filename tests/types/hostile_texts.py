"""Texts of any kind, and such as have a meaning inside arrays and composite values."""

from __future__ import annotations

from hypothesis import strategies as st

WORDS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
NASTY = st.one_of(
    st.none(), WORDS, st.sampled_from(["", "NULL", "null", '"', "\\", "{", "}", ",", " ", "\t", "(", ")", "[", "é\\"])
)
