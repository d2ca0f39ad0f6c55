"""Texts of databases that do not know what their bytes mean; and characters of several bytes, for functions that count them."""

from __future__ import annotations

import random

import pytest

from tailrace.errors import UsageError
from tailrace.expressions.evaluate.fmgr.datum_forms import text_codec
from tailrace.types.encodings.conversion import check_utf8, to_utf8
from tailrace.types.encodings.multibyte import FORMS
from tailrace.types.encodings.multibyte_codecs import codec_of
from tailrace.types.encodings.server_encodings import CHECKED
from tailrace.types.values import Texts


@pytest.mark.parametrize(
    ("texts", "shown"),
    [
        ([b"abc", b"\xe9"], "0xe9"), ([b"\xc3\xa9", b"ab\xe9'x"], "0xe9 0x27 0x78"), ([b"\xe6\x97", b"\xa5"], "0xe6 0x97"), ([b"\xff"], "0xff"),
        ([b"\xed\xa0\x80"], "0xed 0xa0 0x80"), ([b"\xf8\x88\x80\x80\x80"], "0xf8"),
    ],
)  # fmt: skip
def test_what_is_no_utf8_is_refused(texts: list[bytes], shown: str) -> None:
    """Text by text: two that make a character together are none."""
    with pytest.raises(UsageError) as raised:
        to_utf8(Texts.of(texts), CHECKED)
    assert (raised.value.message, raised.value.sqlstate) == (f'invalid byte sequence for encoding "UTF8": {shown}', "22021")


def test_what_is_utf8_stays() -> None:
    texts = Texts.of(["", "é日", "", "😀"])
    assert to_utf8(texts, CHECKED) is texts
    check_utf8(texts)


@pytest.mark.parametrize("encoding", FORMS)
def test_characters_are_counted_and_come_back(encoding: str) -> None:
    codec, dice = text_codec(encoding), random.Random(encoding)
    for _ in range(200):
        raw = bytes(dice.choice((0x41, 0x8E, 0x8F, *range(0xA1, 0xFF))) for _ in range(dice.randrange(12)))
        assert raw.decode(codec).encode(codec) == raw
    known = {"EUC_JP": "日本ｱ", "EUC_CN": "中国汉", "EUC_KR": "한국말", "EUC_TW": "中國漢", "EUC_JIS_2004": "日本か゚"}[encoding]
    assert len(known.encode(codec_of(encoding)).decode(codec)) == 3
