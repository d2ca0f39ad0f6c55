"""Who may connect from where to what, and how he has to show who he is: rules in the syntax of pg_hba.conf (`libpq/hba.c`; manual, "The
pg_hba.conf File").

In: the file's text. Out: rules, of which the first that fits a client decides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
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
    if not word.is_quoted and word.text.startswith("/"):
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

_TOKEN = re.compile(r'"(?P<quoted>[^"]*)"|(?P<comma>,)|(?P<comment>#.*)|(?P<plain>[^\s,"#]+)|(?P<space>\s+)')
_KINDS = ("local", "host", "hostssl", "hostnossl", "hostgssenc", "hostnogssenc")
_LOOPBACK: Mapping[str, tuple[Network, ...] | None] = {
    "all": None,
    "samehost": (ip_network("127.0.0.0/8"), ip_network("::1/128")),
}
_WITH_MASK = 6


def parse_rules(text: str, name: str = "pg_hba.conf") -> tuple[Rule, ...]:
    """All lines. Raises UsageError (F0000) for one that is none, with its number."""
    rules = []
    for number, line in enumerate(text.replace("\\\n", "  ").splitlines(), 1):
        fields = _fields(line)
        if fields:
            try:
                rules.append(_rule(fields, number))
            except ValueError as error:
                raise UsageError(str(error), context=f'line {number} of configuration file "{name}"', sqlstate="F0000") from None
    return tuple(rules)


def _fields(line: str) -> list[tuple[Word, ...]]:
    """Lists of words, parted by space; a comma joins."""
    fields: list[list[Word]] = []
    joins, at = False, 0
    while at < len(line):
        match = _TOKEN.match(line, at)
        if match is None:  # a quote that does not end
            return [(Word(line[at:]),)]
        at = match.end()
        if match.lastgroup == "comma":
            joins = True
        elif match.lastgroup in ("quoted", "plain"):
            word = Word(match[match.lastgroup], match.lastgroup == "quoted")
            if joins and fields:
                fields[-1].append(word)
            else:
                fields.append([word])
            joins = False
    return [tuple(field) for field in fields]


def _rule(fields: list[tuple[Word, ...]], number: int) -> Rule:
    kind = fields[0][0].text
    if kind not in _KINDS:
        raise ValueError(f'invalid connection type "{kind}"')
    if kind.startswith("hostgss"):
        raise ValueError("hostgssenc record cannot match because GSSAPI is not supported by this build")
    if len(fields) < 3:
        raise ValueError(
            "end-of-line before role specification" if len(fields) == 2 else "end-of-line before database specification"
        )
    rest = fields[3:]
    networks: tuple[Network, ...] | None = None
    if kind != "local":
        if not rest:
            raise ValueError("end-of-line before IP address specification")
        networks, rest = _networks(rest)
    if not rest:
        raise ValueError("end-of-line before authentication method")
    try:
        method = Method(rest[0][0].text)
    except ValueError:
        raise ValueError(f'invalid authentication method "{rest[0][0].text}"') from None
    if method is Method.PEER and kind != "local":
        raise ValueError("peer authentication is only supported on local sockets")
    if len(rest) > 1:
        raise ValueError(f'authentication option "{rest[1][0].text}" is not known here')
    return Rule("host" if kind == "hostnogssenc" else kind, fields[1], fields[2], networks, method, number)


def _networks(rest: list[tuple[Word, ...]]) -> tuple[tuple[Network, ...] | None, list[tuple[Word, ...]]]:
    """An address, with its mask behind a slash or by itself."""
    text = rest[0][0].text
    if text in _LOOPBACK:
        return _LOOPBACK[text], rest[1:]
    try:
        if "/" not in text:
            mask = rest[1][0].text if len(rest) > 1 else ""
            return (ip_network(f"{ip_address(text)}/{mask}"),), rest[2:]
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
