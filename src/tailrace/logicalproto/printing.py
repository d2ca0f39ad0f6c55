"""Messages for a person, a line each, and for programs, as what JSON is made of. Values stand as they came.

In: messages in the order of their session. Out: text with names in place of oids, as far as Relation and Type messages told them
before. State: those relations and types.
"""

from __future__ import annotations

from typing import Any

from tailrace.errors import TailraceError
from tailrace.logicalproto import message as m
from tailrace.model import Lsn, PgType, datetime_of
from tailrace.types.built_in import built_in_type
from tailrace.types.quoting import quote_identifier, quote_literal
from tailrace.types.registry import codec_of

_IDENTITIES = {"d": "default", "n": "nothing", "f": "full", "i": "index"}
_MARKERS = {m.KEY: " old-key:", m.OLD: " old-tuple:", m.NEW: " new-tuple:"}


class MessagePrinter:
    """Prints one session's messages."""

    def __init__(self) -> None:
        self.relations: dict[int, m.Relation] = {}
        self.types: dict[int, m.Type] = {}

    def text(self, message: m.AnyMessage) -> str:
        """One line, without its end; a value may have lines of its own."""
        self._learn(message)
        known = m.MESSAGE_FORMATS[type(message)]
        match message:
            case m.Relation():
                columns = " ".join(
                    f"{quote(each.name)}[{self._type(each.type_oid)}]{'*' * each.flags}" for each in message.columns
                )
                identity = _IDENTITIES[message.replica_identity]
                told = f"{self._table(message.relation_oid)} ({message.relation_oid}), replica identity {identity}: {columns}"
            case m.Type():
                told = f"{_qualified(message.namespace, message.name)} ({message.type_oid})"
            case m.Insert() | m.Update() | m.Delete():
                told = f"{self._table(message.relation_oid)}:{self._tuples(message)}"
            case m.Truncate():
                tables = ", ".join(map(self._table, message.relation_oids))
                flags = " restart_seqs" * (message.options >> 1) + " cascade" * (message.options & 1)
                told = f"{tables}:{flags or ' (no-flags)'}"
            case m.Message():
                told = f"transactional: {message.flags} lsn: {message.lsn} prefix: {_clean(message.prefix)}"
                told += f", sz: {len(message.content)} content:{_characters(message.content)}"
            case _:
                kinds = known.kinds
                told = ", ".join(
                    f"{field.replace('_', ' ')} {_shown(getattr(message, field), kinds.get(field))}"
                    for field in message.__slots__
                    if field not in ("flags", "first_segment") and getattr(message, field) is not None
                )
                told += ", first segment" if getattr(message, "first_segment", 0) else ""
        xid = getattr(message, "xid", None) if known.carries_xid else None
        return f"{known.name}{f' {told}' if told else ''}{f' (xid {xid})' if xid is not None else ''}"

    def fields(self, message: m.AnyMessage) -> dict[str, Any]:
        """For JSON: fields by their name; rows as objects by column, NULL and unchanged values as null, the latter named in
        `unchanged`, and values in binary form in hex, named in `binary`."""
        self._learn(message)
        known = m.MESSAGE_FORMATS[type(message)]
        found: dict[str, Any] = {"message": known.name}
        kinds = known.kinds
        for field in message.__slots__:
            value = getattr(message, field)
            if isinstance(value, m.TupleData):
                found |= self._row(field, value, self.relations.get(getattr(message, "relation_oid")))  # noqa: B009
            elif isinstance(value, tuple) and value and isinstance(value[0], m.RelationColumn):
                found[field] = [{name: _plain(getattr(column, name)) for name in column.__slots__} for column in value]
            elif value is not None:
                found[field] = _plain(value, kinds.get(field))
        return found

    def _learn(self, message: m.AnyMessage) -> None:
        if isinstance(message, m.Relation):
            self.relations[message.relation_oid] = message
        elif isinstance(message, m.Type):
            self.types[message.type_oid] = message

    def _table(self, oid: int) -> str:
        known = self.relations.get(oid)
        return f"table {_qualified(known.namespace, known.name)}" if known else f"table {oid}"

    def _type(self, oid: int) -> str:
        known = built_in_type(oid)
        if known is None and oid in self.types:
            return _qualified(self.types[oid].namespace, self.types[oid].name)
        return known.label if known else str(oid)

    def _tuples(self, message: m.Change) -> str:
        relation = self.relations.get(message.relation_oid)
        shown = [each for each in (getattr(message, "old", None), getattr(message, "new", None)) if each is not None]
        alone = len(shown) == 1
        return "".join(
            f"{_MARKERS[each.marker] if not alone or each.marker == m.KEY else ''}{self._columns(each, relation)}"
            for each in shown
        )

    def _columns(self, data: m.TupleData, relation: m.Relation | None) -> str:
        """As test_decoding shows them; of a key what is there."""
        parts = []
        for i, column in enumerate(data.columns):
            if data.marker != m.NEW and column.kind == m.NULL:
                continue
            name, oid = (relation.columns[i].name, relation.columns[i].type_oid) if relation else (str(i + 1), 0)
            parts.append(f" {quote(name)}[{self._type(oid)}]:{_value(column, built_in_type(oid))}")
        return "".join(parts)

    def _row(self, field: str, data: m.TupleData, relation: m.Relation | None) -> dict[str, Any]:
        names = [_clean(each.name) for each in relation.columns] if relation else [str(i + 1) for i in range(len(data.columns))]
        row = {
            name: None if column.value is None else column.value.hex() if column.kind == m.BINARY else _characters(column.value)
            for name, column in zip(names, data.columns, strict=True)
        }
        found: dict[str, Any] = {field: row}
        if field == "old":
            found["old_is"] = "key" if data.marker == m.KEY else "row"
        kinds = {"unchanged": m.UNCHANGED, f"binary_{field}": m.BINARY}
        for noun, kind in kinds.items():
            if named := [name for name, column in zip(names, data.columns, strict=True) if column.kind == kind]:
                found[noun] = named
        return found


def quote(name: str) -> str:
    """As an identifier that can be printed."""
    return quote_identifier(_clean(name))


def _qualified(namespace: str, name: str) -> str:
    return f"{quote(namespace)}.{quote(name)}" if namespace else quote(name)


def _value(column: m.TupleColumn, pg_type: PgType | None) -> str:
    if column.value is None:
        return "null" if column.kind == m.NULL else "unchanged-toast-datum"
    if column.kind == m.BINARY:
        return f"\\x{column.value.hex()}"
    text = _characters(column.value)
    try:
        quoting = codec_of(pg_type).quoting if pg_type else "quoted"
    except TailraceError:
        quoting = "quoted"
    return {"bare": text, "bits": f"B'{text}'"}.get(quoting, quote_literal(text))


def _characters(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")


def _clean(text: str) -> str:
    """What was not UTF-8 as \\x.."""
    return _characters(text.encode("utf-8", "surrogateescape"))


def _shown(value: Any, kind: str | None) -> str:
    if isinstance(value, str):
        return quote_literal(_clean(value))
    return str(_plain(value, kind))


def _plain(value: Any, kind: str | None = None) -> Any:
    """The value of a field of this kind (`fields.KINDS`), as JSON can hold it."""
    if isinstance(value, bytes):
        return _characters(value)
    if isinstance(value, str):
        return _clean(value)
    if isinstance(value, Lsn):
        return str(value)
    if kind == "timestamp":
        return moment(value)
    return list(value) if isinstance(value, tuple) else value


def moment(microseconds: int) -> str:
    """Since 2000, as PostgreSQL prints a time stamp; the number itself where no calendar has it."""
    try:
        return str(datetime_of(microseconds)).replace("+00:00", "+00")
    except OverflowError:
        return str(microseconds)
