"""What pg_settings says of parameters, beside their values: units, categories, descriptions, bounds (`utils/misc/guc_tables.c`).

In: a major. Out: `ParameterFacts` by name, of the parameters that `tailrace serve` has. The table (`parameters.tsv`) is what PostgreSQL 14 to 18 say
(tools/server_parameters.py writes it).
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from tailrace.majors import Capability, Compared, supports
from tailrace.sql.sql_types import read_array

COMPARED = Compared(__name__, "pg_settings of a server (tools/server_parameters.py)", upto=18)
_NULL = "\\N"


class ParameterFacts(NamedTuple):
    """One, under the names of its columns."""

    name: str
    unit: str | None
    category: str
    short_desc: str
    extra_desc: str | None
    context: str
    vartype: str
    min_val: str | None
    max_val: str | None
    boot_val: str | None
    enumvals: str | None

    @property
    def values(self) -> dict[str, object]:
        return {**self._asdict(), "enumvals": None if self.enumvals is None else read_array(self.enumvals)}


FIELDS = ParameterFacts._fields


@cache
def parameter_facts(major: int) -> Mapping[str, ParameterFacts]:
    """By name, in lower case."""
    COMPARED.check(major)
    table = pkgutil.get_data("tailrace.server", "parameters.tsv")
    assert table is not None
    lines = [line.split("\t") for line in table.decode().splitlines()[1:]]
    mine = [fields for majors, *fields in lines if supports(major, Capability.of(majors))]
    facts = (ParameterFacts(*(None if each == _NULL else each for each in fields)) for fields in mine)  # type: ignore[arg-type]
    return {each.name.lower(): each for each in facts}
