"""Values as answers: JSON by the model's own rules, pages with a cursor, and files."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Query
from fastapi.responses import Response

from iceberg_compaction.interfaces.service.api import problems

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel

MOST_ITEMS = 1000
Limit = Annotated[int, Query(ge=1, le=MOST_ITEMS, description="items of a page")]
After = Annotated[str, Query(max_length=4000, description="`next` of the page before")]


def reply(value: BaseModel, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """The value as JSON. It was checked when it was made, and is not checked again."""
    text = value.model_dump_json(by_alias=True)
    return Response(text, status, headers=dict(headers or {}), media_type="application/json")


def nothing() -> Response:
    """Done, without a word."""
    return Response(status_code=204)


def cursor(text: str) -> str:
    """A place in a list as text that clients hand back without reading it."""
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def position(after: str) -> str:
    """The place of a cursor; HttpRefusal: it is none of ours."""
    try:
        return base64.b64decode(after + "=" * (-len(after) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise problems.HttpRefusal(422, "invalid", "query.after: it is no `next` of a page of this list.") from None


def number(after: str) -> int:
    """The place of a cursor that counts; 0: the beginning."""
    text = position(after) if after else "0"
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise problems.HttpRefusal(422, "invalid", "query.after: it is no `next` of a page of this list.")
    return int(text)


def described(model: Any, description: str = "", status: int = 200) -> dict[str, Any]:
    """What a route of one answer says of itself, for its decorator."""
    return {"response_model": model, "status_code": status, "response_description": description or "The answer."}
