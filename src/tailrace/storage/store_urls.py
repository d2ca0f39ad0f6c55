"""Which texts are URLs of stores. It imports nothing that takes time to load, so that a wrong one is refused at once."""

from __future__ import annotations

import re

from tailrace.storage.store_kinds import STORE_KINDS

MEANT = {other: scheme for scheme, kind in STORE_KINDS.items() for other in kind.also}
"""What others write, and which of ours is meant."""
_URL = re.compile(rf"({'|'.join((*STORE_KINDS, *MEANT, 'file'))})://", re.IGNORECASE)


def is_store_url(text: str) -> bool:
    """Whether it says that it is one, right or wrong."""
    return _URL.match(text) is not None
