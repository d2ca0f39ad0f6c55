"""Hashes of a table's rows as SQL expressions, which two servers evaluate each for itself.

In: columns, and what their types are on both sides. Out: an expression of 64 bits for the key of a row, and one for the whole row. Each column's
hash is the seed of the next one's (`hashtextextended` and `hashint4extended`, which see every bit), so a value that stands in another column makes
another hash. Types whose own hash functions lose bits (numeric its sign and scale, bigint and timestamps half of their bits) are hashed by what
their output functions print, as they travel to a subscriber, or by their binary form. NULLs are told from empty values by numbers whose bits say
which columns have none.
"""

from __future__ import annotations

from collections.abc import Sequence

from tailrace.dataclass import dataclass
from tailrace.types.quoting import quote_identifier

_BITS = 31
"""Of an integer that says which columns have no value."""
_INTEGERS = frozenset({"int2", "int4"})
_TEXTS = frozenset({"text", "varchar"})
_CAST_OTHERWISE = frozenset({"", "bpchar"})
"""Types whose cast to text may lose something: bpchar's drops blanks, and others may have any. What is printed, and sent to a subscriber, is made by
concat; as it is of columns that are of different types, since a cast need not print the same (boolean's does not)."""
_SENT = {"timestamptz": "timestamptz_send", "timestamp": "timestamp_send"}
"""Types whose output functions are dear, and what sends them."""


@dataclass(frozen=True, slots=True)
class SqlColumn:
    """`types` are the names of its type on both sides, those of `pg_catalog` alone; "" of all others. `may_be_null` on either side."""

    name: str
    types: tuple[str, str]
    may_be_null: bool

    @property
    def quoted(self) -> str:
        return quote_identifier(self.name)

    def hashed(self, seed: str, *, recoded: bool) -> str:
        """With `recoded`, text is hashed as UTF-8, for databases of different encodings."""
        name, types = self.quoted, set(self.types)
        if types <= _INTEGERS:
            return f"pg_catalog.hashint4extended(coalesce({name}, 0)::int4, {seed})"
        if len(types) == 1 and (send := _SENT.get(self.types[0])):
            text = f"coalesce(pg_catalog.{send}({name})::text, '')"
        else:
            is_cast = types <= _TEXTS or (len(types) == 1 and not types & _CAST_OTHERWISE)
            text = f"coalesce({name}::text, '')" if is_cast else f"pg_catalog.concat({name})"
            text = f"pg_catalog.convert_to({text}, 'UTF8')::text" if recoded else text
        return f'pg_catalog.hashtextextended({text} COLLATE "C", {seed})'


@dataclass(frozen=True, slots=True)
class SqlHashes:
    """Of rows with these columns; `key` are those of them that tell a row from all others, if any do."""

    columns: Sequence[SqlColumn]
    key: Sequence[str]
    recoded: bool = False

    @property
    def of_key(self) -> str:
        return self._chained([each for each in self.columns if each.name in self.key], "0::int8") if self.key else self.of_row

    @property
    def of_row(self) -> str:
        seed = self.of_key if self.key else "0::int8"
        return self._chained([each for each in self.columns if each.name not in self.key], seed)

    def _chained(self, columns: Sequence[SqlColumn], seed: str) -> str:
        nullable = [each.quoted for each in columns if each.may_be_null]
        for first in range(0, len(nullable), _BITS):
            bits = [f"(({name} IS NULL)::int4 << {bit})" for bit, name in enumerate(nullable[first : first + _BITS])]
            seed = f"pg_catalog.hashint4extended({' | '.join(bits)}, {seed})"
        for each in columns:
            seed = each.hashed(seed, recoded=self.recoded)
        return seed
