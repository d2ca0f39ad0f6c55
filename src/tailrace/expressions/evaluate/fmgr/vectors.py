"""What a part of an expression gives for many rows: a `Vector`; and where columns come from: a `Scope`.

A vector of a constant has one row, which stands for all of them (`constant`). A column's values are made into their working form (`datum_forms`)
only when somebody asks for it, as comparisons of texts work on the stored bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.expressions.evaluate.collations import Collation, Compare, Letters, Problem, letters_of, order_of
from tailrace.expressions.evaluate.collations.collation import BUILTIN, LIBC
from tailrace.expressions.evaluate.fmgr.datum_forms import array_of, read_values, type_of
from tailrace.expressions.evaluate.fmgr.refusals import refused
from tailrace.types import oids
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Values

DEFAULT_COLLATION, C_COLLATION = 100, 950
MULTIBYTE = frozenset({"EUC_JP", "EUC_CN", "EUC_KR", "EUC_TW", "EUC_JIS_2004", "MULE_INTERNAL"})
"""Server encodings beside UTF8 in which a character may have several bytes (`mb/pg_wchar.h`)."""
_BUILT_IN = {
    0: Collation(), 950: Collation(), 951: Collation(), 962: Collation(),
    811: Collation(BUILTIN, "C.UTF-8", "C.UTF-8", "1", name="pg_c_utf8"),
    6411: Collation(BUILTIN, "PG_UNICODE_FAST", "PG_UNICODE_FAST", "1", name="pg_unicode_fast"),
}  # fmt: skip
"""C, POSIX, ucs_basic, pg_c_utf8 and pg_unicode_fast (`catalog/pg_collation.dat`), which no machine changes; 0 is no collation."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What an expression's values depend on beside the rows: the database's encoding and locale, and the session that decodes.

    `collate` and `ctype` are the locales of the default collation (datcollate, datctype; datlocale where the provider is not libc), `version` what
    was recorded of them. `collations` are others of the database, by oid. `timeline` and
    `segment_size` are those of the log, 0 where there is none. `style` has the settings and the major of the server.
    """

    encoding: str = "UTF8"
    collate: str = "C"
    ctype: str = "C"
    provider: str = LIBC
    version: str = ""
    rules: str = ""
    database: str = ""
    collations: tuple[tuple[int, Collation], ...] = ()
    timeline: int = 0
    segment_size: int = 0
    style: TextStyle = field(default_factory=TextStyle)

    def collation(self, oid: int) -> Collation | None:
        """What is known of it; None of one that is not in the catalogs."""
        if oid == DEFAULT_COLLATION:
            return Collation(self.provider, self.collate, self.ctype, self.version, self.rules, self.database, True)
        return _BUILT_IN.get(oid) or dict(self.collations).get(oid)

    def order(self, oid: int) -> Compare | None:
        """How texts compare under this collation; None where their bytes do. Raises Refused where it is not known."""
        found = order_of(self._known(oid), self.encoding, self.ignores_versions)
        if isinstance(found, Problem):
            raise found.refusal("an order of texts")
        return found

    def letters(self, oid: int) -> Letters:
        """What is known of which characters are letters, and of their cases."""
        return letters_of(self._known(oid), self.encoding, self.encoding in MULTIBYTE, self.style)

    @property
    def ignores_versions(self) -> bool:
        return self.style.collation_mismatch == "ignore"

    def _known(self, oid: int) -> Collation:
        found = self.collation(oid)
        if found is None:
            raise refused(f"a collation that the catalogs do not have ({oid})")
        return found


@dataclass(slots=True)
class Vector:
    """A value a row, of the type `type`: valid or NULL. `data` in working form may be anything where `valid` is False."""

    type: int
    valid: Mask
    constant: bool = False
    stored: Values | None = None
    encoding: str = "UTF8"
    _data: NDArray | None = None

    @property
    def data(self) -> NDArray:
        if self._data is None:
            assert self.stored is not None
            self._data = read_values(self.stored, type_of(self.type), self.encoding)
        return self._data

    def take(self, rows: NDArray[np.int64]) -> Vector:
        """The values at these rows."""
        if self.constant:
            return self
        data = None if self._data is None else self._data[rows]
        stored = None if self.stored is None or data is not None else self.stored.take(rows)
        return Vector(self.type, self.valid[rows], False, stored, self.encoding, data)

    def value(self, row: int = 0) -> Any:
        """One row's value as a Python object; None for NULL."""
        found = self.data[row] if self.valid[row] else None
        return found.item() if isinstance(found, np.generic) else found

    def objects(self, rows: int) -> list[Any]:
        """Each row's value as a Python object; None for NULL."""
        if self.constant:
            return [self.value()] * rows
        found = self.data.tolist()
        return (
            found
            if self.valid.all()
            else [each if there else None for each, there in zip(found, self.valid.tolist(), strict=True)]
        )

    @property
    def is_null(self) -> bool:
        """Whether it is a constant NULL."""
        return self.constant and not self.valid[0]


def constant(type_oid: int, value: Any) -> Vector:
    """A constant in working form."""
    return Vector(type_oid, np.array([value is not None]), True, None, "UTF8", array_of(type_oid, [value]))


def vector_of(type_oid: int, objects: list[Any]) -> Vector:
    """One value a row, None for NULL."""
    return Vector(
        type_oid, np.array([each is not None for each in objects], np.bool_), False, None, "UTF8", array_of(type_oid, objects)
    )


def conditions(decided: Mask, valid: Mask) -> Vector:
    """Truth values."""
    return Vector(oids.BOOL, valid, False, None, "UTF8", decided)


@dataclass(slots=True)
class Scope:
    """Rows that a part of an expression is asked about: `count` of them, and where their columns are. `case` is what a CASE around it tests."""

    count: int
    column: Callable[[int], Vector]
    case: Vector | None = None

    def pick(self, rows: NDArray[np.int64]) -> Scope:
        """The same for some of the rows."""
        known: dict[int, Vector] = {}

        def column(number: int) -> Vector:
            if number not in known:
                known[number] = self.column(number).take(rows)
            return known[number]

        return Scope(len(rows), column, None if self.case is None else self.case.take(rows))

    def testing(self, case: Vector) -> Scope:
        return Scope(self.count, self.column, case)


def scope_of(columns: Mapping[int, Vector], count: int) -> Scope:
    """All rows of a batch; columns by attribute number."""
    return Scope(count, columns.__getitem__)
