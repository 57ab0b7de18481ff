"""Routes that read JSON strictly: no deep nesting, no numbers that JSON does not have, no text that is not Unicode. So
whatever reaches a model can be stored and answered again."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from iceberg_compaction.interfaces.service.api import problems

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from fastapi import Response

PREFIX = "/api/v1"
DEEPEST = 32  # lists and objects within one another
_TEXTS = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)


class StrictRequest(Request):
    """A request whose JSON is checked."""

    refusal: problems.HttpRefusal | None = None  # of the body; the framework has one sentence for all of them

    async def json(self) -> Any:
        if not hasattr(self, "_strict"):
            try:
                self._strict = parse(await self.body())
            except problems.HttpRefusal as refusal:
                self.refusal = refusal
                raise
        return self._strict


class StrictRoute(APIRoute):
    """The routes of this service."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            strict = StrictRequest(request.scope, request.receive)
            try:
                return await handle(strict)
            except HTTPException:
                if strict.refusal is None:
                    raise
                raise strict.refusal from None

        return strictly


def parse(body: bytes) -> Any:
    """The value of a body. HttpRefusal: it is no such JSON."""
    if _depth(body) > DEEPEST:
        raise problems.HttpRefusal(
            400, "no-json", f"The body has more than {DEEPEST} lists and objects within one another."
        )
    try:
        value = json.loads(body, parse_constant=_no_constant)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()  # 1e999 becomes infinite; half characters
    except (ValueError, RecursionError) as error:
        reason = (
            f"{error.msg} at character {error.pos}" if isinstance(error, json.JSONDecodeError) else str(error)[:100]
        )
        raise problems.HttpRefusal(400, "no-json", f"The body is no JSON: {reason}.") from None
    return value


def _depth(body: bytes) -> int:
    deepest = depth = 0
    for byte in re.findall(rb"[\[\]{}]", _TEXTS.sub(b"", body)):
        depth += 1 if byte in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")
