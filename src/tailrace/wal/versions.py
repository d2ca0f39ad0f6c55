"""The WAL of each major, as data: the magic of its pages, and what its records differ in beside their layouts, which stand where the structs do. A
release not listed here is refused by name, never guessed at."""

from __future__ import annotations

from dataclasses import replace

from tailrace.dataclass import dataclass
from tailrace.errors import UnsupportedWal
from tailrace.majors import NEWEST, Compared


@dataclass(frozen=True, slots=True)
class WalFormat:
    """The WAL of one major.

    `page_magic` is XLOG_PAGE_MAGIC (`access/xlog_internal.h`). Image bits are BKPIMAGE_* (`access/xlogrecord.h`): `image_apply` marks
    images that replay installs; the others name the compression. `stats_item` is sizeof(xl_xact_stats_item), 0 before there was one.
    `inplace_is_change`: whether decoding treats an in-place update as a change.
    """

    major: int
    page_magic: int
    image_apply: int
    image_pglz: int
    image_lz4: int
    image_zstd: int
    stats_item: int
    inplace_is_change: bool
    custom_resource_managers: bool

    @property
    def image_compressed(self) -> int:
        return self.image_pglz | self.image_lz4 | self.image_zstd


_14 = WalFormat(
    14, 0xD10D, image_apply=0x04, image_pglz=0x02, image_lz4=0, image_zstd=0, stats_item=0, inplace_is_change=True,
    custom_resource_managers=False,
)  # fmt: skip
_15 = WalFormat(
    15, 0xD110, image_apply=0x02, image_pglz=0x04, image_lz4=0x08, image_zstd=0x10, stats_item=12, inplace_is_change=True,
    custom_resource_managers=True,
)  # fmt: skip
_KNOWN = {
    14: _14,
    15: _15,
    16: replace(_15, major=16, page_magic=0xD113),
    17: replace(_15, major=17, page_magic=0xD116),
    18: replace(_15, major=18, page_magic=0xD118, stats_item=16, inplace_is_change=False),
}
COMPARED = Compared(
    __name__, "access/xlog_internal.h (XLOG_PAGE_MAGIC), access/xlogrecord.h (BKPIMAGE_*) and access/xact.h (xl_xact_stats_item)", upto=max(_KNOWN)
)  # fmt: skip
FORMATS = COMPARED.made(_KNOWN.__getitem__)
_BY_MAGIC = {form.page_magic: form for form in FORMATS.values()}
_MAGIC_OF_OTHERS = {
    0xD101: "PostgreSQL 11 or older",
    0xD106: "PostgreSQL 13",
    0xD109: "PostgreSQL 14 beta",
}


def owner_of_magic(magic: int) -> str:
    """Whose pages carry it, or nothing if that is not known."""
    form = _BY_MAGIC.get(magic)
    if form is not None:
        return f"PostgreSQL {form.major}"
    return _MAGIC_OF_OTHERS.get(
        magic, f"a PostgreSQL newer than {NEWEST}" if FORMATS[NEWEST].page_magic < magic <= 0xD1FF else ""
    )


def format_of_magic(magic: int, file: str) -> WalFormat:
    """The format whose pages carry `magic`, as those of a segment `file` do. Raises UnsupportedWal naming what it is, or what we know."""
    form = _BY_MAGIC.get(magic)
    if form is not None:
        return form
    name = owner_of_magic(magic)
    known = ", ".join(f"{form.major} ({form.page_magic:04X})" for form in FORMATS.values())
    raise UnsupportedWal(
        f"invalid magic number {magic:04X} in WAL page" + (f", which is {name}'s" if name else ""),
        hint=f"tailrace reads the WAL of PostgreSQL {known}.",
        context=f'WAL segment "{file}"',
        file=file,
    )
