"""PostgreSQL's own text of a stored expression (pg_node_tree), read and written (`nodes/readfuncs.c`, `nodes/outfuncs.c`).

In and out: `{OPEXPR :opno 521 … :args ({VAR …} {CONST …})}`, as a server keeps a publication's WHERE clause in
pg_publication_rel.prqual, and an `Expression`. `node_fields` says which fields a node has. Reading goes by their names,
whatever the major; what is not known is refused by its name. Writing gives, byte for byte, what a server of a major keeps.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tailrace.errors import UnsupportedWal
from tailrace.expressions import tree
from tailrace.expressions.node_fields import COMPARED, FIELDS, LABELS, LABELS_OF_14, NODES
from tailrace.majors import STORED_LOCATIONS, supports
from tailrace.model import FIRST_NORMAL_OID
from tailrace.types import oids
from tailrace.types.built_in import built_in_type

_TOKEN = re.compile(r"[(){}]|(?:\\.|[^\s(){}\\])+", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_TO_ESCAPE = re.compile(r"""[ \n\t(){}\\]|\A(?:[<"0-9]|[+-](?=[0-9.]))""")
"""What `outToken` puts a backslash before: what ends a token, and what would make another kind of token of the first letter."""

_SIGNED = frozenset({oids.CHAR, oids.INT2, oids.INT4, oids.FLOAT4, oids.DATE})
"""char, smallint, integer, real, date: a Datum of theirs has their sign in all its bytes (`Int32GetDatum` and its like)."""
_DATUM = 8


def read_node_tree(text: str) -> tree.Expression:
    """The expression that the text describes. Raises UnsupportedWal, with its name, for a node that is not known."""
    reader = _Reader(text)
    found = reader.value()
    if reader.at != len(reader.tokens) or not isinstance(found, tree.Expression):
        raise _malformed(text)
    return found


def read_filter(text: str) -> tree.Expression:
    """The same, of what is evaluated: without the nodes that only defaults may have."""
    found = read_node_tree(text)
    for node in tree.walk(found):
        if isinstance(node, tree.SQLValueFunction | tree.OtherCast):
            raise UnsupportedWal(f'unrecognized node "{type(node).__name__}" in a stored expression')
    return found


def write_node_tree(expression: tree.Expression, major: int) -> str:
    """What a server of that major keeps of a row filter. Raises TypeError for a node that no filter has."""
    COMPARED.check(major)
    return _node(expression, major)


# -- reading ---------------------------------------------------------------------------------------------------------------------


class _Reader:
    """Goes through the tokens once; state is the place of the next one."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _TOKEN.findall(text)
        self.at = 0

    def next(self) -> str:
        if self.at >= len(self.tokens):
            raise _malformed(self.text)
        self.at += 1
        return str(self.tokens[self.at - 1])

    def value(self) -> Any:
        """A node, a list, None for `<>`, or what a word says."""
        token = self.next()
        if token == "{":
            return self.node()
        if token == "(":
            return self.items()
        return None if token == "<>" else token

    def items(self) -> tuple[Any, ...]:
        """A list: of nodes or strings, or of numbers after a letter that says which (`o` oids, `i` integers, `b` a set)."""
        found = []
        while self.at < len(self.tokens) and self.tokens[self.at] != ")":
            found.append(self.value())
        self.next()
        return tuple(found)

    def node(self) -> Any:
        label = self.next()
        label = LABELS_OF_14.get(label, label)
        if label not in NODES:
            raise UnsupportedWal(f'unrecognized node "{label}" in a stored expression')
        said: dict[str, Any] = {}
        while (token := self.next()) != "}":
            name = token.removeprefix(":")
            if not token.startswith(":") or name not in FIELDS[label]:
                raise UnsupportedWal(f'unrecognized field "{name}" of node "{label}" in a stored expression')
            said[name] = self.datum() if name == "constvalue" else self.value()
        try:
            return _read(label, said)
        except (KeyError, TypeError, ValueError) as error:
            raise _malformed(self.text) from error

    def datum(self) -> bytes | None:
        """`length [ b b … ]`, each byte as a signed number; by-value ones have all eight bytes of a Datum."""
        length = self.next()
        if length == "<>":
            return None
        if self.next() != "[":
            raise _malformed(self.text)
        found = bytearray()
        while (token := self.next()) != "]":
            found.append(int(token) & 0xFF)
        return bytes(found)


def _malformed(text: str) -> UnsupportedWal:
    return UnsupportedWal(f"malformed stored expression: {text[:100]}", sqlstate="XX000")


def _read(label: str, said: dict[str, Any]) -> Any:
    kind = NODES[label][0]
    if kind is None:
        return _READERS[label](said)
    if kind is tree.Var and (said["varno"] != "1" or {said["varlevelsup"], said.get("varreturningtype", "0")} != {"0"}):
        raise UnsupportedWal("a stored expression refers to a row that is not the one tested")
    found = {}
    for field in FIELDS[label].values():
        if field.attribute and (field.name in said or field.in_all):
            found[field.attribute] = _FROM_TEXT.get(field.kind, _as_it_is)(said[field.name])
    return kind(**found)


def _as_it_is(value: Any) -> Any:
    return value


def _oids(words: tuple[str, ...] | None) -> tuple[int, ...]:
    return tuple(int(word) for word in (words or ("o",))[1:])


def _strings(words: tuple[str, ...] | None) -> tuple[str, ...]:
    return tuple(_ESCAPED.sub(r"\1", word.removeprefix('"').removesuffix('"')) for word in words or ())


_NODE_LISTS = ("tuple[Expression, ...]", "tuple[Expression, Expression]", "tuple[CaseWhen, ...]")
_FROM_TEXT: dict[str, Callable[[Any], Any]] = {
    "int": int,
    "bool": lambda word: word == "true",
    "enum": lambda word: word == "1",
    "str | None": lambda word: None if word is None else _ESCAPED.sub(r"\1", word),
    "tuple[int, ...]": _oids,
    "tuple[str, ...]": _strings,
    **dict.fromkeys(_NODE_LISTS, lambda nodes: nodes or ()),
}
"""How a field is read, by what an attribute of ours is declared as; a node is one already."""


def _constant(said: dict[str, Any]) -> tree.Const:
    raw, length = said["constvalue"], int(said["constlen"])
    value = None
    if said["constisnull"] != "true":
        assert raw is not None
        value = raw[:length] if length > 0 else _without_length(raw) if length == -1 else raw.removesuffix(b"\0")
    oid, typmod, collation = (int(said[name]) for name in ("consttype", "consttypmod", "constcollid"))
    return tree.Const(oid, value, typmod, collation, location=int(said["location"]))


def _without_length(raw: bytes) -> bytes:
    """A varlena's payload; constants are neither compressed nor stored elsewhere (`varatt.h`, little-endian)."""
    if raw[0] & 1:
        if raw[0] == 1:
            raise UnsupportedWal("a constant of a stored expression lies in a TOAST table")
        return raw[1:]
    if raw[0] & 2:
        raise UnsupportedWal("a constant of a stored expression is compressed")
    return raw[4:]


def _boolean(said: dict[str, Any]) -> tree.Expression:
    args, location = said["args"], int(said["location"])
    if said["boolop"] == "not":
        (arg,) = args
        return tree.Not(arg, location=location)
    return tree.And(args, location=location) if said["boolop"] == "and" else tree.Or(args, location=location)


def _other_cast(said: dict[str, Any]) -> tree.OtherCast:
    form = said["coerceformat"] if "coerceformat" in said else said["coercionformat"]
    return tree.OtherCast(
        said["arg"], int(said["resulttype"]), int(form), int(said.get("resulttypmod", -1)), location=int(said["location"])
    )


_READERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "CONST": _constant, "BOOLEXPR": _boolean,
    "COERCEVIAIO": _other_cast, "ARRAYCOERCEEXPR": _other_cast, "COERCETODOMAIN": _other_cast,
}  # fmt: skip


# -- writing ---------------------------------------------------------------------------------------------------------------------


def _node(node: Any, major: int) -> str:
    label, facts = _facts(node, major)
    return "{" + " ".join([label, *(f":{name} {value}" for name, value in facts)]) + "}"


def _facts(node: Any, major: int) -> tuple[str, list[tuple[str, str]]]:
    """The label of a node, and its fields as words."""
    location = str(node.location if supports(major, STORED_LOCATIONS) else -1)
    if isinstance(node, tree.Const):
        return "CONST", _constant_facts(node, location)
    if isinstance(node, tree.And | tree.Or | tree.Not):
        args = (node.arg,) if isinstance(node, tree.Not) else node.args
        word = {tree.And: "and", tree.Or: "or", tree.Not: "not"}[type(node)]
        return "BOOLEXPR", [("boolop", word), ("args", _list(args, major)), ("location", location)]
    if type(node) not in LABELS:
        raise TypeError(f'no row filter has a node "{type(node).__name__}"')
    label = LABELS[type(node)]
    facts = []
    for field in FIELDS[label].values():
        if supports(major, field.majors):
            value = field.constant or (
                location if field.name == "location" else _word(field.kind, getattr(node, field.attribute), major)
            )
            facts.append((field.name, value))
    return label, facts


def _word(kind: str, value: Any, major: int) -> str:
    """What stands behind the name of a field that is declared so."""
    match kind:
        case "int":
            return str(value)
        case "bool":
            return "true" if value else "false"
        case "enum":
            return "1" if value else "0"
        case "str | None":
            return "<>" if value is None else _token(value)
        case "tuple[int, ...]":
            return f"({' '.join(['o', *map(str, value)])})"
        case "tuple[str, ...]":
            return _listed([f'"{_token(each)}"' for each in value])
        case _ if kind in _NODE_LISTS:
            return _list(value, major)
        case _:
            return "<>" if value is None else _node(value, major)


def _list(nodes: tuple[Any, ...], major: int) -> str:
    return _listed([_node(each, major) for each in nodes])


def _listed(words: list[str]) -> str:
    return f"({' '.join(words)})" if words else "<>"


def _token(text: str) -> str:
    """`outToken`."""
    return _TO_ESCAPE.sub(r"\\\g<0>", text)


def _constant_facts(node: tree.Const, location: str) -> list[tuple[str, str]]:
    """`_outConst`, `outDatum`."""
    if node.type >= FIRST_NORMAL_OID:
        raise TypeError(f"no row filter has a constant of the type with OID {node.type}")
    pg_type = built_in_type(node.type)
    length, value = -1 if pg_type is None else pg_type.length, node.value  # None: a catalog's row
    by_value = length in (1, 2, 4, 8) and node.type != oids.MACADDR8  # the only type of such a length that is passed by reference
    said = "<>"
    if value is not None:
        if by_value:
            fill = b"\xff" if node.type in _SIGNED and value[-1] & 0x80 else b"\0"
            stored = value.ljust(_DATUM, fill)
        else:
            stored = (
                value if length > 0 else value + b"\0" if length == -2 else (len(value) + 4 << 2).to_bytes(4, "little") + value
            )
        numbers = " ".join(str(byte - 256 if byte & 0x80 else byte) for byte in stored)
        said = f"{length if by_value else len(stored)} [ {numbers} ]"
    return [
        ("consttype", str(node.type)), ("consttypmod", str(node.typmod)), ("constcollid", str(node.collation)),
        ("constlen", str(length)), ("constbyval", _word("bool", by_value, 0)), ("constisnull", _word("bool", value is None, 0)),
        ("location", location), ("constvalue", said),
    ]  # fmt: skip
