"""json, which is stored as its text is; jsonb and jsonpath, which are trees. In Arrow they are strings of their text."""

from __future__ import annotations

from tailrace.types.codec import Codec
from tailrace.types.json.jsonb.text import format_jsonbs, parse_jsonbs, receive_jsonbs, send_jsonbs
from tailrace.types.json.jsonpath import format_jsonpaths, refuse_jsonpaths, send_jsonpaths
from tailrace.types.strings import TEXT

JSON = TEXT
JSONB = Codec(format=format_jsonbs, parse=parse_jsonbs, send=send_jsonbs, receive=receive_jsonbs)
JSONPATH = Codec(format=format_jsonpaths, parse=refuse_jsonpaths, send=send_jsonpaths)
