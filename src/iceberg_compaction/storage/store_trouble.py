"""Trouble with a file store in words. An error of any client and the file come in; out comes our error, which says in
one sentence what is wrong with credentials, bucket, region or endpoint, and what to do."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from iceberg_compaction import errors
from iceberg_compaction.storage import exact_paths, network_trouble, redact

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.io import FileIO

    from iceberg_compaction.storage.s3.store_probe import Refusal

_ENDPOINTS = {
    "gs": "gcs.service.host",
    "gcs": "gcs.service.host",
    **dict.fromkeys(("abfs", "abfss", "wasb", "wasbs"), "adls.account-name or adls.connection-string"),
}
_REFUSED = re.compile(
    r"\b40[13]\b|denied|forbidden|unauthenticated|authenticat|authorization|credential|permission", re.I
)
_KEYS = "s3.access-key-id and s3.secret-access-key of the catalog, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
_CLIENTS = frozenset({"botocore", "aiobotocore", "aiohttp", "azure", "google", "gcsfs"})  # below fsspec
# Where Amazon's clients look for keys when they are given none.
_KEY_VARIABLES = (
    *("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE"),
    *("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"),
)


def is_of_store(error: BaseException) -> bool:
    """Whether an error may come from the client of a store. Libraries are recognised by name, as in `translate`."""
    return isinstance(error, OSError) or any(
        kind.__module__.partition(".")[0] in _CLIENTS for kind in type(error).__mro__
    )


def explain(
    error: BaseException, location: str, properties: Mapping[str, Any], environ: Mapping[str, str] = os.environ
) -> errors.CompactionError | None:
    """Our error for one that came while the file was read or written; None: the store itself is not the trouble. Asks
    S3 once more where the error does not say what is wrong."""
    scheme, bucket, path = exact_paths.split(location)
    if not exact_paths.has_objects(scheme):
        return None
    text = f"{type(error).__name__} {error} {error.__cause__ or ''}"
    endpoint = str(properties.get("s3.endpoint") or "") if scheme in exact_paths.S3_SCHEMES else ""
    server = network_trouble.Server(
        name=f"the store of {scheme}://{redact.redact_text(bucket.rpartition('@')[2])}",  # Azure's has the container
        uri=endpoint,
        setting="s3.endpoint" if scheme in exact_paths.S3_SCHEMES else _ENDPOINTS.get(scheme, "the store's host"),
        certificates="SSL_CERT_FILE",
    )
    is_missing = isinstance(error, FileNotFoundError)
    if not is_missing and (trouble := network_trouble.explain(text, server)):
        return trouble
    if scheme in exact_paths.S3_SCHEMES:
        return _explain_s3(properties, server, bucket, path.lstrip("/"), environ)
    if not is_missing and (isinstance(error, PermissionError) or _REFUSED.search(text)):
        return errors.UnauthorizedError(
            f"{network_trouble.capital(server.name)} refuses the credentials, or there are none; check those in the "
            "catalog's properties and in the environment."
        )
    return None


def explain_io(error: BaseException, location: str, io: FileIO) -> errors.CompactionError | None:
    """The same for a file of a FileIO."""
    current: FileIO = getattr(io, "current", io)  # credentials may have been renewed
    return explain(error, location, current.properties)


def _explain_s3(
    properties: Mapping[str, Any],
    server: network_trouble.Server,
    bucket: str,
    key: str,
    environ: Mapping[str, str],
) -> errors.CompactionError | None:
    from iceberg_compaction.storage.s3 import store_probe

    refusal = store_probe.ask(properties, bucket, key)
    if not refusal.code:
        return None
    if refusal.said and (trouble := network_trouble.explain(refusal.said, server)):
        return trouble
    return _sentence(refusal, bucket, f"s3://{bucket}/{key}", environ)


def _sentence(refusal: Refusal, bucket: str, file: str, environ: Mapping[str, str]) -> errors.CompactionError | None:
    at = f" at {redact.redact_text(refusal.endpoint)}" if refusal.endpoint else ""
    match refusal.code:
        case "nosuchbucket":
            return errors.WrongStoreError(
                f'There is no bucket "{bucket}"{at}; check the location of the table, and s3.endpoint.'
            )
        case "permanentredirect" | "authorizationheadermalformed" | "temporaryredirect" | "illegallocationconstraint":
            return _wrong_region(refusal, bucket)
        case "requesttimetooskewed":
            return errors.UnauthorizedError(
                f"The clock of this machine and that of the store{at} differ too much for signed requests; set the "
                "clock."
            )
    if sentence := _of_keys(refusal, bucket, at, file, environ):
        return errors.UnauthorizedError(sentence)
    return None


def _of_keys(refusal: Refusal, bucket: str, at: str, file: str, environ: Mapping[str, str]) -> str | None:
    match refusal.code:
        case "expiredtoken" | "tokenrefreshrequired" | "requestexpired":
            return (
                f"The session token for s3://{bucket} has expired; get new credentials and set them in "
                "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or in s3.session-token and its keys."
            )
        case "invalidtoken" | "invalidsecurity" | "invalidclienttokenid" | "unrecognizedclient":
            return (
                f"The session token for s3://{bucket} is not valid{at}; check that AWS_SESSION_TOKEN or "
                "s3.session-token belongs to the access key."
            )
        case "invalidaccesskeyid":
            return f"The store of s3://{bucket}{at} does not know the access key; check {_KEYS}."
        case "signaturedoesnotmatch":
            return (
                f"The secret key for s3://{bucket} is wrong: the store{at} refuses the signature; check "
                "s3.secret-access-key of the catalog, or AWS_SECRET_ACCESS_KEY."
            )
        case "accessdenied" | "http401" | "http403" | "allaccessdisabled" | "accountproblem":
            if not refusal.keys and not _may_have_keys(environ):
                return f"There are no credentials for s3://{bucket}{at}; set {_KEYS}, or run where a role has access."
            return (
                f"The credentials may not read {file}{at}; grant them s3:GetObject and s3:ListBucket, and for runs "
                "s3:PutObject and s3:DeleteObject."
            )
    return None


def _wrong_region(refusal: Refusal, bucket: str) -> errors.WrongStoreError:
    if refusal.region and refusal.region != refusal.signed_for:
        return errors.WrongStoreError(
            f'The bucket "{bucket}" is in the region {refusal.region}, but requests are signed for '
            f"{refusal.signed_for}; set s3.region={refusal.region} or AWS_REGION={refusal.region}."
        )
    return errors.WrongStoreError(
        f'The bucket "{bucket}" is not in the region {refusal.signed_for}; set s3.region or AWS_REGION to its own.'
    )


def _may_have_keys(environ: Mapping[str, str]) -> bool:
    """Whether keys may come from the environment, from a file of the user or from the machine's role."""
    if any(environ.get(variable) for variable in _KEY_VARIABLES):
        return True
    given = environ.get("AWS_SHARED_CREDENTIALS_FILE")
    return os.path.exists(given or os.path.join(environ.get("HOME") or "/", ".aws", "credentials"))
