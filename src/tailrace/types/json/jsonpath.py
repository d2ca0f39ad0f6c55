"""jsonpath: a tree of nodes, each with the place of the next in its chain, printed from the root (`utils/jsonpath.h`).

After a u32 header (top bit: lax) a node is u8 its kind, padding to 4, i32 where its next lies (0: nowhere), and what the kind has.
Places inside a node count from the node. The binary form is a version and the text; in Arrow it is a string of its text.
"""

from __future__ import annotations

import struct

from tailrace.dataclass import dataclass
from tailrace.errors import CorruptWal, UsageError
from tailrace.majors import JSONPATH_NUMBERS_IN_BRACKETS, Compared, supports
from tailrace.model import PgType
from tailrace.types.codec import format_each
from tailrace.types.codec.binary_forms import with_version
from tailrace.types.numbers.numeric.text import print_numerics
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values, as_string

LAX = 0x80000000
EVER = 0xFFFFFFFF
KINDS = (
    "null", "string", "numeric", "bool", "&&", "||", "!", "is unknown", "==", "!=", "<", ">", "<=", ">=", "+", "-", "*", "/", "%",
    "plus", "minus", "[*]", ".*", "index", "**", "key", "@", "$", "variable", "?", "exists", "type", "size", "abs", "floor",
    "ceiling", "double", "datetime", "keyvalue", "subscript", "last", "starts with", "like_regex",
    "bigint", "boolean", "date", "decimal", "integer", "number", "string()", "time", "time_tz", "timestamp", "timestamp_tz",
)  # fmt: skip
"""enum JsonPathItemType; the last line since 17."""
COMPARED = Compared(__name__, "enum JsonPathItemType (utils/jsonpath.h)", upto=18)
PRIORITY = {
    "||": 0, "&&": 1, "==": 2, "!=": 2, "<": 2, ">": 2, "<=": 2, ">=": 2, "starts with": 2, "+": 3, "-": 3, "*": 4, "/": 4, "%": 4,
    "plus": 5, "minus": 5,
}  # fmt: skip
"""How strongly an operator binds (`operationPriority`); all that is not here binds stronger."""
HIGHEST_PRIORITY = 6
BINARY = frozenset(PRIORITY) - {"plus", "minus"}
METHODS = frozenset(
    (
        "type", "size", "abs", "floor", "ceiling", "double", "keyvalue",
        "bigint", "boolean", "date", "integer", "number", "string()",
    )
)  # fmt: skip
METHODS_WITH_ONE = frozenset(("datetime", "time", "time_tz", "timestamp", "timestamp_tz"))
"""Those that take an argument, or none."""
REGEX_FLAGS = ((1, "i"), (2, "s"), (4, "m"), (8, "x"), (16, "q"))
"""JSP_REGEX_*"""
ESCAPES = {
    **{code: f"\\u{code:04x}" for code in range(32)},
    **{ord(character): f"\\{letter}" for character, letter in zip('\b\t\n\f\r"\\', 'btnfr"\\', strict=True)},
}


def format_jsonpaths(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As jsonpath_out."""
    COMPARED.check(style.major)
    return format_each(values, lambda payload: _print_path(payload, style.major))


def send_jsonpaths(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As jsonpath_send: a version, and the text."""
    return with_version(format_jsonpaths(values, pg_type, style), values.valid)


def refuse_jsonpaths(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """Nobody needs the tree of a path but a server."""
    if valid.any():
        raise UsageError("cannot make a jsonpath of its text", sqlstate="0A000")
    return Values.of_payloads([None] * len(texts), pg_type.length)


def _print_path(payload: bytes, major: int) -> str:
    return ("" if is_lax(payload) else "strict ") + root_of(payload, major).text(after_key=False, brackets=True)


def is_lax(payload: bytes) -> bool:
    return bool(struct.unpack_from("<I", payload)[0] & LAX)


def root_of(payload: bytes, major: int) -> JsonPathItem:
    COMPARED.check(major)
    return JsonPathItem(payload, 4, major)


@dataclass(slots=True)
class JsonPathItem:
    """A node: its payload, and the place from which its own places count. The content lies behind kind, padding and next."""

    payload: bytes
    at: int
    major: int

    @property
    def kind(self) -> str:
        code = self.payload[self.at]
        if code >= len(KINDS):
            raise CorruptWal(f"unrecognized jsonpath item type: {code}")
        return KINDS[code]

    def place(self, number: int) -> int:
        """Where the u32 of that number behind the kind is; 0 is the place of the next node."""
        # Aligned in the path, which begins 4 bytes into the payload as the payload does behind its length word.
        place = self.at + 1
        return place + -place % 4 + 4 * number

    def word(self, number: int) -> int:
        """The u32 of that number behind the kind."""
        return int(struct.unpack_from("<I", self.payload, self.place(number))[0])

    def node(self, number: int) -> JsonPathItem | None:
        away = self.word(number)
        return JsonPathItem(self.payload, self.at + away, self.major) if away else None

    def bytes_at(self, number: int) -> bytes:
        """A length and that many bytes, from the u32 of that number on."""
        start = self.place(number + 1)
        return self.payload[start : start + self.word(number)]

    @property
    def following(self) -> JsonPathItem | None:
        return self.node(0)

    def argument(self, number: int) -> JsonPathItem:
        """An operand that there must be."""
        found = self.node(number)
        if found is None:
            raise CorruptWal(f"jsonpath item {self.kind} without an operand")
        return found

    def text_at(self, number: int) -> str:
        return as_string(self.bytes_at(number))

    @property
    def is_true(self) -> bool:
        return self.payload[self.place(1)] != 0

    @property
    def stored_numeric(self) -> bytes:
        start = self.place(1)
        return self.payload[start + 4 : start + (self.word(1) >> 2)]

    @property
    def priority(self) -> int:
        return PRIORITY.get(self.kind, HIGHEST_PRIORITY)

    def text(self, *, after_key: bool, brackets: bool) -> str:
        own = self._own(after_key, brackets)
        following = self.node(0)
        return own + (following.text(after_key=True, brackets=True) if following else "")

    def inner(self, number: int) -> str:
        """An operand, in brackets if it does not bind stronger."""
        operand = self.node(number)
        return "" if operand is None else operand.text(after_key=False, brackets=operand.priority <= self.priority)

    def plain(self, number: int) -> str:
        operand = self.node(number)
        return "" if operand is None else operand.text(after_key=False, brackets=False)

    def _own(self, after_key: bool, brackets: bool) -> str:
        kind, dot = self.kind, "." if after_key else ""
        if kind in BINARY:
            return _enclosed(f"{self.inner(1)} {kind} {self.inner(2)}", brackets)
        if kind in {"plus", "minus"}:
            return _enclosed(("+" if kind == "plus" else "-") + self.inner(1), brackets)
        if kind in METHODS:
            return f".{kind.removesuffix('()')}()"
        if kind in METHODS_WITH_ONE:
            return f".{kind}({self.plain(1)})"
        if kind == "decimal":
            return f".decimal({self.plain(1)}{',' + self.plain(2) if self.word(2) else ''})"
        if kind == "key":
            return dot + _quoted(self.bytes_at(1))
        if kind == "variable":
            return "$" + _quoted(self.bytes_at(1))
        if kind == "like_regex":
            return _enclosed(self._like_regex(), brackets)
        if kind == "index":
            return f"[{','.join(self._range(number) for number in range(self.word(1)))}]"
        if kind == "**":
            return dot + _levels(self.word(1), self.word(2))
        if kind in {"!", "?", "exists", "is unknown"}:
            shape = {"!": "!({})", "?": "?({})", "exists": "exists ({})", "is unknown": "({}) is unknown"}[kind]
            return shape.format(self.plain(1))
        if kind == ".*":
            return dot + "*"
        return kind if kind in {"null", "[*]", "@", "$", "last"} else self._literal()

    def _literal(self) -> str:
        if self.kind == "string":
            return _quoted(self.bytes_at(1))
        if self.kind == "bool":
            return "true" if self.is_true else "false"
        if self.kind != "numeric":
            raise CorruptWal(f"unrecognized jsonpath item type: {self.kind}")
        number = print_numerics(Values.of_payloads([self.stored_numeric], -1)).to_list()[0]
        # 14 forgets the brackets, and prints what it cannot read.
        return _enclosed(number, self.word(0) != 0 and supports(self.major, JSONPATH_NUMBERS_IN_BRACKETS))

    def _range(self, number: int) -> str:
        first, last = 2 + 2 * number, 3 + 2 * number
        return self.plain(first) + (f" to {self.plain(last)}" if self.word(last) else "")

    def _like_regex(self) -> str:
        flags = "".join(letter for bit, letter in REGEX_FLAGS if self.word(1) & bit)
        return f"{self.inner(2)} like_regex {_quoted(self.bytes_at(3))}" + (f' flag "{flags}"' if flags else "")


def _levels(first: int, last: int) -> str:
    if first == 0 and last == EVER:
        return "**"
    low, high = ("last" if level == EVER else str(level) for level in (first, last))
    return f"**{{{low}}}" if first == last else f"**{{{low} to {high}}}"


def _enclosed(text: str, brackets: bool) -> str:
    return f"({text})" if brackets else text


def _quoted(word: bytes) -> str:
    return '"' + as_string(word).translate(ESCAPES) + '"'
