"""Which texts are URLs of stores. It imports nothing that takes time to load, so that a wrong one is refused at once."""

from __future__ import annotations

import re

SCHEMES = ("s3", "gs", "abfss")
MEANT = {
    "s3a": "s3",
    "s3n": "s3",
    "gcs": "gs",
    "abfs": "abfss",
    "az": "abfss",
    "azure": "abfss",
    "adl": "abfss",
    "wasb": "abfss",
    "wasbs": "abfss",
}
"""What others write, and which of ours is meant."""
_URL = re.compile(rf"({'|'.join((*SCHEMES, *MEANT, 'file'))})://", re.IGNORECASE)


def is_store_url(text: str) -> bool:
    """Whether it says that it is one, right or wrong."""
    return _URL.match(text) is not None
