"""The default parser of text search (`tsearch/wparser_def.c`): a text cut into words, numbers, hosts, files, tags and what is between them.

In: a text, and what its locale says of characters. Out: tokens. It is PostgreSQL's machine, whose states are a table here: behind the name of a
state tests, each with what is done where it holds. `any` always holds, and a single character where it is read. What is done: `!` a token of the type
behind the colon is found, `^` the machine goes back to where it was pushed last and tries the next test there, `+` it is pushed, `-` the last push is
forgotten, `=` all are, `&` the last push takes over where the machine is, `~` the character is looked at again; then comes the state to go to,
and behind `@` a special action.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from tailrace.dataclass import dataclass
from tailrace.expressions.evaluate.fmgr.refusals import refused

_STATES = """
Base  EOF  < +TagFirst  ignore Space  asclet AsciiWord  alpha Word  digit UnsignedInt  - +SignedIntFirst  + +SignedIntFirst
    & +XMLEntityFirst  ~ +FileTwiddle  / +FileFirst  . +PathFirstFirst  any Space
NumWord  EOF !Base:NUMWORD  alnum NumWord  special NumWord  @ +Email  / +FileFirst  . +FileNext  - +HyphenNumWordFirst
    any !Base:NUMWORD
AsciiWord  EOF !Base:ASCIIWORD  asclet  . +HostFirstDomain  . +FileNext  - +HostFirstAN  - +HyphenAsciiWordFirst  _ +HostFirstAN
    @ +Email  : +ProtocolFirst  / +FileFirst  digit +Host  digit NumWord  alpha Word  special Word  any !Base:ASCIIWORD
Word  EOF !Base:WORD  alpha  special  digit NumWord  - +HyphenWordFirst  any !Base:WORD
UnsignedInt  EOF !Base:UNSIGNEDINT  digit  . +HostFirstDomain  . +UDecimalFirst  e +MantissaFirst  E +MantissaFirst
    - +HostFirstAN  _ +HostFirstAN  @ +Email  asclet +Host  alpha NumWord  special NumWord  / +FileFirst  any !Base:UNSIGNEDINT
SignedIntFirst  EOF ^  digit -SignedInt  any ^
SignedInt  EOF !Base:SIGNEDINT  digit  . +DecimalFirst  e +MantissaFirst  E +MantissaFirst  any !Base:SIGNEDINT
Space  EOF !Base:SPACE  < !Base:SPACE  ignore  - !Base:SPACE  + !Base:SPACE  & !Base:SPACE  / !Base:SPACE  notalnum Space
    any !Base:SPACE
UDecimalFirst  EOF ^  digit -UDecimal  any ^
UDecimal  EOF !Base:DECIMAL  digit UDecimal  . +VersionFirst  e +MantissaFirst  E +MantissaFirst  any !Base:DECIMAL
DecimalFirst  EOF ^  digit -Decimal  any ^
Decimal  EOF !Base:DECIMAL  digit Decimal  . +VerVersion  e +MantissaFirst  E +MantissaFirst  any !Base:DECIMAL
VerVersion  EOF ^  digit ~SVerVersion@VerVersion  any ^
SVerVersion  EOF ^  digit !=UnsignedInt:SPACE  any
VersionFirst  EOF ^  digit -Version  any ^
Version  EOF !Base:VERSIONNUMBER  digit Version  . +VersionFirst  any !Base:VERSIONNUMBER
MantissaFirst  EOF ^  digit -Mantissa  + MantissaSign  - MantissaSign  any ^
MantissaSign  EOF ^  digit -Mantissa  any ^
Mantissa  EOF !Base:SCIENTIFIC  digit Mantissa  any !Base:SCIENTIFIC
XMLEntityFirst  EOF ^  # XMLEntityNumFirst  asclet XMLEntity  : XMLEntity  _ XMLEntity  any ^
XMLEntity  EOF ^  alnum XMLEntity  : XMLEntity  _ XMLEntity  . XMLEntity  - XMLEntity  ; XMLEntityEnd  any ^
XMLEntityNumFirst  EOF ^  x XMLEntityHexNumFirst  X XMLEntityHexNumFirst  digit XMLEntityNum  any ^
XMLEntityHexNumFirst  EOF ^  xdigit XMLEntityHexNum  any ^
XMLEntityNum  EOF ^  digit XMLEntityNum  ; XMLEntityEnd  any ^
XMLEntityHexNum  EOF ^  xdigit XMLEntityHexNum  ; XMLEntityEnd  any ^
XMLEntityEnd  any !-Base:XMLENTITY
TagFirst  EOF ^  / +TagCloseFirst  ! +CommentFirst  ? +XMLBegin  asclet +TagName  : +TagName  _ +TagName  any ^
XMLBegin  EOF ^  x Tag  any ^
TagCloseFirst  EOF ^  asclet TagName  any ^
TagName  EOF ^  / TagBeginEnd  > TagEnd@Tags  space Tag@Tags  alnum  :  _  .  -  any ^
TagBeginEnd  EOF ^  > TagEnd  any ^
Tag  EOF ^  > TagEnd@Tags  ' TagEscapeK  " TagEscapeKK  asclet  digit  =  -  _  #  /  :  .  &  ?  %  ~  space @Tags  any ^
TagEscapeK  EOF ^  \\ +TagBackSleshed  ' Tag  any TagEscapeK
TagEscapeKK  EOF ^  \\ +TagBackSleshed  " Tag  any TagEscapeKK
TagBackSleshed  EOF ^  any &
TagEnd  any !=Base:TAG
CommentFirst  EOF ^  - CommentLast  D Tag  d Tag  any ^
CommentLast  EOF ^  - Comment  any ^
Comment  EOF ^  - CloseCommentFirst  any
CloseCommentFirst  EOF ^  - CloseCommentLast  any Comment
CloseCommentLast  EOF ^  -  > CommentEnd  any Comment
CommentEnd  any !=Base:TAG
HostFirstDomain  EOF ^  asclet HostDomainSecond  digit Host  any ^
HostDomainSecond  EOF ^  asclet HostDomain  digit +Host  - +HostFirstAN  _ +HostFirstAN  . +HostFirstDomain  @ +Email  any ^
HostDomain  EOF !=Base:HOST  asclet HostDomain  digit +Host  : +PortFirst  - +HostFirstAN  _ +HostFirstAN  . +HostFirstDomain
    @ +Email  digit ^  stophost !=URLPathStart:HOST  / +FURL  any !=Base:HOST
PortFirst  EOF ^  digit Port  any ^
Port  EOF !=Base:HOST  digit Port  stophost !=URLPathStart:HOST  / +FURL  any !=Base:HOST
HostFirstAN  EOF ^  digit Host  asclet Host  any ^
Host  EOF ^  digit Host  asclet Host  @ +Email  . +HostFirstDomain  - +HostFirstAN  _ +HostFirstAN  any ^
Email  stophost ^  host !=Base:EMAIL  any ^
FileFirst  EOF ^  asclet File  digit File  . PathFirst  _ File  ~ +FileTwiddle  any ^
FileTwiddle  EOF ^  asclet File  digit File  _ File  / FileFirst  any ^
PathFirst  EOF ^  asclet File  digit File  _ File  . PathSecond  / FileFirst  any ^
PathFirstFirst  EOF ^  . PathSecond  / FileFirst  any ^
PathSecond  EOF !-Base:FILEPATH  / +FileFirst  / !-Base:FILEPATH  space !-Base:FILEPATH  any ^
File  EOF !Base:FILEPATH  asclet File  digit File  . +FileNext  _ File  - File  / +FileFirst  any !Base:FILEPATH
FileNext  EOF ^  asclet -File  digit -File  _ -File  any ^
URLPathFirst  EOF ^  urlchar URLPath  any ^
URLPathStart  any URLPath
URLPath  EOF !Base:URLPATH  urlchar URLPath  any !Base:URLPATH
FURL  EOF ^  URLPath !=Base:URL@FURL  any ^
ProtocolFirst  EOF ^  / ProtocolSecond  any ^
ProtocolSecond  EOF ^  / ProtocolEnd  any ^
ProtocolEnd  any !=Base:PROTOCOL
HyphenAsciiWordFirst  EOF ^  asclet HyphenAsciiWord  alpha HyphenWord  digit HyphenDigitLookahead  any ^
HyphenAsciiWord  EOF !=ParseHyphen:ASCIIHWORD@Hyphen  asclet HyphenAsciiWord  alpha HyphenWord  special HyphenWord
    digit HyphenNumWord  - +HyphenAsciiWordFirst  any !=ParseHyphen:ASCIIHWORD@Hyphen
HyphenWordFirst  EOF ^  alpha HyphenWord  digit HyphenDigitLookahead  any ^
HyphenWord  EOF !=ParseHyphen:HWORD@Hyphen  alpha HyphenWord  special HyphenWord  digit HyphenNumWord  - +HyphenWordFirst
    any !=ParseHyphen:HWORD@Hyphen
HyphenNumWordFirst  EOF ^  alpha HyphenNumWord  digit HyphenDigitLookahead  any ^
HyphenNumWord  EOF !=ParseHyphen:NUMHWORD@Hyphen  alnum HyphenNumWord  special HyphenNumWord  - +HyphenNumWordFirst
    any !=ParseHyphen:NUMHWORD@Hyphen
HyphenDigitLookahead  EOF ^  digit HyphenDigitLookahead  alpha HyphenNumWord  special HyphenNumWord  any ^
ParseHyphen  EOF ~Base  asclet HyphenAsciiWordPart  alpha HyphenWordPart  digit +HyphenUnsignedInt  - +ParseHyphenHyphen
    any ~Base
ParseHyphenHyphen  EOF ^  alnum !-ParseHyphen:SPACE  special !-ParseHyphen:SPACE  any ^
HyphenWordPart  EOF !Base:PARTHWORD  alpha HyphenWordPart  special HyphenWordPart  digit HyphenNumWordPart
    any !ParseHyphen:PARTHWORD
HyphenAsciiWordPart  EOF !Base:ASCIIPARTHWORD  asclet HyphenAsciiWordPart  alpha HyphenWordPart  special HyphenWordPart
    digit HyphenNumWordPart  any !ParseHyphen:ASCIIPARTHWORD
HyphenNumWordPart  EOF !Base:NUMPARTHWORD  alnum HyphenNumWordPart  special HyphenNumWordPart  any !ParseHyphen:NUMPARTHWORD
HyphenUnsignedInt  EOF ^  digit  alpha -HyphenNumWordPart  special -HyphenNumWordPart  any ^
"""
_MARKS = frozenset({"Mn", "Mc", "Me", "Cf"})
_URL_STOPS = frozenset('"<>\\^`{|}')


class Token(NamedTuple):
    """A token and its type, as ts_token_type names it in wparser_def.c."""

    type: str
    text: str


class _Action(NamedTuple):
    test: str
    flags: str
    state: str
    type: str
    special: str


@dataclass(slots=True)
class _Position:
    """TParserPosition: where the machine is, how long its token is; `pushed` is the action by which it was left."""

    state: str = "Base"
    at: int = 0
    length: int = 0
    previous: _Position | None = None
    pushed: tuple[str, int] | None = None


@cache
def _actions() -> dict[str, list[_Action]]:
    found: dict[str, list[_Action]] = {}
    for state, *words in (line.split("  ") for line in _STATES.strip().replace("\n    ", "  ").splitlines()):
        found[state] = [_action(word) for word in words]
    return found


def _action(word: str) -> _Action:
    test, _, rest = word.partition(" ")
    name = rest.lstrip("!^+~-&=")
    place, _, special = name.partition("@")
    state, _, kind = place.partition(":")
    return _Action(test, rest[: len(rest) - len(name)], state, kind, special)


class CharacterClasses:
    """What a locale says of characters: letters and digits by themselves, beyond ASCII by asking."""

    def __init__(self, is_class: Callable[[str, str], bool]) -> None:
        self.known: dict[tuple[str, str], bool] = {}
        self.ask = is_class

    def has(self, name: str, letter: str) -> bool:
        key = name, letter
        if key not in self.known:
            self.known[key] = self.ask(name, letter)
        return self.known[key]


def tokens(text: str, classes: CharacterClasses) -> Iterator[Token]:
    """All of a text."""
    for letter in text:
        if letter > "\x7f" and unicodedata.category(letter) in _MARKS:
            raise refused("the parser of text search on a text with combining characters")
    parser = _Parser(text, classes)
    while (found := parser.get()) is not None:
        yield found


class _Parser:
    """TParser."""

    def __init__(self, text: str, classes: CharacterClasses, wants_host: bool = False) -> None:
        self.text, self.classes, self.wants_host, self.ignores = text, classes, wants_host, False
        self.position, self.start = _Position(), 0

    def get(self) -> Token | None:
        """TParserGet: the next token."""
        position, end = self.position, len(self.text)
        if position.at >= end:
            return None
        self.start, position.pushed, found = position.at, None, None
        while self.position.at <= end:
            action = self.action()
            if action.special:
                self.special(action.special)
            position = self.position
            if "!" in action.flags:
                found = Token(action.type, self.text[self.start : self.start + position.length])
                position.length = 0
            self.move(action)
            position = self.position
            if action.state:
                position.state = action.state
            if "!" in action.flags or (position.at >= end and "~" not in action.flags):
                break
            if "~" not in action.flags and "^" not in action.flags and position.at < end:
                position.at += 1
                position.length += 1
        return found

    def action(self) -> _Action:
        """The first one whose test holds; after the machine was popped, behind the one by which it was pushed."""
        position = self.position
        state, number = position.pushed or (position.state, -1)
        position.pushed = None
        actions = _actions()[state]
        for at in range(number + 1, len(actions)):
            if self.holds(actions[at].test):
                self.chosen = state, at
                return actions[at]
        raise AssertionError("each state has a test that always holds")

    def move(self, action: _Action) -> None:
        position, flags = self.position, action.flags
        before = position.previous
        if "^" in flags:
            assert before is not None
            self.position = before
        elif "+" in flags:
            position.pushed = self.chosen
            self.position = replace(position, previous=position, pushed=None)
        elif "-" in flags:
            assert before is not None
            position.previous = before.previous
        elif "=" in flags:
            position.previous = None
        elif "&" in flags:
            assert before is not None
            before.at, before.length = position.at, position.length
            self.position = before

    # -- tests -----------------------------------------------------------------------------------------------------------------

    def holds(self, test: str) -> bool:
        at = self.position.at
        letter = self.text[at] if at < len(self.text) else ""
        if len(test) == 1:
            return letter == test
        match test:
            case "any":
                return True
            case "EOF":
                return not letter
            case "asclet":
                return letter.isascii() and letter.isalpha()
            case "ignore":
                return self.ignores
            case "special":
                return letter == "\0"
            case "urlchar":
                return "\x20" < letter < "\x7f" and letter not in _URL_STOPS
            case "stophost":
                stops, self.wants_host = self.wants_host, False
                return stops
            case "host":
                return self.follows("HOST", _Parser(self.text[at:], self.classes, True))
            case "URLPath":
                inner = _Parser(self.text[at:], self.classes)
                inner.position = _Position("URLPathFirst", previous=inner.position)
                return self.follows("URLPATH", inner)
            case "notalnum":
                return not (bool(letter) and self.classes.has("alnum", letter))
        return bool(letter) and self.classes.has(test, letter)

    def follows(self, kind: str, inner: _Parser) -> bool:
        """p_ishost and p_isURLPath: whether another machine finds such a token from here on; it is then part of this one's."""
        found = inner.get()
        if found is None or found.type != kind:
            return False
        self.position.at += len(found.text)
        self.position.length += len(found.text)
        return True

    # -- special actions -------------------------------------------------------------------------------------------------------

    def special(self, name: str) -> None:
        position = self.position
        if name == "Tags":
            tag = self.text[self.start : self.start + position.length].lower()
            self.ignores = tag in ("<script", "<style") or (self.ignores and tag not in ("</script", "</style"))
            return
        position.at -= position.length
        if name == "FURL":
            self.wants_host = True
        elif name == "VerVersion":
            position.length = 0
