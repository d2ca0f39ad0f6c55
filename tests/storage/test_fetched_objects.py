"""What was fetched a moment ago is not fetched again, as long as there is room for it, and not for long."""

from __future__ import annotations

import time

from tailrace.storage.fetched_objects import FetchedObjects


def test_what_is_kept_and_what_is_fetched_anew() -> None:
    asked: list[str] = []
    kept = FetchedObjects(most_bytes=10, seconds=0.2)

    def get(name: str, size: int = 4) -> bytes:
        def fetch() -> bytes:
            asked.append(name)
            return name.encode() * size

        return kept.get(name, fetch)

    assert [get("a"), get("b"), get("a")] == [b"aaaa", b"bbbb", b"aaaa"]
    assert asked == ["a", "b"]
    get("c")  # for which b goes, which was not asked for since
    get("a")
    assert asked == ["a", "b", "c"]
    get("b")
    assert asked == ["a", "b", "c", "b"]
    assert get("large", 3) == b"largelargelarge"  # more than there is room for
    get("large", 3)
    assert asked[4:] == ["large", "large"]
    get("a")
    time.sleep(0.25)
    get("a")
    assert asked[6:] == ["a", "a"]
