"""PostgreSQL's own text of a stored expression (pg_node_tree, `nodes/outfuncs.c`), as in pg_publication_rel.prqual, made a tree.

In: `{OPEXPR :opno 521 … :args ({VAR …} {CONST …})}` of a server from 15 to 18. Out: an `Expression`. A node is read by the names of
its fields, so it does not matter that majors have different ones; `FIELDS` names all that are known, and a field or a node that is not known is
refused by its name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tailrace.errors import UnsupportedWal
from tailrace.expressions import tree

_TOKEN = re.compile(r"[(){}]|(?:\\.|[^\s(){}\\])+", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)

Fields = dict[str, Any]

FIELDS: dict[str, str] = {
    "VAR": "varattno vartype vartypmod varcollid varlevelsup varno varnosyn varattnosyn varnullingrels varreturningtype location",
    "CONST": "consttype consttypmod constcollid constlen constbyval constisnull constvalue location",
    "OPEXPR": "opno opfuncid opresulttype opretset opcollid inputcollid args location",
    "DISTINCTEXPR": "opno opfuncid opresulttype opretset opcollid inputcollid args location",
    "NULLIFEXPR": "opno opfuncid opresulttype opretset opcollid inputcollid args location",
    "FUNCEXPR": "funcid funcresulttype funcretset funcvariadic funcformat funccollid inputcollid args location",
    "SCALARARRAYOPEXPR": "opno opfuncid hashfuncid negfuncid useOr inputcollid args location",
    "ROWCOMPAREEXPR": "rctype cmptype opnos opfamilies inputcollids largs rargs",
    "BOOLEXPR": "boolop args location",
    "RELABELTYPE": "arg resulttype resulttypmod resultcollid relabelformat location",
    "COLLATEEXPR": "arg collOid location",
    "CASEEXPR": "casetype casecollid arg args defresult location",
    "CASE": "casetype casecollid arg args defresult location",
    "CASEWHEN": "expr result location",
    "WHEN": "expr result location",
    "CASETESTEXPR": "typeId typeMod collation",
    "ARRAYEXPR": "array_typeid array_collid element_typeid elements multidims list_start list_end location",
    "ARRAY": "array_typeid array_collid element_typeid elements multidims list_start list_end location",
    "ROWEXPR": "args row_typeid row_format colnames location",
    "ROW": "args row_typeid row_format colnames location",
    "ROWCOMPARE": "rctype cmptype opnos opfamilies inputcollids largs rargs",
    "COALESCEEXPR": "coalescetype coalescecollid args location",
    "COALESCE": "coalescetype coalescecollid args location",
    "MINMAXEXPR": "minmaxtype minmaxcollid inputcollid op args location",
    "MINMAX": "minmaxtype minmaxcollid inputcollid op args location",
    "XMLEXPR": "op name named_args arg_names args xmloption indent type typmod location",
    "NULLTEST": "arg nulltesttype argisrow location",
    "BOOLEANTEST": "arg booltesttype location",
    "SQLVALUEFUNCTION": "op type typmod location",
    "COERCEVIAIO": "arg resulttype resultcollid coerceformat location",
    "ARRAYCOERCEEXPR": "arg elemexpr resulttype resulttypmod resultcollid coerceformat location",
    "COERCETODOMAIN": "arg resulttype resulttypmod resultcollid coercionformat location",
}
"""The nodes that a stored row filter or a default may have, and all their fields in any major."""


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
        if isinstance(node, tree.SqlValue | tree.OtherCast):
            raise UnsupportedWal(f'unrecognized node "{type(node).__name__}" in a stored expression')
    return found


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
        if label not in FIELDS:
            raise UnsupportedWal(f'unrecognized node "{label}" in a stored expression')
        known = FIELDS[label].split()
        fields: Fields = {}
        while (token := self.next()) != "}":
            name = token.removeprefix(":")
            if not token.startswith(":") or name not in known:
                raise UnsupportedWal(f'unrecognized field "{name}" of node "{label}" in a stored expression')
            fields[name] = self.datum() if name == "constvalue" else self.value()
        try:
            return MAKERS[label](fields)
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


def _oids(words: tuple[str, ...] | None) -> tuple[int, ...]:
    return tuple(int(word) for word in (words or ("o",))[1:])


def _strings(words: tuple[str, ...] | None) -> tuple[str, ...]:
    return tuple(_unescaped(word.removeprefix('"').removesuffix('"')) for word in words or ())


def _unescaped(word: str) -> str:
    return _ESCAPED.sub(r"\1", word)


def _true(word: str) -> bool:
    return word == "true"


def _place(fields: Fields) -> int:
    return int(fields.get("location", -1))


def _column(fields: Fields) -> tree.Column:
    if int(fields["varlevelsup"]) or int(fields["varno"]) != 1 or int(fields.get("varreturningtype", 0)):
        raise UnsupportedWal("a stored expression refers to a row that is not the one tested")
    return tree.Column(
        int(fields["varattno"]), int(fields["vartype"]), int(fields["vartypmod"]), int(fields["varcollid"]), _place(fields)
    )


def _constant(fields: Fields) -> tree.Constant:
    raw, length = fields["constvalue"], int(fields["constlen"])
    value = None
    if not _true(fields["constisnull"]):
        assert raw is not None
        value = raw[:length] if length > 0 else _without_length(raw) if length == -1 else raw.removesuffix(b"\0")
    return tree.Constant(int(fields["consttype"]), value, int(fields["consttypmod"]), int(fields["constcollid"]), _place(fields))


def _without_length(raw: bytes) -> bytes:
    """A varlena's payload; constants are neither compressed nor stored elsewhere (`varatt.h`, little-endian)."""
    if raw[0] & 1:
        if raw[0] == 1:
            raise UnsupportedWal("a constant of a stored expression lies in a TOAST table")
        return raw[1:]
    if raw[0] & 2:
        raise UnsupportedWal("a constant of a stored expression is compressed")
    return raw[4:]


def _operator(fields: Fields) -> tree.Operator:
    return tree.Operator(
        int(fields["opno"]), int(fields["opfuncid"]), int(fields["opresulttype"]), fields["args"], int(fields["opcollid"]),
        int(fields["inputcollid"]), _true(fields["opretset"]), _place(fields),
    )  # fmt: skip


def _distinct(fields: Fields) -> tree.DistinctFrom:
    return tree.DistinctFrom(
        int(fields["opno"]), int(fields["opfuncid"]), fields["args"], int(fields["opresulttype"]), int(fields["opcollid"]),
        int(fields["inputcollid"]), _place(fields),
    )  # fmt: skip


def _null_if(fields: Fields) -> tree.NullIf:
    return tree.NullIf(
        int(fields["opno"]), int(fields["opfuncid"]), int(fields["opresulttype"]), fields["args"], int(fields["opcollid"]),
        int(fields["inputcollid"]), _place(fields),
    )  # fmt: skip


def _function(fields: Fields) -> tree.Function:
    return tree.Function(
        int(fields["funcid"]), int(fields["funcresulttype"]), fields["args"] or (), int(fields["funcformat"]),
        int(fields["funccollid"]), int(fields["inputcollid"]), _true(fields["funcvariadic"]), _true(fields["funcretset"]),
        _place(fields),
    )  # fmt: skip


def _array_comparison(fields: Fields) -> tree.ArrayComparison:
    return tree.ArrayComparison(
        int(fields["opno"]), int(fields["opfuncid"]), _true(fields["useOr"]), fields["args"], int(fields["inputcollid"]),
        _place(fields),
    )  # fmt: skip


def _row_comparison(fields: Fields) -> tree.RowComparison:
    kind = fields["rctype"] if "rctype" in fields else fields["cmptype"]
    return tree.RowComparison(
        int(kind),
        _oids(fields["opnos"]),
        _oids(fields["opfamilies"]),
        _oids(fields["inputcollids"]),
        fields["largs"],
        fields["rargs"],
    )


def _boolean(fields: Fields) -> tree.Expression:
    args, place = fields["args"], _place(fields)
    if fields["boolop"] == "not":
        (arg,) = args
        return tree.Not(arg, place)
    return tree.And(args, place) if fields["boolop"] == "and" else tree.Or(args, place)


def _relabel(fields: Fields) -> tree.Relabel:
    return tree.Relabel(
        fields["arg"], int(fields["resulttype"]), int(fields["resulttypmod"]), int(fields["resultcollid"]),
        int(fields["relabelformat"]), _place(fields),
    )  # fmt: skip


def _case(fields: Fields) -> tree.Case:
    return tree.Case(
        int(fields["casetype"]), fields["args"], fields["defresult"], fields["arg"], int(fields["casecollid"]), _place(fields)
    )


def _case_test(fields: Fields) -> tree.CaseTest:
    return tree.CaseTest(int(fields["typeId"]), int(fields["typeMod"]), int(fields["collation"]))


def _array_of(fields: Fields) -> tree.ArrayOf:
    return tree.ArrayOf(
        int(fields["array_typeid"]), int(fields["element_typeid"]), fields["elements"] or (), _true(fields["multidims"]),
        int(fields["array_collid"]), _place(fields),
    )  # fmt: skip


def _row_of(fields: Fields) -> tree.RowOf:
    return tree.RowOf(
        int(fields["row_typeid"]), fields["args"] or (), _strings(fields["colnames"]), int(fields["row_format"]), _place(fields)
    )


def _coalesce(fields: Fields) -> tree.Coalesce:
    return tree.Coalesce(int(fields["coalescetype"]), fields["args"], int(fields["coalescecollid"]), _place(fields))


def _min_max(fields: Fields) -> tree.MinMax:
    return tree.MinMax(
        int(fields["minmaxtype"]), fields["op"] == "1", fields["args"], int(fields["minmaxcollid"]), int(fields["inputcollid"]),
        _place(fields),
    )  # fmt: skip


def _xml(fields: Fields) -> tree.XmlExpression:
    name = fields["name"]
    return tree.XmlExpression(
        int(fields["op"]), int(fields["type"]), fields["args"] or (), None if name is None else _unescaped(name),
        fields["named_args"] or (), _strings(fields["arg_names"]), int(fields["xmloption"]), _true(fields.get("indent", "false")),
        int(fields["typmod"]), _place(fields),
    )  # fmt: skip


def _null_test(fields: Fields) -> tree.NullTest:
    return tree.NullTest(fields["arg"], fields["nulltesttype"] == "1", _true(fields["argisrow"]), _place(fields))


def _boolean_test(fields: Fields) -> tree.BooleanTest:
    return tree.BooleanTest(fields["arg"], int(fields["booltesttype"]), _place(fields))


def _sql_value(fields: Fields) -> tree.SqlValue:
    return tree.SqlValue(int(fields["op"]), int(fields["type"]), int(fields["typmod"]), _place(fields))


def _other_cast(fields: Fields) -> tree.OtherCast:
    form = fields["coerceformat"] if "coerceformat" in fields else fields["coercionformat"]
    return tree.OtherCast(
        fields["arg"], int(fields["resulttype"]), int(form), int(fields.get("resulttypmod", -1)), _place(fields)
    )


def _when(fields: Fields) -> tuple[tree.Expression, tree.Expression]:
    return fields["expr"], fields["result"]


MAKERS: dict[str, Callable[[Fields], Any]] = {
    "VAR": _column, "CONST": _constant, "OPEXPR": _operator, "DISTINCTEXPR": _distinct, "NULLIFEXPR": _null_if, "FUNCEXPR": _function,
    "SCALARARRAYOPEXPR": _array_comparison, "ROWCOMPAREEXPR": _row_comparison, "ROWCOMPARE": _row_comparison, "BOOLEXPR": _boolean,
    "RELABELTYPE": _relabel, "COLLATEEXPR": lambda fields: tree.Collate(fields["arg"], int(fields["collOid"]), _place(fields)),
    "CASEEXPR": _case, "CASE": _case, "CASEWHEN": _when, "WHEN": _when, "CASETESTEXPR": _case_test, "ARRAYEXPR": _array_of,
    "ARRAY": _array_of, "ROWEXPR": _row_of, "ROW": _row_of, "COALESCEEXPR": _coalesce, "COALESCE": _coalesce, "MINMAXEXPR": _min_max,
    "MINMAX": _min_max, "XMLEXPR": _xml, "NULLTEST": _null_test, "BOOLEANTEST": _boolean_test, "SQLVALUEFUNCTION": _sql_value,
    "COERCEVIAIO": _other_cast, "ARRAYCOERCEEXPR": _other_cast, "COERCETODOMAIN": _other_cast,
}  # fmt: skip
