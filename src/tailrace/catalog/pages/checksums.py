"""Checksums of pages (`storage/checksum_impl.h`): FNV-1a in 32 lanes, each of which takes every 32nd word of a page."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.pages.page_layout import PD_CHECKSUM, PD_UPPER
from tailrace.kernels import inner_kernel, kernel
from tailrace.model import PAGE_SIZE

_LANES = 32
_ROUNDS = PAGE_SIZE // 4 // _LANES
_TOGETHER = 8
"""Rounds of one lane behind one another."""
_EMPTY_ROUNDS = 2
"""Rounds of zeros behind those of the page."""
_FNV_PRIME = np.uint32(16777619)
_LANE_SEEDS = np.array(
    [
        0x5B1F36E9, 0xB8525960, 0x02AB50AA, 0x1DE66D2A, 0x79FF467A, 0x9BB9F8A3, 0x217E7CD2, 0x83E13D2C,
        0xF8D4474F, 0xE39EB970, 0x42C6AE16, 0x993216FA, 0x7B093B5D, 0x98DAFF3C, 0xF718902A, 0x0B1C9CDB,
        0xE58F764B, 0x187636BC, 0x5D7B3BB1, 0xE73DE7DE, 0x92BEC979, 0xCCA6C0B2, 0x304A0979, 0x85AA43D4,
        0x783125BB, 0x6CA8EAA2, 0xE407EAC6, 0x4B5CFC3E, 0x9FBF8C76, 0x15CA20BE, 0xF2CA9FD3, 0x959BD756,
    ],
    np.uint32,
)  # fmt: skip


def page_checksums(pages: NDArray[np.uint8], blocks: NDArray[np.int64]) -> NDArray[np.uint16]:
    """pd_checksum that each page of an (n, 8192) array should have, by its block number (`pg_checksum_page`)."""
    words = np.ascontiguousarray(pages).view(np.uint32).reshape(len(pages), PAGE_SIZE // 4)
    sums = np.empty(len(pages), np.uint16)
    _sum_pages(words, blocks, _LANE_SEEDS, sums)
    return sums


def torn_pages(pages: NDArray[np.uint8], first: int) -> NDArray[np.intp]:
    """Which of the pages that lie one after another, from block `first` on, have the checksum of another. A new page is all zeros, and has none."""
    halves = pages.view("<u2").reshape(-1, PAGE_SIZE // 2)
    is_wrong = halves[:, PD_CHECKSUM // 2] != page_checksums(pages.reshape(-1, PAGE_SIZE), np.arange(first, first + len(halves)))
    is_wrong[halves[:, PD_UPPER // 2] == 0] = True
    wrong = np.flatnonzero(is_wrong)
    return wrong[halves[wrong].any(axis=1)]


@inner_kernel
def _mixed(words: Any, page: Any, first: Any, lane: Any, mixed: Any, mask: Any) -> Any:
    """The lane behind some rounds, in which it stays in a register; of the first word only what is in `mask` counts."""
    word = words[page, first * _LANES + lane] & mask
    for step in range(_TOGETHER):
        if step:
            word = words[page, (first + step) * _LANES + lane]
        mixed = np.uint32(mixed ^ word)
        mixed = np.uint32(mixed * _FNV_PRIME) ^ (mixed >> np.uint32(17))
    return mixed


@kernel
def _sum_pages(words: Any, blocks: Any, seeds: Any, sums: Any) -> None:
    lanes = np.empty(_LANES, np.uint32)
    own = PD_CHECKSUM // 4
    for page in range(len(words)):
        for lane in range(_LANES):
            lanes[lane] = seeds[lane]
        for first in range(0, _ROUNDS, _TOGETHER):
            for lane in range(_LANES):
                lanes[lane] = _mixed(words, page, first, lane, lanes[lane], np.uint32(0xFFFFFFFF))
            if first == 0:  # the checksum does not count itself
                lanes[own] = _mixed(words, page, first, own, seeds[own], np.uint32(0xFFFF0000))
        folded = np.uint32(0)
        for lane in range(_LANES):
            mixed = lanes[lane]
            for _ in range(_EMPTY_ROUNDS):
                mixed = np.uint32(mixed * _FNV_PRIME) ^ (mixed >> np.uint32(17))
            folded ^= mixed
        folded ^= np.uint32(blocks[page] & 0xFFFFFFFF)
        sums[page] = folded % np.uint32(65535) + np.uint32(1)
