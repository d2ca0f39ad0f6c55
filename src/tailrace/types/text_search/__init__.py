"""Full text search: tsvector and tsquery. In Arrow they are strings of their text."""

from __future__ import annotations

from tailrace.types.codec import Codec
from tailrace.types.text_search.tsquery import format_tsqueries, parse_tsqueries, receive_tsqueries, send_tsqueries
from tailrace.types.text_search.tsvector import format_tsvectors, parse_tsvectors, receive_tsvectors, send_tsvectors

TSVECTOR = Codec(format=format_tsvectors, parse=parse_tsvectors, send=send_tsvectors, receive=receive_tsvectors)
TSQUERY = Codec(format=format_tsqueries, parse=parse_tsqueries, send=send_tsqueries, receive=receive_tsqueries)
