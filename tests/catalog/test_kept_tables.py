"""What was read of catalogs is kept for a window that has the same, and for no other."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np

from support.catalogs import history_of
from tailrace.catalog.rows.catalog_rows import Spans
from tailrace.catalog.rows.kept_tables import KeptTables
from tailrace.catalog.rows.row_versions import Versions

COLUMNS = ("begin", "end", "made_by", "unmade_by")


def test_only_of_just_the_same() -> None:
    versions, spans = Versions.none(), Spans(*(np.arange(3) for _ in COLUMNS))
    kept = KeptTables()
    tables = kept.of(versions, spans)
    tables["pg_class"] = history_of().table("pg_class")
    assert kept.of(versions, replace(spans, **{name: getattr(spans, name).copy() for name in COLUMNS})) is tables
    assert kept == KeptTables()
    assert pickle.loads(pickle.dumps(kept)).of(versions, spans) == {}
    for name in COLUMNS:
        other = replace(spans, **{name: np.full(3, 77)})
        assert kept.of(versions, other) == {}
        kept.of(versions, other)["pg_class"] = tables["pg_class"]
    assert kept.of(versions, spans) == {}
    kept.of(versions, spans)["pg_class"] = tables["pg_class"]
    assert kept.of(Versions.none(), spans) == {}
