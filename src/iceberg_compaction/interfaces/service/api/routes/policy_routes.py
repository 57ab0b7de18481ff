"""Policies that were put over REST, beside the policy file. They may name tables of all tenants, so that whoever stands
for single ones sees the policy of their tables only (`GET /tables/{table}/policy`)."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Response

from iceberg_compaction.interfaces.service.api import problems, replies
from iceberg_compaction.interfaces.service.api.service_desk import Somebody
from iceberg_compaction.interfaces.service.api.strict_route import PREFIX, StrictRoute
from iceberg_compaction.model.policy_review import PolicyReview
from iceberg_compaction.model.principal import Role
from iceberg_compaction.model.service_answers import ListPage, StoredPolicy
from iceberg_compaction.policy import review, spelling

router = APIRouter(prefix=PREFIX, route_class=StrictRoute, tags=["policies"])
Name = Annotated[str, Path(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Document = Annotated[dict[str, Any], Body(description="as a policy file has it, in JSON")]


@router.get(
    "/policies", summary="List stored policies", response_model=ListPage[StoredPolicy], responses=problems.documented()
)
def list_policies(asking: Somebody) -> Response:
    """All documents that were put over REST. The policy file is not among them."""
    asking.require_all_tenants(Role.VIEWER)
    documents = asking.desk.house.policies.documents()
    stored = tuple(StoredPolicy(name=name, document=document) for name, document in documents.items())
    return replies.reply(ListPage[StoredPolicy](items=stored))


@router.post(
    "/policies/validate",
    summary="Check a policy",
    response_model=PolicyReview,
    responses=problems.documented(413),
)
def validate(document: Document, asking: Somebody) -> Response:
    """All problems of a document, each a sentence; nothing is stored."""
    asking.require(Role.VIEWER)
    return replies.reply(_review("the policy", document))


@router.get(
    "/policies/{name}", summary="One stored policy", response_model=StoredPolicy, responses=problems.documented(404)
)
def one_policy(name: Name, asking: Somebody) -> Response:
    """The document as it was put."""
    asking.require_all_tenants(Role.VIEWER)
    documents = asking.desk.house.policies.documents()
    if name not in documents:
        raise problems.not_there(f"policy {name!r}")
    return replies.reply(StoredPolicy(name=name, document=documents[name]))


@router.put(
    "/policies/{name}",
    summary="Store a policy",
    response_model=StoredPolicy,
    responses=problems.documented(413),
)
def put_policy(name: Name, document: Document, asking: Somebody) -> Response:
    """It holds from now on. One that cannot be used is refused, with all of its problems."""
    asking.require_all_tenants(Role.ADMIN)
    asking.note(target=name)
    reviewed = _review(f"policy {name}", document)
    if not reviewed.ok:
        raise problems.HttpRefusal(422, "invalid", " ".join(reviewed.problems[:10]))
    asking.desk.house.policies.put(name, document)
    return replies.reply(StoredPolicy(name=name, document=document))


@router.delete(
    "/policies/{name}",
    summary="Forget a policy",
    status_code=204,
    response_class=Response,
    responses=problems.documented(404),
)
def delete_policy(name: Name, asking: Somebody) -> Response:
    """Tables follow what is left from now on."""
    asking.require_all_tenants(Role.ADMIN)
    asking.note(target=name)
    if not asking.desk.house.policies.remove(name):
        raise problems.not_there(f"policy {name!r}")
    return replies.nothing()


def _review(name: str, document: dict[str, Any]) -> PolicyReview:
    return review.check_text(json.dumps(document), name, spelling.PolicySpellings())
