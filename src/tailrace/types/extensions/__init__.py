"""Types of extensions, known by their names: hstore, cube, ltree, lquery, ltxtquery, and pgvector's. (citext is text by another name.)"""

from __future__ import annotations

from tailrace.types.codec import Codec
from tailrace.types.extensions.cube import format_cubes, parse_cubes, receive_cubes, send_cubes
from tailrace.types.extensions.hstore import format_hstores, parse_hstores, receive_hstores, send_hstores
from tailrace.types.extensions.ltree import (
    format_lqueries,
    format_ltrees,
    format_ltxtqueries,
    parse_ltrees,
    receive_trees,
    refuse_queries,
    send_trees,
)
from tailrace.types.extensions.pgvector import (
    arrow_vectors,
    format_sparse,
    format_vectors,
    parse_sparse,
    parse_vectors,
    receive_sparse,
    receive_vectors,
    send_sparse,
    send_vectors,
    vectors_to_arrow,
)

HSTORE = Codec(format=format_hstores, parse=parse_hstores, send=send_hstores, receive=receive_hstores)
CUBE = Codec(format=format_cubes, parse=parse_cubes, send=send_cubes, receive=receive_cubes)
LTREE = Codec(format=format_ltrees, parse=parse_ltrees, send=send_trees, receive=receive_trees)
LQUERY = Codec(format=format_lqueries, parse=refuse_queries, send=send_trees)
LTXTQUERY = Codec(format=format_ltxtqueries, parse=refuse_queries, send=send_trees)
VECTOR = HALFVEC = Codec(
    format=format_vectors, parse=parse_vectors, send=send_vectors, receive=receive_vectors,
    arrow=arrow_vectors, to_arrow=vectors_to_arrow,
)  # fmt: skip
SPARSEVEC = Codec(format=format_sparse, parse=parse_sparse, send=send_sparse, receive=receive_sparse)
