"""Probes of orchestrators, and metrics. Probes need no token and say nothing about tables."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from iceberg_compaction import errors
from iceberg_compaction.interfaces.service.api import problems, replies, service_metrics
from iceberg_compaction.interfaces.service.api.service_desk import Somebody, desk_of
from iceberg_compaction.interfaces.service.api.strict_route import StrictRoute
from iceberg_compaction.model.principal import Role
from iceberg_compaction.model.service_answers import Liveness
from iceberg_compaction.version import __version__

router = APIRouter(route_class=StrictRoute, tags=["probes"])


@router.head("/healthz", include_in_schema=False)  # some balancers ask so
@router.get("/healthz", summary="Whether the process answers", response_model=Liveness)
async def healthz(request: Request) -> Response:
    """Nothing else is looked at: a store that is away is no reason to restart."""
    return replies.reply(_liveness(request, ok=True, sentence="The process answers."))


@router.head("/readyz", include_in_schema=False)
@router.get(
    "/readyz",
    summary="Whether the service can work",
    response_model=Liveness,
    responses={503: {"model": Liveness, "description": "The run store does not answer, or the process ends."}},
)
def readyz(request: Request) -> Response:
    """Whether the run store answers. Catalogs are not asked: one that is away delays its own tables only."""
    if desk_of(request).ending.is_set():
        return replies.reply(_liveness(request, ok=False, sentence="The process ends."), 503)
    try:
        desk_of(request).house.store.entries.get(["service-ready"])
    except errors.StoreGoneError:
        words = "The file of the run store was moved, deleted or replaced; put it back, or start the service again."
        return replies.reply(_liveness(request, ok=False, sentence=words), 503)
    except errors.StoreError:
        return replies.reply(_liveness(request, ok=False, sentence="The run store does not answer."), 503)
    return replies.reply(_liveness(request, ok=True, sentence="The run store answers."))


@router.get(
    "/metrics",
    summary="Metrics for Prometheus",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **problems.documented()},
)
def metrics(asking: Somebody) -> Response:
    """The queue, the processes, all tables in sums, and the requests and runs of this process."""
    asking.require_all_tenants(Role.VIEWER)
    return Response(service_metrics.text(asking.desk), media_type=service_metrics.MEDIA_TYPE)


def _liveness(request: Request, *, ok: bool, sentence: str) -> Liveness:
    role = desk_of(request).house.settings.role.value
    return Liveness(ok=ok, sentence=sentence, version=__version__, role=role)
