"""The commands of the streaming replication protocol (`replication/repl_scanner.l` and `repl_gram.y`; manual, "Streaming
Replication Protocol").

In: the text of a query on a replication connection, and the source's major. Out: the command, None where it is SQL; or UsageError
(42601). Words of the grammar are upper case, exactly; what one major does not know as a first word is SQL to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import field

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.majors import IN_ALL, REPLICATION_SLOTS_ALTERED, REPLICATION_SLOTS_READ, supports
from tailrace.model import NAMEDATALEN, Lsn

Options = tuple[tuple[str, str | int | None], ...]
"""Names and values in their order; None: an option without a value."""


@dataclass(frozen=True, slots=True)
class IdentifySystemCmd:
    pass


@dataclass(frozen=True, slots=True)
class VariableShowCmd:
    name: str


@dataclass(frozen=True, slots=True)
class ReadReplicationSlotCmd:
    slot: str


@dataclass(frozen=True, slots=True)
class CreateReplicationSlotCmd:
    """`plugin` is empty for a physical slot."""

    slot: str
    plugin: str
    temporary: bool = False
    options: Options = ()


@dataclass(frozen=True, slots=True)
class AlterReplicationSlotCmd:
    slot: str
    options: Options


@dataclass(frozen=True, slots=True)
class DropReplicationSlotCmd:
    slot: str
    wait: bool = False


@dataclass(frozen=True, slots=True)
class StartReplicationCmd:
    """`slot` may be empty where WAL itself is asked for."""

    slot: str
    start: Lsn
    is_logical: bool
    timeline: int = 0
    options: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True)
class TimeLineHistoryCmd:
    timeline: int


@dataclass(frozen=True, slots=True)
class BaseBackupCmd:
    pass


@dataclass(frozen=True, slots=True)
class UploadManifestCmd:
    pass


ReplicationCommand = (
    IdentifySystemCmd | VariableShowCmd | ReadReplicationSlotCmd | CreateReplicationSlotCmd | AlterReplicationSlotCmd
    | DropReplicationSlotCmd | StartReplicationCmd | TimeLineHistoryCmd | BaseBackupCmd | UploadManifestCmd
)  # fmt: skip


# -- words -----------------------------------------------------------------------------------------------------------------

_KEYWORDS = frozenset(
    """BASE_BACKUP IDENTIFY_SYSTEM SHOW READ_REPLICATION_SLOT TIMELINE START_REPLICATION CREATE_REPLICATION_SLOT
    DROP_REPLICATION_SLOT ALTER_REPLICATION_SLOT TIMELINE_HISTORY PHYSICAL RESERVE_WAL LOGICAL SLOT TEMPORARY TWO_PHASE
    EXPORT_SNAPSHOT NOEXPORT_SNAPSHOT USE_SNAPSHOT WAIT UPLOAD_MANIFEST""".split()
)
_FIRST_WORDS = {
    "IDENTIFY_SYSTEM": IN_ALL, "BASE_BACKUP": IN_ALL, "START_REPLICATION": IN_ALL, "CREATE_REPLICATION_SLOT": IN_ALL,
    "DROP_REPLICATION_SLOT": IN_ALL, "TIMELINE_HISTORY": IN_ALL, "SHOW": IN_ALL, "READ_REPLICATION_SLOT": REPLICATION_SLOTS_READ,
    "ALTER_REPLICATION_SLOT": REPLICATION_SLOTS_ALTERED, "UPLOAD_MANIFEST": REPLICATION_SLOTS_ALTERED,
}  # fmt: skip
_WORD = re.compile(
    r"""[ \t\n\r\f]*(?:
    (?P<recptr>[0-9A-Fa-f]+/[0-9A-Fa-f]+)|(?P<word>[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]*)|(?P<number>[0-9]+)|
    "(?P<quoted>(?:[^"]|"")*)"|'(?P<text>(?:[^']|'')*)'|(?P<sign>.))""",
    re.VERBOSE | re.DOTALL,
)
_SPACE = " \t\n\r\f"


@dataclass(frozen=True, slots=True)
class _CommandToken:
    """`kind` is a keyword itself, or IDENT, TEXT, NUMBER, RECPTR, or a sign itself; the end is an empty one."""

    kind: str
    value: str = ""


_END = _CommandToken("")


def _tokens(text: str, notice: Callable[[str], None]) -> list[_CommandToken]:
    tokens, at = [], 0
    while at < len(text.rstrip(_SPACE)):
        match = _WORD.match(text, at)
        if match is None:
            raise _syntax_error()
        at = match.end()
        tokens.append(_token(match, notice))
    return tokens


def _token(match: re.Match[str], notice: Callable[[str], None]) -> _CommandToken:
    kind = match.lastgroup or ""
    value = match[kind]
    if kind == "word" and value in _KEYWORDS:
        return _CommandToken(value, value)
    if kind == "word":
        return _CommandToken("IDENT", _cut("".join(each.lower() if each.isascii() else each for each in value), notice))
    if kind == "quoted":
        return _CommandToken("IDENT", _cut(value.replace('""', '"'), notice))
    if kind == "text":
        return _CommandToken("TEXT", value.replace("''", "'"))
    if kind == "sign":
        return _CommandToken(value, value)
    return _CommandToken(kind.upper(), value)


def _cut(name: str, notice: Callable[[str], None]) -> str:
    """A name as long as names may be (`truncate_identifier`)."""
    raw = name.encode("utf-8", "surrogateescape")
    if len(raw) < NAMEDATALEN:
        return name
    cut = raw[: NAMEDATALEN - 1].decode("utf-8", "ignore")
    notice(f'identifier "{name}" will be truncated to "{cut}"')
    return cut


def _syntax_error() -> UsageError:
    return UsageError("syntax error", sqlstate="42601")


# -- sentences -------------------------------------------------------------------------------------------------------------


def first_word(text: str) -> str:
    """What decides whether a query is a replication command (`replication_scanner_is_replication_command`)."""
    match = _WORD.match(text)
    return match["word"] or "" if match else ""


def is_replication_command(text: str, major: int) -> bool:
    word = first_word(text)
    return word in _FIRST_WORDS and supports(major, _FIRST_WORDS[word])


def parse_replication_command(text: str, major: int, notice: Callable[[str], None]) -> ReplicationCommand | None:
    """None where it is SQL; `notice` hears of names that were cut."""
    if not is_replication_command(text, major):
        return None
    return _CommandParser(_tokens(text, notice)).command()


@dataclass(slots=True)
class _CommandParser:
    tokens: list[_CommandToken]
    at: int = field(default=0)

    def command(self) -> ReplicationCommand:
        word = self._next().kind
        commands: dict[str, Callable[[], ReplicationCommand]] = {
            "IDENTIFY_SYSTEM": IdentifySystemCmd, "SHOW": self._show, "READ_REPLICATION_SLOT": self._read,
            "CREATE_REPLICATION_SLOT": self._create, "ALTER_REPLICATION_SLOT": self._alter, "DROP_REPLICATION_SLOT": self._drop,
            "START_REPLICATION": self._start, "TIMELINE_HISTORY": self._timeline_history, "BASE_BACKUP": self._base_backup,
            "UPLOAD_MANIFEST": UploadManifestCmd,
        }  # fmt: skip
        command = commands[word]()
        self._takes(";")
        self._expect("")
        return command

    def _show(self) -> VariableShowCmd:
        name = self._expect("IDENT")
        while self._takes("."):
            name += "." + self._expect("IDENT")
        return VariableShowCmd(name)

    def _read(self) -> ReadReplicationSlotCmd:
        return ReadReplicationSlotCmd(self._expect("IDENT"))

    def _create(self) -> CreateReplicationSlotCmd:
        slot, temporary = self._expect("IDENT"), self._takes("TEMPORARY")
        plugin = ""
        if not self._takes("PHYSICAL"):
            self._expect("LOGICAL")
            plugin = self._expect("IDENT")
        options = self._options() if self._is("(") else self._legacy_options()
        return CreateReplicationSlotCmd(slot, plugin, temporary, options)

    def _legacy_options(self) -> Options:
        options = []
        while self._peek().kind in _LEGACY_OPTIONS:
            options.append(_LEGACY_OPTIONS[self._next().kind])
        return tuple(options)

    def _alter(self) -> AlterReplicationSlotCmd:
        return AlterReplicationSlotCmd(self._expect("IDENT"), self._options())

    def _drop(self) -> DropReplicationSlotCmd:
        return DropReplicationSlotCmd(self._expect("IDENT"), self._takes("WAIT"))

    def _start(self) -> StartReplicationCmd:
        slot = self._expect("IDENT") if self._takes("SLOT") else ""
        if slot and self._takes("LOGICAL"):
            start = self._start_point()
            return StartReplicationCmd(slot, start, is_logical=True, options=self._plugin_options())
        self._takes("PHYSICAL")
        start = self._start_point()
        timeline = self._timeline() if self._takes("TIMELINE") else 0
        return StartReplicationCmd(slot, start, is_logical=False, timeline=timeline)

    def _start_point(self) -> Lsn:
        try:
            return Lsn.parse(self._expect("RECPTR"))
        except ValueError:
            raise UsageError("invalid streaming start location", sqlstate="42601") from None

    def _timeline_history(self) -> TimeLineHistoryCmd:
        return TimeLineHistoryCmd(self._timeline())

    def _timeline(self) -> int:
        timeline = int(self._expect("NUMBER"))
        if timeline == 0:
            raise UsageError(f"invalid timeline {timeline}", sqlstate="42601")
        return timeline

    def _base_backup(self) -> BaseBackupCmd:
        """Nobody here makes one, so what it asks for is not read."""
        self.at = len(self.tokens)
        return BaseBackupCmd()

    def _options(self) -> Options:
        """`( name [value], … )`, where a name may be a word of the grammar."""
        self._expect("(")
        options: list[tuple[str, str | int | None]] = []
        while not options or self._takes(","):
            token = self._next()
            if token.kind not in ("IDENT", *_KEYWORDS):
                raise _syntax_error()
            name, value = token.value.lower() if token.kind in _KEYWORDS else token.value, self._peek()
            if value.kind in ("IDENT", "TEXT", "NUMBER"):
                self._next()
                options.append((name, int(value.value) if value.kind == "NUMBER" else value.value))
            else:
                options.append((name, None))
        self._expect(")")
        return tuple(options)

    def _plugin_options(self) -> tuple[tuple[str, str | None], ...]:
        options: list[tuple[str, str | None]] = []
        if self._takes("("):
            while not options or self._takes(","):
                options.append((self._expect("IDENT"), self._next().value if self._is("TEXT") else None))
            self._expect(")")
        return tuple(options)

    # -- token by token ----------------------------------------------------------------------------------------------------

    def _peek(self) -> _CommandToken:
        return self.tokens[self.at] if self.at < len(self.tokens) else _END

    def _next(self) -> _CommandToken:
        token = self._peek()
        self.at += 1
        return token

    def _is(self, kind: str) -> bool:
        return self._peek().kind == kind

    def _takes(self, kind: str) -> bool:
        if self._is(kind):
            self.at += 1
            return True
        return False

    def _expect(self, kind: str) -> str:
        token = self._next()
        if token.kind != kind:
            raise _syntax_error()
        return token.value


_LEGACY_OPTIONS: dict[str, tuple[str, str | int | None]] = {
    "EXPORT_SNAPSHOT": ("snapshot", "export"),
    "NOEXPORT_SNAPSHOT": ("snapshot", "nothing"),
    "USE_SNAPSHOT": ("snapshot", "use"),
    "RESERVE_WAL": ("reserve_wal", None),
    "TWO_PHASE": ("two_phase", None),
}
"""As the options in parentheses that they stand for."""
