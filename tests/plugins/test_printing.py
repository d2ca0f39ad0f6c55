"""Rows as JSON are what a JSON parser makes the same rows of."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tailrace.model import Lsn
from tailrace.plugins.lines import Lines
from tailrace.plugins.printing import as_json_rows, as_lines, as_psql, few_at_a_time
from tailrace.plugins.test_decoding import TestDecoding
from tailrace.types.values import Texts

TEXTS = [
    "BEGIN 5", "", '"', "\\", "\\\"'", "".join(map(chr, range(1, 0x250))), "é\u2028𝄞", "tab\tline\nfeed\r\n", "\x1f" * 100, "0" * 5000,
]  # fmt: skip
LSNS = [0, 1, 0x9_0000000A, 0xFFFFFFFF, 1 << 32, 2**63 - 1, 0x10, 0xABCDEF, 5, 6]
XIDS = [0, 1, 9, 10, 99, 100, 2**31, 2**32 - 1, 7, 8]


def lines_of(texts: list[bytes]) -> Lines:
    offsets = np.cumsum([0, *map(len, texts)])
    data = np.frombuffer(b"".join(texts), np.uint8)
    lsns, xids = np.array(LSNS[: len(texts)], np.int64), np.array(XIDS[: len(texts)], np.uint32)
    return Lines(lsns, xids, Texts(offsets, data), np.arange(len(texts)) + 1, np.zeros(0, np.int64), lsns)


def parsed(rows: bytes) -> list[tuple[str, int, str]]:
    return [(row["lsn"], row["xid"], row["data"]) for row in map(json.loads, rows.decode().removesuffix("\n").split("\n"))]


def test_rows_as_json() -> None:
    rows = as_json_rows(lines_of([text.encode() for text in TEXTS]), TestDecoding()).tobytes()
    assert parsed(rows) == [(str(Lsn(lsn)), xid, text) for lsn, xid, text in zip(LSNS, XIDS, TEXTS, strict=True)]
    # Escaped is what must be, and nothing else.
    assert rows.decode().split("\n")[6] == json.dumps(
        {"lsn": str(Lsn(LSNS[6])), "xid": XIDS[6], "data": TEXTS[6]}, ensure_ascii=False
    )


def test_rows_as_lines() -> None:
    assert as_lines(lines_of([text.encode() for text in TEXTS]), TestDecoding()).tobytes().decode() == "".join(
        f"{text}\n" for text in TEXTS
    )


def test_they_hold_what_psql_shows() -> None:
    """Text ends at a zero byte, and binary output is in hex, in either form."""
    plugin = TestDecoding()
    for options, shown in ({}, ["a", "b"]), ({"force-binary": "1"}, ["\\x6100632263", "\\x62"]):
        plugin.startup(options, 16)
        lines = lines_of([b'a\0c"c', b"b"])
        assert [data for _, _, data in parsed(as_json_rows(lines, plugin).tobytes())] == shown
        psql = as_psql(lines, plugin).tobytes().decode()
        assert [row.split("\t")[2] for row in psql.splitlines()] == shown


def test_printed_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is printed at once, the same comes out, and ends stay behind the same rows."""
    lines = lines_of([text.encode() for text in TEXTS])
    whole = as_psql(lines, TestDecoding()).tobytes()
    for at_once in (1, 7, 100, 1000, 1 << 20):
        monkeypatch.setattr("tailrace.plugins.printing._PRINTED_AT_ONCE", at_once)
        few = list(few_at_a_time(lines))
        assert b"".join(as_psql(each, TestDecoding()).tobytes() for each in few) == whole
        assert sum(len(each.ends) for each in few) == len(lines.ends)
        assert all(each.ends.max(initial=0) <= len(each) for each in few)
    monkeypatch.setattr("tailrace.plugins.printing._PRINTED_AT_ONCE", 100)
    assert len(list(few_at_a_time(lines))) > 2


def test_end_to_end_grows_as_it_must() -> None:
    parts = [Texts.of([text, "x"]) for text in TEXTS]
    for room in (0, 1, 1000, 1 << 16):
        whole = Texts.concatenated(iter(parts), room)
        assert whole.data.tobytes() == b"".join(part.data.tobytes() for part in parts)
        assert np.diff(whole.offsets).tolist() == [len(text.encode()) for each in TEXTS for text in (each, "x")]
    assert Texts.concatenated(iter(parts[:1]), 0) is parts[0]
    assert len(Texts.concatenated(iter([]), 0)) == 0
