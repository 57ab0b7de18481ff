"""Errors as answers: the one table from error to status, and RFC 9457 problem details of it. A sentence never has a
secret in it; what is unexpected stays in the log."""

from __future__ import annotations

import logging
import math
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi import exceptions as fastapi_errors
from fastapi.responses import Response
from starlette import exceptions as starlette_errors

from iceberg_compaction import errors
from iceberg_compaction.interfaces.cli import logs
from iceberg_compaction.model import validation_words
from iceberg_compaction.model.problem import FieldProblem, Problem

if TYPE_CHECKING:
    from fastapi import FastAPI, Request

MEDIA_TYPE = "application/problem+json"
_TYPE = "urn:iceberg-compaction:problem:"
_LATER_S = 5  # a store or a catalog that does not answer may do so then
_PASSING = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
_MOST_FIELDS = 20
_LONGEST = 1000  # characters of a sentence: what was sent is part of it
_EVERYWHERE = (400, 401, 403, 422, 429, 503)  # may be the answer of any route
_log = logging.getLogger(__name__)

# The first class that fits counts.
_STATUS: tuple[tuple[type[errors.CompactionError], int, str], ...] = (
    (errors.UnauthenticatedError, 401, "unauthenticated"),
    (errors.ForbiddenError, 403, "forbidden"),
    (errors.TooManyError, 429, "too-many"),
    (errors.QueueFullError, 429, "queue-full"),
    (errors.NoSuchTableError, 404, "no-such-table"),
    (errors.SetupError, 503, "setup"),
    (errors.ConfigError, 422, "invalid"),
    (errors.StoreError, 503, "store-unavailable"),
    (errors.UnreachableError, 503, "catalog-unreachable"),
    (errors.UnauthorizedError, 502, "catalog-refused"),
    (errors.CatalogError, 502, "catalog"),
    (errors.LeasedError, 409, "at-work"),
    (errors.UnsupportedError, 409, "unsupported-table"),
    (errors.MaintainedError, 409, "maintained-by-others"),
    (errors.RefusedError, 409, "refused"),
    (errors.DeclinedError, 409, "declined"),
    (errors.StalePlanError, 409, "stale-plan"),
    (errors.MetadataError, 409, "damaged-table"),
    (errors.CommitError, 409, "not-committed"),
    (errors.CompactionError, 500, "failed"),
)


class HttpRefusal(Exception):
    """A request that is refused for reasons of HTTP alone, such as a run that is not there."""

    def __init__(self, status: int, kind: str, detail: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(detail)
        self.status, self.kind, self.detail, self.retry_after_s = status, kind, detail, retry_after_s


def not_there(what: str) -> HttpRefusal:
    """Something that is not there, or that whoever asks may not know of: nobody can tell which."""
    return HttpRefusal(404, "not-there", f"There is no {what}.")


def response(error: Exception) -> Response:
    """The answer to an error."""
    retry_after_s: float | None = None
    fields: tuple[FieldProblem, ...] = ()
    retryable = False
    match error:
        case HttpRefusal():
            status, kind, detail, retry_after_s = error.status, error.kind, error.detail, error.retry_after_s
            retryable = retry_after_s is not None
        case errors.CompactionError():
            status, kind = next((status, kind) for each, status, kind in _STATUS if isinstance(error, each))
            detail, retryable = str(error), error.retryable
            retry_after_s = getattr(error, "retry_after_s", _LATER_S if status in _PASSING else None)
        case fastapi_errors.RequestValidationError():
            status, kind = 422, "invalid"
            fields = tuple(_field(each) for each in error.errors()[:_MOST_FIELDS])
            detail = f"{fields[0].where}: {fields[0].detail}." if fields else "The request cannot be meant."
        case starlette_errors.HTTPException():
            status, kind, detail = error.status_code, _kind(error.status_code), _sentence(error)
        case _:
            _log.error("A request failed unexpectedly: %s", type(error).__name__, exc_info=error)
            status, kind = 500, "defect"
            detail = f"Unexpected {type(error).__name__}; this is a defect, and the service's log says where."
    problem = Problem(
        type=_TYPE + kind,
        title=HTTPStatus(status).phrase,
        status=status,
        detail=logs.clean(detail)[:_LONGEST],
        retryable=retryable,
        fields=fields,
    )
    return Response(
        problem.model_dump_json(), status, headers=_headers(error, status, retry_after_s), media_type=MEDIA_TYPE
    )


def install(app: FastAPI) -> None:
    """Every error of the app becomes a problem."""

    async def handle(request: Request, error: Exception) -> Response:
        if isinstance(error, starlette_errors.HTTPException) and _has_slash(request, error.status_code):
            error = HttpRefusal(
                404, "not-found", "There is nothing at this address; try it without the slash at its end."
            )
        return response(error)

    kinds: tuple[type[Exception], ...] = (
        HttpRefusal,
        errors.CompactionError,
        fastapi_errors.RequestValidationError,
        starlette_errors.HTTPException,
        Exception,
    )
    for kind in kinds:
        app.add_exception_handler(kind, handle)


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The errors of a route, for the OpenAPI document. Some may happen everywhere, one wherever there is a body."""
    of_body = {415} if HTTPStatus.REQUEST_ENTITY_TOO_LARGE in statuses else set[int]()
    return {
        status: {"description": HTTPStatus(status).phrase, "model": Problem}
        for status in sorted({*_EVERYWHERE, *statuses, *of_body})
    }


def _has_slash(request: Request, status: int) -> bool:
    return status == HTTPStatus.NOT_FOUND and request.url.path.endswith("/")


def _headers(error: Exception, status: int, retry_after_s: float | None) -> dict[str, str]:
    headers = dict(getattr(error, "headers", None) or {})
    if status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = 'Bearer realm="iceberg-compaction"'
    if retry_after_s is not None:
        headers["Retry-After"] = str(max(1, math.ceil(retry_after_s)))
    return headers


def _field(error: dict[str, Any]) -> FieldProblem:
    where = ".".join(str(part)[:100] for part in error["loc"]) or "the request"
    return FieldProblem(where=where[:300], detail=validation_words.text(str(error["msg"]))[:300])


def _kind(status: int) -> str:
    return HTTPStatus(status).phrase.lower().replace(" ", "-").replace("'", "")


def _sentence(error: starlette_errors.HTTPException) -> str:
    match error.status_code:
        case 404:
            return "There is nothing at this address; /docs lists what there is."
        case 405:
            return "This address does not take the method; /docs lists what it takes."
        case _:
            return str(error.detail)
