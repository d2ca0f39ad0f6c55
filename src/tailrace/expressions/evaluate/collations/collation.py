"""What the catalogs say of a collation, and the error where this machine does not have it as the server had."""

from __future__ import annotations

from collections.abc import Callable

from tailrace.dataclass import dataclass
from tailrace.expressions.evaluate.fmgr.refusals import Refused

LIBC, ICU, BUILTIN = "c", "i", "b"
"""collprovider and datlocprovider."""
OPTION = "tailrace.collation_mismatch"
_GO_ON = f'Evaluate on a machine that has it, compare with COLLATE "C", or go on with what is here: {OPTION}=ignore.'
Compare = Callable[[bytes, bytes], int]


@dataclass(frozen=True, slots=True)
class Collation:
    """A row of pg_collation, or what pg_database says of the default one. `collate` and `ctype` are the same locale where the provider is not libc.
    `version` is what was recorded when it was made; libc's C and C.UTF-8 have none."""

    provider: str = LIBC
    collate: str = "C"
    ctype: str = "C"
    version: str = ""
    rules: str = ""
    name: str = ""
    """Of the collation; the default one has the name of the database."""
    is_default: bool = False

    @property
    def collates_as_c(self) -> bool:
        """Whether < compares bytes. glibc's C.UTF-8 does that too, and PostgreSQL records no version of it."""
        if self.provider == BUILTIN:
            return True
        return self.provider == LIBC and self.collate.upper() in {"C", "POSIX", "C.UTF-8", "C.UTF8"}

    @property
    def compares_by_strcmp(self) -> bool:
        """Whether it is libc's C.UTF-8, whose strcoll_l takes the end of a text for a zero; that shows in the size of what `bttextcmp` gives."""
        return self.provider == LIBC and self.collates_as_c and self.collate.upper() not in {"C", "POSIX"}

    @property
    def ctype_is_c(self) -> bool:
        """Whether only ASCII has letters."""
        return self.provider != ICU and self.ctype.upper() in {"C", "POSIX"}


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a collation cannot be asked: the server's words."""

    message: str
    detail: str = ""

    def refusal(self, what: str) -> Refused:
        """The error of who wanted to evaluate something."""
        return Refused(f"cannot evaluate {what} in a row filter: {self.message}", detail=self.detail, hint=_GO_ON)


def mismatch(collation: Collation, actual: str) -> Problem | None:
    """The problem where the version is not the recorded one; None where it is, or where none was recorded, as PostgreSQL then asks for none."""
    if not collation.version or collation.version == actual:
        return None
    provides = f"the operating system provides version {actual}" if actual else "the operating system provides none"
    if collation.is_default:
        return Problem(
            f'database "{collation.name}" has a collation version mismatch',
            f"The database was created using collation version {collation.version}, but {provides}.",
        )
    return Problem(
        f'collation "{collation.name}" has version mismatch',
        f"The collation in the database was created using version {collation.version}, but {provides}.",
    )


def missing(locale: str) -> Problem:
    """A locale of libc that this machine lacks."""
    return Problem(
        f'could not create locale "{locale}": No such file or directory',
        f'The operating system could not find any locale data for the locale name "{locale}".',
    )
