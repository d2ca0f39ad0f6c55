"""What object stores answer when they refuse, as errors of ours.

In: an exception of obstore. Its text has the whole request in it, with whatever stood in the URL, so nothing of it is passed on but the code and the
message of the store's own answer, and of these no credential. Out: an error that names the URL of the object, and says what to do.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tailrace.dataclass import dataclass
from tailrace.errors import PeerError, TailraceError, UsageError

_NOT_DONE = frozenset(
    {"SlowDown", "ServiceUnavailable", "ServerBusy", "ConditionalRequestConflict", "OperationAborted", "TooManyRequests", "RateLimitExceeded"}
)  # fmt: skip
"""Codes by which a store says that it did nothing, and may be asked again."""
_NO_OBJECT = frozenset({"", "NoSuchKey", "BlobNotFound", "PathNotFound"})
_NO_BUCKET = frozenset({"NoSuchBucket", "ContainerNotFound", "ContainerBeingDeleted", "FilesystemNotFound", "AccountNotFound"})
_WRONG_IDENTITY = frozenset(
    {
        "SignatureDoesNotMatch", "InvalidAccessKeyId", "InvalidToken", "ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired",
        "AuthenticationFailed", "InvalidAuthenticationInfo", "InvalidSecurity", "Unauthorized", "XAdminUserNotFound",
    }
)  # fmt: skip
_WRONG_REGION = frozenset(
    {"PermanentRedirect", "TemporaryRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"}
)
_METADATA = ("169.254.169.254", "169.254.170.2", "metadata.google.internal", "fd00:ec2::254")
_WORDS = 300
"""Characters of an answer that are passed on at most."""


@dataclass(frozen=True, slots=True)
class StoreFailure:
    """`status` is HTTP's, 0 where there was no answer; `code` and `words` are the store's, without credentials."""

    status: int
    code: str
    words: str
    text: str
    """All that obstore said. Only to be searched."""

    @property
    def is_not_done(self) -> bool:
        """The store did nothing, and may be asked again."""
        return self.code in _NOT_DONE or self.status == 429 or "kind: Connect" in self.text or self.was_not_sent

    @property
    def is_unknown(self) -> bool:
        """The store may have done it: its answer did not come, or is that of somebody in between."""
        is_broken = "Http(" in self.text if self.status == 0 else self.status >= 500 and self.status != 501
        return is_broken and not self.is_not_done

    @property
    def was_not_sent(self) -> bool:
        """It is not what the store says: nobody was asked, or who was asked is this machine, for its credentials."""
        return "kind: Builder" in self.text or any(address in self.text for address in _METADATA)

    @property
    def has_no_object(self) -> bool:
        return self.status == 404 and self.code in _NO_OBJECT

    @property
    def has_no_bucket(self) -> bool:
        return self.code in _NO_BUCKET


def failure_of(error: Exception, secrets: Sequence[str]) -> StoreFailure:
    text = str(error)
    said = text.partition("\n\nDebug source")[0]
    status = re.search(r"status code: (\d{3})", said)
    code, words = (re.search(rf"<{tag}>([^<]*)</{tag}>", said) for tag in ("Code", "Message"))
    shown = " ".join((words[1] if words else "").split())
    for secret in secrets:
        shown = shown.replace(secret, "...")
    return StoreFailure(int(status[1]) if status else 0, code[1] if code else "", shown[:_WORDS], text)


def refusal(failure: StoreFailure, url: str, endpoint: str) -> TailraceError:
    """The error to raise. `endpoint` is where the store was looked for."""
    detail = ": ".join(filter(None, (failure.code, failure.words)))
    text = failure.text
    if "BadScheme" in text:
        return UsageError(
            f"{url} would be reached without encryption, by {endpoint}",
            hint="Give an endpoint that begins with https, or set allow_http to true (AWS_ALLOW_HTTP=true) if its network can be trusted.",
        )
    if any(address in text for address in _METADATA):
        return UsageError(
            f"no credentials were found for {url}, and this machine has none of its own",
            hint="Give them in the environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, GOOGLE_APPLICATION_CREDENTIALS, "
            "AZURE_STORAGE_ACCOUNT_KEY), in a profile of `aws configure`; in Python and Spark also as options.",
        )
    if failure.has_no_bucket:
        return UsageError(
            f"the bucket of {url} does not exist", detail=detail, hint=f"Create it, or look whether {endpoint} is right."
        )
    if failure.code in _WRONG_REGION or failure.status in (301, 307) or "LOCATION" in text.partition("\n\nDebug source")[0]:
        return UsageError(
            f"{url} is in another region", detail=detail, hint="Set AWS_REGION, or the option aws_region, to the bucket's."
        )
    if failure.code in _WRONG_IDENTITY or failure.status == 401:
        return UsageError(
            f"{url} does not accept these credentials", detail=detail, hint="Look whether they are complete, current, and of this store.",
            sqlstate="28000",
        )  # fmt: skip
    if failure.status == 403:
        return UsageError(
            f"access to {url} is denied", detail=detail, hint="Look what its owner lets these credentials do.", sqlstate="42501"
        )
    return _peer_error(failure, url, endpoint, detail)


def _peer_error(failure: StoreFailure, url: str, endpoint: str, detail: str) -> TailraceError:
    if failure.status:
        return PeerError(f"{url} cannot be used: the store answered with status {failure.status}", detail=detail)
    text = failure.text
    if "kind: Timeout" in text or "TimedOut" in text:
        return PeerError(f"{url} did not answer in time", hint=f"Look whether {endpoint} is right and can be reached from here.")
    if "certificate" in text.lower():
        return PeerError(
            f"the certificate of {endpoint} is not accepted, so {url} is not used",
            hint="Give the certificate of who signed it by the option root_certificate.",
        )
    if "dns error" in text:
        return PeerError(
            f"{url} cannot be reached: the host of {endpoint} is not known", hint="Look whether the endpoint is right."
        )
    if "kind: Connect" in text:
        why = re.search(r'message: "([^"{}]*)"', text)
        return PeerError(
            f"{url} cannot be reached at {endpoint}", detail=why[1] if why else "",
            hint="Look whether the endpoint is right (AWS_ENDPOINT_URL), and whether the server runs.",
        )  # fmt: skip
    if "Http(" in text:
        return PeerError(f"the connection to {url} broke", hint="Run it again.")
    return UsageError(
        f"{url} cannot be opened with these options", hint="Look whether each value is what its option takes, and each key whole."
    )


def not_known(url: str) -> TailraceError:
    """A conditional put that went out, and whose answer did not come."""
    return PeerError(
        f"it is not known whether {url} was written: the answer of the store did not come",
        hint="Run it again: what is there is read first.",
    )


def no_conditions(url: str, detail: str = "") -> TailraceError:
    """The store writes whatever is there."""
    return UsageError(
        f"the store of {url} has no conditional writes",
        detail=detail,
        hint="Two writers would overwrite each other's work without a word. Use a store that honours If-None-Match and If-Match, as S3, "
        "Google Cloud Storage and Azure do.",
    )
