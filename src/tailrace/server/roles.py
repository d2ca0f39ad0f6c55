"""The roles that may connect, from a file in TOML: a table each.

[orders_reader]
password = "SCRAM-SHA-256$4096:…$…:…"   # as in pg_authid.rolpassword
replication = true                      # may stream slots, and create and drop them; without it, none
databases = ["app"]                     # these only; without it any
slots = ["orders_*"]                    # names, with * and ?
publications = ["orders"]
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.sql.privileges import Privileges

_VERIFIER = re.compile(r"SCRAM-SHA-256\$([0-9]{1,9}):([A-Za-z0-9+/]+={0,2})\$([A-Za-z0-9+/]{43}=):([A-Za-z0-9+/]{43}=)")


@dataclass(frozen=True, slots=True)
class Role:
    """`password` is a verifier of SCRAM-SHA-256, empty: none."""

    privileges: Privileges
    password: str = ""


@dataclass(frozen=True, slots=True)
class Roles:
    """By name. Without a file, `known` is None: whoever a rule trusts has the role that he names."""

    known: Mapping[str, Role] | None = None

    def role(self, name: str) -> Role:
        """Raises UsageError (28000) if there is none of this name."""
        if self.known is None:
            return Role(Privileges(name))
        if name not in self.known:
            raise UsageError(f'role "{name}" does not exist', sqlstate="28000")
        return self.known[name]

    def find(self, name: str) -> Role | None:
        """The same for who must not tell whether there is one."""
        return None if self.known is None else self.known.get(name)


def parse_roles(text: str, file: str = "roles.toml") -> Roles:
    """Raises UsageError (F0000) for what is no such file."""
    try:
        tables = tomllib.loads(text)
        return Roles({name: _role(name, table) for name, table in tables.items()})
    except (ValueError, RecursionError) as error:
        raise UsageError(f'roles file "{file}": {error}', sqlstate="F0000") from None


def _role(name: str, table: Any) -> Role:
    if not isinstance(table, dict):
        raise ValueError(f'"{name}" is no table')
    values: dict[str, Any] = {"replication": False}  # as of a role that CREATE ROLE makes
    password = ""
    for key, value in table.items():
        if key in ("databases", "slots", "publications"):
            if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
                raise ValueError(f'"{key}" of role "{name}" is no list of names')
            values[key] = tuple(value)
        elif key == "replication" and isinstance(value, bool):
            values[key] = value
        elif key == "password" and isinstance(value, str):
            password = value
        else:
            raise ValueError(f'"{key}" of role "{name}" is not known, or of another type')
    if password and not _is_verifier(password):
        raise ValueError(f'the password of role "{name}" is no SCRAM-SHA-256 verifier, as pg_authid has it')
    return Role(Privileges(name, **values), password)


def _is_verifier(text: str) -> bool:
    found = _VERIFIER.fullmatch(text)
    return found is not None and int(found[1]) > 0 and len(found[2]) % 4 == 0
