"""Whole maps of encodings: every code, as PostgreSQL converts it or refuses it, and as we do."""

from __future__ import annotations

import numpy as np
import pytest

from support.encodings import DIGESTS, MULTIBYTE, NUMBERS, digest, our_map
from support.sampling import some_of
from tailrace.errors import UnsupportedWal, UsageError
from tailrace.types.encodings.conversion import to_utf8
from tailrace.types.encodings.server_encodings import as_stored, codec_named
from tailrace.types.values import Texts


@pytest.mark.parametrize("encoding", some_of([pytest.param(each, id=each) for each in DIGESTS], 3))
def test_converts_every_code_as_the_server(encoding: str) -> None:
    assert digest(our_map(encoding)) == DIGESTS[encoding]


@pytest.mark.parametrize("encoding", MULTIBYTE)
def test_names_come_back_as_they_were(encoding: str) -> None:
    """Through strings and back: the same characters, and bytes that are none stay what they are."""
    codec = codec_named(NUMBERS[encoding])
    codes = [code for code, told in our_map(encoding).items() if told[0] != 0xFF]
    before = Texts.of([code for code in codes if code[0] < 0x80 or len(code) > 1])
    names = [code.decode(codec, "surrogateescape") for code in before.to_bytes()]
    again = Texts.of([as_stored(name, codec) for name in names])
    assert to_utf8(again, codec).to_list() == to_utf8(before, codec).to_list() == names
    assert (
        as_stored(b"a\xff\xa1\xa1\x80".decode(codec, "surrogateescape"), codec).encode("utf-8", "surrogateescape")
        == b"a\xff\xa1\xa1\x80"
    )
    with pytest.raises(UnicodeEncodeError):
        "\u0e01".encode(codec)


def test_a_character_does_not_go_on_in_the_next_text() -> None:
    codec = codec_named(NUMBERS["EUC_JP"])
    with pytest.raises(UsageError, match=r'^invalid byte sequence for encoding "EUC_JP": 0xc6$') as caught:
        to_utf8(Texts.of([b"", b"a\xc6", b"\xfc\xcb"]), codec)
    assert caught.value.sqlstate == "22021"


def test_a_part_of_texts_is_converted() -> None:
    whole = Texts.of(["日本".encode("euc_jp"), b"", "漢字a".encode("euc_jp"), b"b"])
    part = Texts(whole.offsets[2:], whole.data)
    assert to_utf8(part, codec_named(NUMBERS["EUC_JP"])).to_list() == ["漢字a", "b"]
    assert to_utf8(Texts(np.zeros(1, np.int64), whole.data), codec_named(NUMBERS["EUC_JP"])).to_list() == []


def test_what_the_server_does_not_convert() -> None:
    with pytest.raises(UnsupportedWal, match=r"^conversion between UTF8 and MULE_INTERNAL is not supported$"):
        codec_named(7)
