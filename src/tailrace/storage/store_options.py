"""Options of object stores: who one is, and how the store is reached.

In: what the user gave, by the names that `obstore` and delta-rs know (`aws_access_key_id`, `AWS_ACCESS_KEY_ID` and `access_key_id` are the same), the
environment, and for S3 the profile of `aws configure`. Out: one mapping, in which what was given wins. It goes to workers with the store. Where it
names nobody, a worker is who its machine says it is (instance metadata).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.storage.aws_profile import read_profile

_CLIENT = (
    "allow_http", "allow_invalid_certificates", "connect_timeout", "default_content_type", "http1_only", "http2_only", "pool_idle_timeout",
    "pool_max_idle_per_host", "proxy_ca_certificate", "proxy_excludes", "proxy_url", "randomize_addresses", "read_timeout",
    "root_certificate", "timeout", "user_agent",
)  # fmt: skip
_SECRET = (
    "access_key_id", "secret_access_key", "session_token", "sse_customer_key_base64", "service_account_key", "bearer_token", "account_key",
    "client_secret", "sas_key", "token", "encryption_key", "fabric_session_token", "proxy_url",
)  # fmt: skip
_SHORTEST_SECRET = 3


@dataclass(frozen=True, slots=True)
class _Kind:
    """`prefixes` may stand before a name; the first is written. `identity` says who one is: where any of it is given, none is taken from the
    environment. Of names that mean the same, an earlier one wins."""

    prefixes: tuple[str, ...]
    identity: tuple[str, ...]
    others: tuple[str, ...]
    same: Mapping[str, tuple[str, ...]]

    @property
    def names(self) -> frozenset[str]:
        return frozenset((*self.identity, *self.others, *_CLIENT))


_KINDS = {
    "s3": _Kind(
        ("aws_",),
        (
            "access_key_id", "secret_access_key", "session_token", "profile", "skip_signature", "web_identity_token_file", "role_arn",
            "role_session_name", "container_credentials_relative_uri", "container_credentials_full_uri", "container_authorization_token_file",
        ),
        (
            "region", "endpoint", "checksum_algorithm", "conditional_put", "disable_bulk_delete", "disable_tagging", "imdsv1_fallback",
            "metadata_endpoint", "request_payer", "s3_express", "server_side_encryption", "sse_bucket_key_enabled",
            "sse_customer_key_base64", "sse_kms_key_id", "unsigned_payload", "virtual_hosted_style_request",
        ),
        {
            "region": ("region", "default_region"),
            "endpoint": ("endpoint_url_s3", "endpoint_url", "endpoint"),
            "session_token": ("session_token", "token"),
        },
    ),
    "gs": _Kind(
        ("google_",),
        ("service_account", "service_account_key", "application_credentials", "bearer_token", "skip_signature"),
        ("base_url",),
        {"service_account": ("service_account", "service_account_path")},
    ),
    "abfss": _Kind(
        ("azure_storage_", "azure_"),
        (
            "account_key", "client_id", "client_secret", "tenant_id", "sas_key", "token", "credential_type", "federated_token_file",
            "use_azure_cli", "skip_signature", "object_id", "msi_resource_id",
        ),
        (
            "authority_host", "endpoint", "msi_endpoint", "use_emulator", "use_fabric_endpoint", "encryption_key", "disable_tagging",
            "fabric_token_service_url", "fabric_workload_host", "fabric_session_token", "fabric_cluster_identifier",
        ),
        {
            "account_key": ("account_key", "access_key", "master_key"),
            "sas_key": ("sas_key", "sas_token"),
            "tenant_id": ("tenant_id", "authority_id"),
            "msi_endpoint": ("msi_endpoint", "identity_endpoint"),
        },
    ),
}  # fmt: skip


def resolved_options(kind: str, given: Mapping[str, object], environment: Mapping[str, str]) -> dict[str, str]:
    """Of a store whose URLs begin with `kind`. Raises UsageError, which has no value in it."""
    known = _KINDS[kind]
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
    if kind == "s3":
        found = _with_profile(found, environment, "profile" in chosen)
        found.setdefault("region", "us-east-1")
    if "@" in found.get("endpoint", "").partition("://")[2].partition("/")[0]:
        raise UsageError(
            "the endpoint has a user name or a password in it", hint="Give credentials as options, or in the environment."
        )
    return found


def of_the_client(options: Mapping[str, str]) -> dict[str, str]:
    """Those that are not the store's, but of whoever speaks HTTP with it."""
    return {name: value for name, value in options.items() if name in _CLIENT}


def secrets_of(options: Mapping[str, str]) -> list[str]:
    """Values that nobody may see, longest first."""
    return sorted({options[name] for name in _SECRET if len(options.get(name, "")) >= _SHORTEST_SECRET}, key=len, reverse=True)


def written_out(kind: str, options: Mapping[str, str]) -> dict[str, str]:
    """By the names that delta-rs looks for, which are the environment's."""
    prefix = _KINDS[kind].prefixes[0].upper()
    names = {"endpoint": "endpoint_url"} if kind == "s3" else {}
    alone = {name for name in _CLIENT if name != "allow_http"} if kind == "s3" else set(_CLIENT)
    return {name if name in alone else prefix + names.get(name, name).upper(): value for name, value in options.items()}


def _named(kind: _Kind, values: Mapping[str, str], *, is_strict: bool) -> Iterator[tuple[str, str]]:
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


def _check(kind: _Kind, name: str, short: str) -> None:
    known = {*kind.names, *(each for names in kind.same.values() for each in names)}
    if short not in known:
        near = difflib.get_close_matches(short, known, 1)
        hint = f"Perhaps {kind.prefixes[0]}{near[0]} is meant." if near else ""
        raise UsageError(f'"{name}" is no option of such a store', hint=hint)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _with_profile(options: dict[str, str], environment: Mapping[str, str], is_chosen: bool) -> dict[str, str]:
    """A profile that was asked for wins over the environment, one that the environment names does not, as with AWS's own programs."""
    name = options.pop("profile", "") or environment.get("AWS_DEFAULT_PROFILE", "")
    if not is_chosen and any(each in options for each in _KINDS["s3"].identity):
        return options
    profile = read_profile(name, environment)
    if is_chosen:
        return options | profile
    return profile | options
