"""Who is there and who may ask: processes of the service, the audit log, tokens."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from iceberg_compaction import errors
from iceberg_compaction.interfaces.service.api import problems, replies
from iceberg_compaction.interfaces.service.api.replies import After, Limit
from iceberg_compaction.interfaces.service.api.service_desk import Asking, Somebody
from iceberg_compaction.interfaces.service.api.strict_route import PREFIX, StrictRoute
from iceberg_compaction.model.access_token import AccessToken, NewToken
from iceberg_compaction.model.audit_entry import AuditEntry
from iceberg_compaction.model.principal import Role
from iceberg_compaction.model.service_answers import ListPage
from iceberg_compaction.model.service_member import ServiceMember
from iceberg_compaction.model.service_requests import TokenOrder
from iceberg_compaction.record.service import service_members

router = APIRouter(prefix=PREFIX, route_class=StrictRoute, tags=["service"])


@router.get(
    "/workers",
    summary="Processes of the service",
    response_model=ListPage[ServiceMember],
    responses=problems.documented(),
)
def workers(asking: Somebody) -> Response:
    """Each with its role, its last sign of life, and the work that it has."""
    asking.require_all_tenants(Role.VIEWER)
    members = service_members.ServiceMembers(asking.desk.house.store.entries).list()
    return replies.reply(ListPage[ServiceMember](items=tuple(members)))


@router.get(
    "/audit", summary="Acts in the service", response_model=ListPage[AuditEntry], responses=problems.documented()
)
def audit(
    asking: Somebody,
    principal: Annotated[str | None, Query(max_length=200, description="acts of this one")] = None,
    table: Annotated[str | None, Query(max_length=1000)] = None,
    limit: Limit = 100,
    after: After = "",
) -> Response:
    """Who did what, when, and how it was answered; the newest first."""
    asking.require(Role.ADMIN)

    def fits(entry: AuditEntry) -> bool:
        return (
            asking.principal.may_see(entry.tenant)
            and principal in (None, entry.principal)
            and table in (None, entry.table)
        )

    start = replies.position(after) if after else ""
    entries, following = asking.desk.audit.page(limit=limit, after=start, fits=fits)
    return replies.reply(
        ListPage[AuditEntry](items=tuple(entries), next=None if following is None else replies.cursor(following))
    )


@router.get("/tokens", summary="List tokens", response_model=ListPage[AccessToken], responses=problems.documented())
def tokens(asking: Somebody) -> Response:
    """All tokens, the newest first; also those that are over. Secrets are kept nowhere."""
    asking.require(Role.ADMIN)
    listed = asking.desk.guard.tokens.tokens()
    return replies.reply(
        ListPage[AccessToken](items=tuple(token for token in listed if _is_within(asking, token.tenants)))
    )


@router.post(
    "/tokens",
    summary="Make a token",
    status_code=201,
    response_model=NewToken,
    responses=problems.documented(413),
)
def create_token(order: TokenOrder, asking: Somebody) -> Response:
    """The secret is in the answer, for the only time."""
    asking.require(Role.ADMIN)
    if not _is_within(asking, order.tenants):
        raise errors.ForbiddenError("A token for other tenants than your own is not yours to make.")
    tenants = asking.desk.house.settings.tenants
    if unknown := [tenant for tenant in order.tenants or () if tenant not in tenants]:
        raise errors.ConfigError(
            f"The settings of the service have no tenant {unknown[0]!r}; the token would see nothing."
        )
    made = asking.desk.guard.tokens.create(
        order.name, order.role, tenants=order.tenants, seconds=order.seconds, created_by=asking.principal.name
    )
    asking.note(target=made.token.token_id, sentence=f"Made a token of the role {order.role.value}.")
    return replies.reply(made, 201, headers={"Cache-Control": "no-store"})


@router.delete(
    "/tokens/{token_id}", summary="Revoke a token", response_model=AccessToken, responses=problems.documented(404)
)
def revoke_token(token_id: Annotated[str, Path(min_length=1, max_length=100)], asking: Somebody) -> Response:
    """It counts no more, on every replica within seconds."""
    asking.require(Role.ADMIN)
    asking.note(target=token_id)
    listed = asking.desk.guard.tokens.tokens()
    token = next((each for each in listed if each.token_id == token_id), None)
    if token is None or not _is_within(asking, token.tenants):
        raise problems.not_there(f"token {token_id!r}")
    return replies.reply(asking.desk.guard.tokens.revoke(token_id))


def _is_within(asking: Asking, tenants: tuple[str, ...] | None) -> bool:
    """Whether somebody answers for all of these tenants."""
    own = asking.principal.tenants
    return own is None or (tenants is not None and set(tenants) <= set(own))
