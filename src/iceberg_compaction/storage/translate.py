"""The border to PyIceberg and the libraries below it: their errors come in, ours go out, in one sentence and without
secrets. Libraries are recognised by name, so that none is imported for being absent or unused."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from iceberg_compaction import errors
from iceberg_compaction.storage import network_trouble, redact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyiceberg.catalog import Catalog

_UNAUTHORIZED = {
    "pyiceberg.UnauthorizedError",
    "pyiceberg.ForbiddenError",
    "pyiceberg.OAuthError",
    "pyiceberg.AuthorizationExpiredError",
    "pyiceberg.SignError",
    "botocore.NoCredentialsError",
    "botocore.PartialCredentialsError",
    "botocore.TokenRetrievalError",
    "builtins.PermissionError",
}
_UNREACHABLE = {
    "requests.ConnectionError",
    "requests.Timeout",
    "requests.ChunkedEncodingError",
    "pyiceberg.ServiceUnavailableError",
    "pyiceberg.TooManyRequestsError",
    "botocore.HTTPClientError",
    "thrift.TTransportException",
    "builtins.ConnectionError",
    "builtins.TimeoutError",
    "iceberg_compaction.LastingFault",
}
# Libraries whose errors are about the catalog or the store, whatever their class; pydantic: a malformed answer.
_LIBRARIES = {"pyiceberg", "requests", "urllib3", "sqlalchemy", "botocore", "boto3", "thrift", "pydantic", "sqlite3"}
_LIBRARIES |= {"azure", "adlfs", "aiohttp", "google", "gcsfs"}

_DENIED_WORDS = (
    "access_denied",
    "access denied",
    "accessdenied",
    "invalid_access_key_id",
    "invalidaccesskeyid",
    "signature_does_not_match",
    "signaturedoesnotmatch",
    "unrecognized_client",
    "unrecognizedclient",
    "expired_token",
    "expiredtoken",
    "invalid_client_token_id",
    "password authentication failed",
    "no credentials",
    "http status 401",
    "http status 403",
    "forbidden",
)
_SILENT_WORDS = (
    "network_connection",
    "curlcode",
    "could not connect",
    "connection refused",
    "connection to server",
    "could not translate host name",
    "service_unavailable",
    "slow_down",
    "throttling",
    "request_timeout",
    "database is locked",
    "timed out",
)


def catalog_border(catalog: Catalog) -> contextlib.AbstractContextManager[None]:
    """The border around a catalog's work."""
    return border_of(catalog.name, catalog.properties)


@contextlib.contextmanager
def border_of(name: str, properties: Mapping[str, Any]) -> Iterator[None]:
    """The border around a catalog of this name, which may not be open yet."""
    uri, secrets = str(properties.get("uri") or ""), redact.secrets_of(properties)
    server = network_trouble.Server(
        name=f'the catalog "{name}"', uri=uri, setting="its URI", certificates="REQUESTS_CA_BUNDLE"
    )
    at = f" at {redact.redact_text(uri)}" if uri else ""
    with border(f"{server.name}{at}", secrets, lambda error: _catalog_trouble(error, server, properties)):
        yield


@contextlib.contextmanager
def border(
    subject: str,
    secrets: Iterable[str] = (),
    explain: Callable[[Exception], errors.CompactionError | None] = lambda error: None,
) -> Iterator[None]:
    """Translate errors that the body raises, by `explain` where it has an answer. An unrecognised error is a defect of
    ours and passes unchanged."""
    try:
        yield
    except errors.CompactionError:
        raise
    except Exception as error:
        translated = explain(error) or translate(error, subject, secrets)
        if translated is None:
            raise
        raise translated from safe_cause(error, secrets)


def _catalog_trouble(
    error: Exception, server: network_trouble.Server, properties: Mapping[str, Any]
) -> errors.CompactionError | None:
    """Our error for the trouble of a catalog's server; None: it is none of these."""
    from iceberg_compaction.storage.clouds import glue_trouble

    if trouble := glue_trouble.explain(error, server.name, properties):
        return trouble
    names, text = _names(error), str(error)
    at = redact.redact_text(server.uri)
    if "unexpected JSON Payload" in text or (http_status(error) == 404 and "pyiceberg.RESTError" in names):
        status = http_status(error)
        return errors.WrongStoreError(
            f"The server at {at} does not answer as an Iceberg REST catalog{f' (status {status})' if status else ''}; "
            "check the catalog's URI and its path, such as /catalog or /iceberg."
        )
    if "requests.RequestException" in names or "thrift.TTransportException" in names:
        return network_trouble.explain(f"{type(error).__name__} {text}", server)
    if names & _UNAUTHORIZED and not any(map(properties.get, ("credential", "token"))) and at.startswith("http"):
        return errors.UnauthorizedError(
            f"{network_trouble.capital(server.name)} at {at} wants credentials, and none are given; check the "
            "credentials: set CATALOG_CREDENTIAL or CATALOG_TOKEN."
        )
    return None


def translate(error: Exception, subject: str, secrets: Iterable[str] = ()) -> errors.CompactionError | None:
    """Our error for a third-party one; None for an error that comes from no library at this border. Missing tables are
    not handled here, because only the caller can suggest better names."""
    names = _names(error)
    said = sentence_of(error, secrets)
    denied, silent = (any(word in str(error).lower() for word in words) for words in (_DENIED_WORDS, _SILENT_WORDS))
    if names & _UNAUTHORIZED or (denied and _from_library(error)):
        return errors.UnauthorizedError(f"Access was refused by {subject}: {said}; check the credentials.")
    if "builtins.FileNotFoundError" in names:
        return errors.MetadataError(f"A file of {subject} is missing: {said}.")
    if names & _UNREACHABLE or (silent and _from_library(error)) or http_status(error) in (502, 503, 504):
        return errors.UnreachableError(f"There is no answer from {subject}: {said}.")
    if "pyiceberg.NotInstalledError" in names or isinstance(error, ImportError):
        return errors.SetupError(_missing(error) or f"A driver for {subject} is not installed: {said}.")
    if _from_library(error) or isinstance(error, NotImplementedError):
        return errors.CatalogError(f"An error came from {subject}: {said}.")
    return None


def _missing(error: Exception) -> str | None:
    """What to install for a kind of storage."""
    module = str(getattr(error, "name", None) or "").partition(".")[0]
    if module not in ("adlfs", "azure"):
        return None
    return (
        "Tables in Azure's storage need a driver that is not installed (adlfs): "
        "pip install 'iceberg-compaction[azure]'."
    )


def unpublished(error: Exception, subject: str, secrets: Iterable[str] = ()) -> errors.CompactionError:
    """Our error for any error before something was published. An error that no library raised is a defect of ours."""
    return translate(error, subject, secrets) or defect(error, subject, secrets)


def defect(error: Exception, subject: str, secrets: Iterable[str] = ()) -> errors.DefectError:
    """Our error for a mistake of ours, made before anything was published."""
    who = "Too little memory" if isinstance(error, MemoryError) else "A defect in iceberg-compaction"
    what = f"{type(error).__name__}: {sentence_of(error, secrets)}".rstrip(": ")
    return errors.DefectError(
        f"{who} ended the work on {subject} before anything was published ({what}); nothing was committed."
    )


def storage_error(error: OSError, path: str, secrets: Iterable[str] = ()) -> errors.CompactionError:
    """Our error for one of the file store: permission, silence, a missing file, or else its own words."""
    return translate(error, f"the file store for {redact.redact_text(path)}", secrets) or errors.CatalogError(
        f"The file store failed for {redact.redact_text(path)}: {sentence_of(error, secrets)}."
    )


def sentence_of(error: BaseException, secrets: Iterable[str] = ()) -> str:
    """The first line of an error, short, without secrets and without a full stop. SQLAlchemy adds the statement and a
    link below it, requests a nested repr around the reason: neither helps."""
    inner = getattr(error, "orig", None) or _innermost_reason(error)
    lines = str(inner or error).strip().splitlines() or [type(error).__name__]
    line = redact.redact_text(lines[0], secrets)
    return (line if len(line) <= 300 else line[:297] + "...").rstrip(". ")


def safe_cause(error: BaseException, secrets: Iterable[str] = ()) -> BaseException | None:
    """The error as a cause to chain, unless its text or that of what it came from would show a secret."""
    secrets = tuple(secrets)
    seen: BaseException | None = error
    while seen is not None:
        if redact.redact_text(str(seen), secrets) != str(seen):
            return None
        seen = seen.__cause__ or seen.__context__
    return error


def _innermost_reason(error: BaseException) -> object:
    """urllib3's reason inside requests' ConnectionError: 'Connection refused' instead of three reprs of it."""
    inner = error.args[0] if error.args else None
    return getattr(inner, "reason", None)


def _names(error: BaseException) -> set[str]:
    return {f"{_library(kind)}.{kind.__name__}" for kind in type(error).__mro__}


def _library(kind: type) -> str:
    return kind.__module__.partition(".")[0].removesuffix("_core")


def _from_library(error: BaseException) -> bool:
    return isinstance(error, OSError) or any(_library(kind) in _LIBRARIES for kind in type(error).__mro__)


def http_status(error: BaseException) -> int | None:
    """The HTTP status that PyIceberg made an exception of, kept in its cause."""
    response = getattr(error.__cause__, "response", None)
    status = getattr(response, "status_code", None)
    return status if isinstance(status, int) else None
