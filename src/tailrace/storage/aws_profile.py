"""Access keys that `aws configure` wrote: the files that AWS's own programs share.

Only keys that stand there are read. A profile that gets its keys by signing in, or from a program, is refused, with what to do.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from configparser import ConfigParser, Error
from pathlib import Path

from tailrace.errors import UsageError

_READ = {
    "aws_access_key_id": "access_key_id", "aws_secret_access_key": "secret_access_key", "aws_session_token": "session_token",
    "region": "region", "endpoint_url": "endpoint",
}  # fmt: skip
_GOT_ELSEWHERE = ("sso_session", "sso_start_url", "credential_process", "role_arn", "login_session")


def read_profile(name: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The options in it, none if nobody asked for a profile (`name` is empty) and the default one is not there."""
    home = Path(environment.get("HOME") or os.path.expanduser("~")) / ".aws"
    files = {
        environment.get("AWS_CONFIG_FILE") or str(home / "config"): "profile ",
        environment.get("AWS_SHARED_CREDENTIALS_FILE") or str(home / "credentials"): "",
    }
    wanted = name or "default"
    found: dict[str, str] = {}
    for file, prefix in files.items():
        sections = _sections(file)
        for section in dict.fromkeys((wanted, prefix + wanted) if wanted == "default" else (prefix + wanted,)):
            if sections.has_section(section):
                found |= dict(sections.items(section))
    if name and not found:
        raise UsageError(f'profile "{name}" could not be found', hint=f"It would be in {' or '.join(files)}.")
    elsewhere = [key for key in _GOT_ELSEWHERE if key in found]
    if elsewhere and "aws_access_key_id" not in found:
        if not name:
            return {}
        raise UsageError(
            f'profile "{name}" has no access key of its own ({elsewhere[0]} says where it comes from)',
            hint=f'Have it given to the environment: eval "$(aws configure export-credentials --profile {name} --format env)".',
        )
    return {option: found[key] for key, option in _READ.items() if key in found}


def _sections(file: str) -> ConfigParser:
    sections = ConfigParser(interpolation=None, default_section="\0", strict=False)
    try:
        sections.read(os.path.expanduser(file), encoding="utf-8")
    except (Error, UnicodeDecodeError):  # whose words would have lines of the file in them
        raise UsageError(f'"{file}" is not as `aws configure` writes it') from None
    return sections
