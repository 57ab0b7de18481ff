"""Trouble with AWS Glue in words. An error of Amazon's client comes in, our error goes out, which says in one sentence
what is wrong with keys, rights, region or endpoint, and what to do. The client is recognised by name, as in
`translate`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from iceberg_compaction import errors
from iceberg_compaction.storage import network_trouble, redact

if TYPE_CHECKING:
    from collections.abc import Mapping

_KEYS = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or glue.access-key-id and glue.secret-access-key"
_ABSENT = frozenset({"NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError"})
_EXPIRED = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired"})
_UNKNOWN_KEY = frozenset({"UnrecognizedClientException", "InvalidClientTokenId", "MissingAuthenticationTokenException"})
_WRONG_SECRET = frozenset({"InvalidSignatureException", "SignatureDoesNotMatch", "IncompleteSignatureException"})
_NO_RIGHT = frozenset({"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"})


def explain(error: BaseException, catalog: str, properties: Mapping[str, Any]) -> errors.CompactionError | None:
    """Our error; None: the error is not of Amazon's client, or about something else."""
    kinds = {kind.__name__ for kind in type(error).__mro__ if kind.__module__.startswith("botocore")}
    if not kinds:
        return None
    if "NoRegionError" in kinds:
        return errors.ConfigError(
            f"The region of {catalog} is not known; write it like glue://eu-west-1, or set AWS_REGION."
        )
    if kinds & _ABSENT:
        return errors.UnauthorizedError(
            f"There are no credentials for {catalog}; set {_KEYS}, or run where a role has access to Glue."
        )
    if "HTTPClientError" in kinds or "EndpointConnectionError" in kinds:
        server = network_trouble.Server(
            name=catalog,
            uri=_endpoint(error, properties),
            setting="the region, and glue.endpoint or AWS_ENDPOINT_URL_GLUE if one is set",
            certificates="AWS_CA_BUNDLE",
        )
        return network_trouble.explain(f"{type(error).__name__} {error}", server)
    return _refusal(_code(error), error, catalog)


def _refusal(code: str, error: BaseException, catalog: str) -> errors.UnauthorizedError | None:
    if code in _EXPIRED:
        return errors.UnauthorizedError(
            f"The session token for {catalog} has expired; get new credentials and check the credentials in "
            "AWS_SESSION_TOKEN and its keys."
        )
    if code in _UNKNOWN_KEY:
        return errors.UnauthorizedError(
            f"{network_trouble.capital(catalog)} does not know the access key ({code}); check the credentials: {_KEYS}."
        )
    if code in _WRONG_SECRET:
        return errors.UnauthorizedError(
            f"{network_trouble.capital(catalog)} refuses the signature ({code}); check the credentials: the secret key "
            "is wrong, or the clock of this machine."
        )
    if code in _NO_RIGHT:
        right = re.search(r"\bglue:\w+", str(error))
        return errors.UnauthorizedError(
            f"The credentials may not use {catalog} ({code}); grant them {right[0] if right else 'the rights'}: "
            "reading needs glue:GetDatabases, glue:GetTables and glue:GetTable, and runs glue:UpdateTable."
        )
    return None


def _code(error: BaseException) -> str:
    response = getattr(error, "response", None)
    return str(response.get("Error", {}).get("Code", "")) if isinstance(response, dict) else ""


def _endpoint(error: BaseException, properties: Mapping[str, Any]) -> str:
    address = re.search(r"https?://[^\s\"']+", str(error))
    return redact.redact_text(str(properties.get("glue.endpoint") or (address[0].rstrip("/") if address else "")))
