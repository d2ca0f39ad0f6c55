"""Who may connect from where to what, and how he has to show who he is: rules in the syntax of pg_hba.conf (`libpq/hba.c`; manual, "The
pg_hba.conf File").

In: the file's text. Out: rules, of which the first that fits a client decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import Enum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


class Method(Enum):
    """How a client shows who he is. `md5` asks for SCRAM where the verifier is one, as on the server, and no other is kept."""

    TRUST = "trust"
    REJECT = "reject"
    SCRAM = "scram-sha-256"
    MD5 = "md5"
    PEER = "peer"


@dataclass(frozen=True, slots=True)
class Arrival:
    """A client before it is let in. No address: it came by a Unix socket. `is_physical`: it asked for `replication=true`."""

    user: str
    database: str
    address: Address | None
    is_encrypted: bool
    is_physical: bool = False

    def __str__(self) -> str:
        """As the server's refusals name it."""
        host = "[local]" if self.address is None else str(self.address)
        what = f'for replication connection from host "{host}", user "{self.user}"' if self.is_physical else (
            f'for host "{host}", user "{self.user}", database "{self.database}"'
        )  # fmt: skip
        return f"{what}, {'SSL encryption' if self.is_encrypted else 'no encryption'}"


@dataclass(frozen=True, slots=True)
class Word:
    """One that was quoted is a name, whatever it says."""

    text: str
    is_quoted: bool = False

    def is_keyword(self, *keywords: str) -> bool:
        return not self.is_quoted and self.text in keywords


@dataclass(frozen=True, slots=True)
class Rule:
    """A line of the file. `networks` is None where any address will do."""

    kind: str
    databases: tuple[Word, ...]
    users: tuple[Word, ...]
    networks: tuple[Network, ...] | None
    method: Method
    line: int = 0

    def fits(self, arrival: Arrival) -> bool:
        return (
            self._fits_way(arrival) and self._fits_database(arrival) and any(_is_named(word, arrival.user) for word in self.users)
        )

    def _fits_way(self, arrival: Arrival) -> bool:
        if arrival.address is None or self.kind == "local":
            return arrival.address is None and self.kind == "local"
        if (self.kind == "hostssl" and not arrival.is_encrypted) or (self.kind == "hostnossl" and arrival.is_encrypted):
            return False
        return self.networks is None or any(arrival.address in network for network in self.networks)

    def _fits_database(self, arrival: Arrival) -> bool:
        """`replication` is what asks for WAL itself, and nothing else is (`check_db`)."""
        if arrival.is_physical:
            return any(word.is_keyword("replication") for word in self.databases)
        for word in self.databases:
            if word.is_keyword("replication"):
                continue
            if word.is_keyword("sameuser"):
                if arrival.database == arrival.user:
                    return True
            elif _is_named(word, arrival.database):
                return True
        return False


def _is_named(word: Word, name: str) -> bool:
    if word.is_keyword("all"):
        return True
    if word.text.startswith("/"):
        return re.search(word.text[1:], name) is not None
    return word.text == name


def rule_for(rules: tuple[Rule, ...], arrival: Arrival) -> Rule:
    """The rule that decides. Raises UsageError (28000) if it rejects, or if there is none."""
    for rule in rules:
        if rule.fits(arrival):
            if rule.method is Method.REJECT:
                raise UsageError(f"pg_hba.conf rejects connection {arrival}", sqlstate="28000")
            return rule
    raise UsageError(f"no pg_hba.conf entry {arrival}", sqlstate="28000")


# -- the file --------------------------------------------------------------------------------------------------------------

_TOKEN = re.compile(r'[ \t\r,]*(?P<token>(?:[^ \t\r,"#]|"(?:[^"]|"")*"?)+)(?P<comma>,?)')
"""What a quote begins goes on to the next, or to the end of the line; a doubled one stands for itself."""
_QUOTED = re.compile(r'"((?:[^"]|"")*)"?')
_KINDS = ("local", "host", "hostssl", "hostnossl", "hostgssenc", "hostnogssenc")
_LOOPBACK: Mapping[str, tuple[Network, ...] | None] = {
    "all": None,
    "samehost": (ip_network("127.0.0.0/8"), ip_network("::1/128")),
}


def parse_rules(text: str, name: str = "pg_hba.conf") -> tuple[Rule, ...]:
    """All lines. Raises UsageError (F0000) for one that is none, with its number."""
    rules = []
    for number, line in _lines(text):
        try:
            if fields := _fields(line):
                rules.append(_rule(fields, number))
        except ValueError as error:
            raise UsageError(str(error), context=f'line {number} of configuration file "{name}"', sqlstate="F0000") from None
    return tuple(rules)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """With the number of each; a backslash at its end joins the next to it."""
    joined = ""
    for number, line in enumerate(text.split("\n"), 1):
        if line.endswith("\\"):
            joined += line[:-1]
        else:
            yield number, joined + line
            joined = ""
    yield 0, joined


def _fields(line: str) -> list[tuple[Word, ...]]:
    """Lists of words, parted by space; a comma behind a word has the next one join it (`next_token`, `next_field_expand`)."""
    fields: list[list[Word]] = []
    joins, at = False, 0
    while match := _TOKEN.match(line, at):
        at, token = match.end(), match["token"]
        word = Word(_QUOTED.sub(lambda quoted: quoted[1].replace('""', '"'), token), token.startswith('"'))
        if joins:
            fields[-1].append(word)
        else:
            fields.append([word])
        joins = bool(match["comma"])
    return [tuple(field) for field in fields]


def _rule(fields: list[tuple[Word, ...]], number: int) -> Rule:
    kind = _one(fields[0], "connection type")
    if kind not in _KINDS:
        raise ValueError(f'invalid connection type "{kind}"')
    if kind.startswith("hostgss"):
        raise ValueError("hostgssenc record cannot match because GSSAPI is not supported by this build")
    if len(fields) < 3:
        raise ValueError(
            "end-of-line before role specification" if len(fields) == 2 else "end-of-line before database specification"
        )
    for word in (*fields[1], *fields[2]):
        _check_word(word)
    rest = fields[3:]
    networks: tuple[Network, ...] | None = None
    if kind != "local":
        if not rest:
            raise ValueError("end-of-line before IP address specification")
        networks, rest = _networks(rest)
    if not rest:
        raise ValueError("end-of-line before authentication method")
    name = _one(rest[0], "authentication type")
    try:
        method = Method(name)
    except ValueError:
        raise ValueError(f'invalid authentication method "{name}"') from None
    if method is Method.PEER and kind != "local":
        raise ValueError("peer authentication is only supported on local sockets")
    if len(rest) > 1:
        raise ValueError(f'authentication option "{rest[1][0].text}" is not known here')
    return Rule("host" if kind == "hostnogssenc" else kind, fields[1], fields[2], networks, method, number)


def _one(field: tuple[Word, ...], what: str) -> str:
    if len(field) > 1:
        raise ValueError(f"multiple values specified for {what}")
    return field[0].text


def _check_word(word: Word) -> None:
    """Raise ValueError for what would never fit, or ends who asks: a rule that rejects would be passed over."""
    if word.text.startswith("/"):
        try:
            re.compile(word.text[1:])
        except re.error as error:
            raise ValueError(f'invalid regular expression "{word.text[1:]}": {error}') from None
    elif not word.is_quoted and word.text[0] in "+@":
        raise ValueError(f'"{word.text}" is not supported here: there are no groups of roles, and names stand in this file')


def _networks(rest: list[tuple[Word, ...]]) -> tuple[tuple[Network, ...] | None, list[tuple[Word, ...]]]:
    """An address, with its mask behind a slash or by itself."""
    text = _one(rest[0], "host address")
    if text in _LOOPBACK:
        return _LOOPBACK[text], rest[1:]
    try:
        if "/" not in text:
            mask = _one(rest[1], "netmask") if len(rest) > 1 else ""
            return (ip_network(f"{ip_address(text)}/{mask}"),), rest[2:]
        if not text.rpartition("/")[2].isdecimal():
            raise ValueError
        return (ip_network(text, strict=False),), rest[1:]
    except ValueError:
        raise ValueError(f'invalid IP address "{text}": names of hosts are not looked up') from None


DEFAULT_RULES = parse_rules(
    """
    local all,replication all trust
    host all,replication all 127.0.0.1/32 trust
    host all,replication all ::1/128 trust
    host all,replication all all scram-sha-256
    """
)
"""Without a file: who is on this machine is trusted, others show a password."""
