"""Options of object stores: who one is, and how the store is reached.

In: what the user gave, by the names that `obstore` and delta-rs know (`aws_access_key_id`, `AWS_ACCESS_KEY_ID` and `access_key_id` are the same), the
environment, and for S3 the profile of `aws configure`. Out: one mapping, in which what was given wins. It goes to workers with the store. Where it
names nobody, a worker is who its machine says it is (instance metadata).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping

from tailrace.errors import UsageError
from tailrace.storage.aws_profile import read_profile
from tailrace.storage.store_kinds import CLIENT_OPTIONS, SECRET_CLIENT_OPTIONS, STORE_KINDS, StoreKind

_SECRET = {*SECRET_CLIENT_OPTIONS, *(name for kind in STORE_KINDS.values() for name in kind.secret)}
_SHORTEST_SECRET = 3


def resolved_options(kind: str, given: Mapping[str, object], environment: Mapping[str, str]) -> dict[str, str]:
    """Of a store whose URLs begin with `kind`. Raises UsageError, which has no value in it."""
    known = STORE_KINDS[kind]
    chosen = dict(_named(known, {name: _text(value) for name, value in given.items()}, is_strict=True))
    around = dict(_named(known, environment, is_strict=False))
    if any(name in chosen for name in known.identity):
        if "session_token" in around and "access_key_id" in chosen and "session_token" not in chosen:
            raise UsageError(
                "an access key was given, and AWS_SESSION_TOKEN in the environment belongs to another",
                hint="Unset AWS_SESSION_TOKEN, or give aws_session_token with the key.",
            )
        around = {name: value for name, value in around.items() if name not in known.identity}
    found = around | chosen
    if known.is_aws:
        found = _with_profile(known, found, environment, "profile" in chosen)
        found.setdefault("region", "us-east-1")
    if "@" in found.get("endpoint", "").partition("://")[2].partition("/")[0]:
        raise UsageError(
            "the endpoint has a user name or a password in it", hint="Give credentials as options, or in the environment."
        )
    return found


def of_the_client(options: Mapping[str, str]) -> dict[str, str]:
    """Those that are not the store's, but of whoever speaks HTTP with it."""
    return {name: value for name, value in options.items() if name in CLIENT_OPTIONS}


def secrets_of(options: Mapping[str, str]) -> list[str]:
    """Values that nobody may see, longest first."""
    return sorted({options[name] for name in _SECRET if len(options.get(name, "")) >= _SHORTEST_SECRET}, key=len, reverse=True)


def written_out(kind: str, options: Mapping[str, str]) -> dict[str, str]:
    """By the names that delta-rs looks for, which are the environment's."""
    known = STORE_KINDS[kind]
    prefix, names, alone = known.prefixes[0].upper(), known.delta_rs or {}, set(CLIENT_OPTIONS) - known.prefixed
    return {name if name in alone else prefix + names.get(name, name).upper(): value for name, value in options.items()}


def _named(kind: StoreKind, values: Mapping[str, str], *, is_strict: bool) -> Iterator[tuple[str, str]]:
    """What of it is an option, by the one name that we use."""
    bare: dict[str, str] = {}
    for name, value in values.items():
        short = name.lower()
        prefix = next((each for each in kind.prefixes if short.startswith(each)), "")
        if prefix or is_strict:
            bare[short.removeprefix(prefix)] = value
            if is_strict:
                _check(kind, name, short.removeprefix(prefix))
    others = {each for names in kind.same.values() for each in names}
    for name, names in kind.same.items():
        first = next((bare[each] for each in names if bare.get(each)), None)
        if first is not None:
            yield name, first
    yield from ((name, value) for name, value in bare.items() if value and name in kind.names and name not in others)


def _check(kind: StoreKind, name: str, short: str) -> None:
    known = {*kind.names, *(each for names in kind.same.values() for each in names)}
    if short not in known:
        near = difflib.get_close_matches(short, known, 1)
        hint = f"Perhaps {kind.prefixes[0]}{near[0]} is meant." if near else ""
        raise UsageError(f'"{name}" is no option of such a store', hint=hint)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _with_profile(kind: StoreKind, options: dict[str, str], environment: Mapping[str, str], is_chosen: bool) -> dict[str, str]:
    """A profile that was asked for wins over the environment, one that the environment names does not, as with AWS's own programs."""
    name = options.pop("profile", "") or environment.get("AWS_DEFAULT_PROFILE", "")
    if not is_chosen and any(each in options for each in kind.identity):
        return options
    profile = read_profile(name, environment)
    if is_chosen:
        return options | profile
    return profile | options
