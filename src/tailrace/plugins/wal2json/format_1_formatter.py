"""Changes as wal2json prints them in its format 1, names, types and values of columns in lists of their own:
`{"kind":"insert","schema":"public", "table":"t","columnnames":["id",…],"columntypes":["integer",…],"columnvalues":[1,…]}`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.decode import DELETE, INSERT, UPDATE, Batch
from tailrace.kernels import inner_kernel, kernel
from tailrace.model import Column, PgType, Relation
from tailrace.plugins.column_texts import NULL, UNCHANGED, Words, put, put_word
from tailrace.plugins.formatter import Formatter
from tailrace.plugins.json_text.columns import LONGEST_LITERAL, literal_columns, put_literal
from tailrace.plugins.json_text.strings import json_string
from tailrace.plugins.wal2json.format_2_formatter import (
    default_of,
    kinds_and_tables,
    lacking_identity,
    selected_changes,
    written_as,
)
from tailrace.plugins.wal2json.options import Wal2JsonOptions
from tailrace.types.format_type import format_type_with_typemod
from tailrace.types.values import Texts, Values

_VERBS = {INSERT: "insert", UPDATE: "update", DELETE: "delete"}


@dataclass(frozen=True, slots=True)
class PrettyPrint:
    """White space of `pretty-print`: a tab, the end of a line, a space behind a colon or comma; and what stands before a part of
    a transaction that is not in a row of its own."""

    tab: str
    line: str
    space: str
    before: str

    @classmethod
    def of(cls, options: Wal2JsonOptions) -> PrettyPrint:
        tab, line, space = ("\t", "\n", " ") if options.pretty_print else ("", "", "")
        return cls(tab, line, space, "" if options.write_in_chunks else line)

    @property
    def comma_at(self) -> int:
        """Where the comma between changes stands in the text of one."""
        return len(self.before) + 2 * len(self.tab)


@dataclass(frozen=True)
class Format1Formatter(Formatter):
    """An object a change, with a comma before it; nothing of a change that is not written."""

    options: Wal2JsonOptions

    def warnings(self, batch: Batch) -> frozenset[str]:
        lost = selected_changes(self.options, batch) & lacking_identity(batch)
        return frozenset(
            f'table "{each.name}" without primary key or replica identity is nothing' for _, each in kinds_and_tables(batch, lost)
        )

    def change_texts(self, batch: Batch) -> Texts:
        rows, relations = len(batch), batch.published_as
        written = selected_changes(self.options, batch) & ~lacking_identity(batch)
        written &= (batch.kind != DELETE) | batch.has_old
        new, old = (literal_columns(each, batch.columns, rows, self._text_of) for each in (batch.new, batch.old))
        words = self._words(relations, batch.columns)
        # Room for the longest that it could be; pages that stay untouched cost nothing.
        columns = len(batch.columns)
        a_row = words.heads.longest + words.keys.longest + words.columns.room(columns) + words.identity.room(columns)
        a_row += 2 * columns * LONGEST_LITERAL + len(words.end)
        out = np.empty(int(written.sum()) * a_row + 2 * new.room + old.room, np.uint8)
        offsets = np.zeros(rows + 1, np.int64)
        changes = ListRows(written, batch.number, batch.kind, batch.has_old, self._identities(relations, batch.columns))
        write_lists(changes, words, new, old, offsets, out)
        return Texts(offsets, out[: offsets[-1]])

    def _text_of(self, stored: Values, column: Column) -> tuple[Texts, int]:
        return written_as(self._valued(column), stored, self.options, self.style, self.codec)

    def _valued(self, column: Column) -> PgType:
        """The type by which a column's values are written: that beneath a domain, where that is named."""
        pg_type = column.type
        assert pg_type is not None, "dropped columns are not shown"
        is_beneath = self.options.include_domain_data_type and self.options.include_types
        return pg_type.element if is_beneath and pg_type.kind == "d" and pg_type.element is not None else pg_type

    def _type_name(self, column: Column) -> str:
        valued, of = self._valued(column), column.type
        assert of is not None
        if not self.options.include_typmod:
            return valued.name
        return format_type_with_typemod(valued, column.typmod if valued is of else of.typmod)

    def _identities(self, relations: Sequence[Relation], columns: Sequence[Column]) -> NDArray[np.bool_]:
        """By table and column, whether it is one of the replica identity; all are where that is FULL."""
        numbers = np.array([column.number for column in columns], np.int64)
        return np.array([np.isin(numbers, relation.identity or numbers) for relation in relations])

    def _words(self, relations: Sequence[Relation], columns: Sequence[Column]) -> ListWords:
        layout = PrettyPrint.of(self.options)
        tab, line, space = layout.tab, layout.line, layout.space
        heads = []
        for relation in relations:
            schema = f'{3 * tab}"schema":{space}{json_string(relation.schema)},{line}' if self.options.include_schemas else ""
            heads += [
                f'{layout.before}{2 * tab},{{{line}{3 * tab}"kind":{space}"{verb}",{line}{schema}'
                f'{3 * tab}"table":{space}{json_string(relation.name)},{line}'
                for verb in _VERBS.values()
            ]
        return ListWords(
            Words.of(heads), Words.of([self._primary_key(each, columns) for each in relations]), self._lists(columns, layout, ""),
            self._lists(columns, layout, "key"), np.frombuffer(f"{2 * tab}}}".encode(), np.uint8).copy(),
        )  # fmt: skip

    def _primary_key(self, relation: Relation, columns: Sequence[Column]) -> str:
        """Names and types of the columns of its primary key, without what stands behind the brace. As wal2json has it since 2.6,
        whatever the replica identity."""
        if not (self.options.include_pk and relation.primary_key):
            return ""
        layout = PrettyPrint.of(self.options)
        tab, line, space = layout.tab, layout.line, layout.space
        mine = [column for column in columns if column.number in relation.primary_key]
        names = f",{space}".join(json_string(column.name) for column in mine)
        # Other than in lists of columns, the brackets of an array do not have its name escaped.
        types = [self._type_name(column) for column in mine] if self.options.include_types else []
        written = f",{space}".join(each if each.startswith('"') else json_string(each) for each in types)
        return (
            f'{3 * tab}"pk":{space}{{{line}{4 * tab}"pknames":{space}[{names}],{line}'
            f'{4 * tab}"pktypes":{space}[{written}]{line}{3 * tab}}}'
        )

    def _lists(self, columns: Sequence[Column], layout: PrettyPrint, key: str) -> Lists:
        """What there is of columns, or of those of the identity, and the brackets around it; the values are last."""
        options, tab, line, space = self.options, layout.tab, layout.line, layout.space
        named: dict[str, list[str]] = {"names": [json_string(column.name) for column in columns]}
        if options.include_types:
            named["types"] = [_quoted(self._type_name(column)) for column in columns]
        if options.include_type_oids:
            named["typeoids"] = [str(self._valued(column).oid) for column in columns]
        if options.include_column_positions and not key:
            named["positions"] = [str(column.number) for column in columns]
        if options.include_not_null and not key:
            # They come with types, or not at all.
            written = columns if options.include_types else ()
            named["optionals"] = ["false" if column.not_null else "true" for column in written]
        if options.include_default and not key:
            named["defaults"] = [default_of(column) for column in columns]
        indent = (4 if key else 3) * tab
        opening = f'{3 * tab}"oldkeys":{space}{{{line}' if key else ""
        openings = [f'{indent}"{key or "column"}{name}":{space}[' for name in (*named, "values")]
        openings[0] = opening + openings[0]
        close = f"]{line}{3 * tab}}}{line}" if key else "]"
        return Lists(
            Words.of(openings), Words.of([word for words in named.values() for word in words]),
            np.array([bool(words) for words in named.values()]), Words.of([f"],{line}", close, f",{line}", line, f",{space}"]),
        )  # fmt: skip


def _quoted(label: str) -> str:
    """A name in quotes is taken for a string as it stands."""
    return label if label.startswith('"') and not label.endswith("]") else json_string(label)


class Lists(NamedTuple):
    """`openings` of lists, those of values last; `entries` of the lists before them, by list and column, but for lists that are
    not `filled`; and what closes a list, closes values, stands behind where something follows or nothing does, and between
    entries."""

    openings: Words
    entries: Words
    filled: NDArray[np.bool_]
    closings: Words

    def room(self, columns: int) -> int:
        """What all of them take in one row at most, but for values; a word stands behind each entry, each list, and behind the
        last twice."""
        behind = (len(self.filled) + 1) * (columns + 1) + 2
        return len(self.openings.data) + len(self.entries.data) + behind * self.closings.longest


class ListWords(NamedTuple):
    """By table and kind what stands before the lists; by table its primary key; the lists of columns and of the identity; what
    stands at the end."""

    heads: Words
    keys: Words
    columns: Lists
    identity: Lists
    end: NDArray[np.uint8]


class ListRows(NamedTuple):
    """By row: whether it is written, which of the tables it is of, what happened, whether there is an old tuple; by table and
    column whether that is of the identity."""

    written: NDArray[np.bool_]
    number: NDArray[np.int64]
    kind: NDArray[np.uint8]
    has_old: NDArray[np.bool_]
    identity: NDArray[np.bool_]


_LIST, _VALUES, _MORE, _LAST, _BETWEEN = range(5)


@kernel
def write_lists(changes, words, new, old, offsets, out):  # type: ignore[no-untyped-def]
    """The objects of a batch, one after another; offsets[i + 1] becomes the end of row i."""
    to = np.int64(0)
    every = np.ones(len(new.form), np.bool_)
    sent = np.zeros(len(new.form), np.bool_)
    for row in range(len(changes.kind)):
        if changes.written[row]:
            kind, number = changes.kind[row], changes.number[row]
            has_key = words.keys.bounds[number + 1] > words.keys.bounds[number]
            to = put_word(out, to, words.heads, 3 * number + kind - 1)
            if kind != DELETE:
                to = put_lists(out, to, words.columns, new, row, every, sent, False)
                to = put_word(out, to, words.columns.closings, _MORE if has_key or kind == UPDATE else _LAST)
            if has_key:
                to = put_word(out, to, words.keys, number)
                to = put_word(out, to, words.columns.closings, _LAST if kind == INSERT else _MORE)
            if kind == UPDATE and changes.has_old[row]:
                to = put_lists(out, to, words.identity, old, row, every, sent, True)
            elif kind == UPDATE:
                to = put_lists(out, to, words.identity, new, row, changes.identity[number], sent, True)
            elif kind == DELETE:
                to = put_lists(out, to, words.identity, old, row, changes.identity[number], sent, True)
            to = put(out, to, words.end, 0, len(words.end))
        offsets[row + 1] = to


@inner_kernel
def put_lists(out, to, lists, side, row, wanted, sent, is_key):  # type: ignore[no-untyped-def]
    """Append the lists of one side of a row: of the wanted columns, but for those that were not sent, and of a key but for NULLs.
    `written` is room for one flag a column."""
    columns = len(side.form)
    for column in range(columns):
        state = side.state[column, row]
        sent[column] = wanted[column] and state != UNCHANGED and not (is_key and state == NULL)
    values, first_entry = len(lists.filled), 0
    for number in range(values + 1):
        to = put_word(out, to, lists.openings, number)
        if number == values or lists.filled[number]:
            first = True
            for column in range(columns):
                if sent[column]:
                    if not first:
                        to = put_word(out, to, lists.closings, _BETWEEN)
                    first = False
                    if number == values:
                        to = put_literal(out, to, side, column, row)
                    else:
                        to = put_word(out, to, lists.entries, first_entry + column)
            first_entry += columns
        to = put_word(out, to, lists.closings, _VALUES if number == values else _LIST)
    return to
