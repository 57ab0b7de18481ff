"""Routes that read requests strictly. JSON: no deep nesting, no numbers that JSON does not have, no text that is not
Unicode, no name twice, so that whatever reaches a model can be stored and answered again. Queries: nothing that nobody
knows, since a `dry_run` that is not heard would be a run."""

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
    from fastapi.dependencies.models import Dependant

PREFIX = "/api/v1"
DEEPEST = 32  # lists and objects within one another
_JSON = re.compile(r"application/([^;]+\+)?json\s*(;|$)", re.IGNORECASE)
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
            if self.body_field is not None:
                await _check_kind(strict)
            try:
                return await handle(strict)
            except HTTPException:
                if strict.refusal is None:
                    raise
                raise strict.refusal from None

        return strictly


def check_query(request: Request) -> None:
    """HttpRefusal: the query has a name that the route does not take. Probes take anything, as others set them up."""
    route = request.scope.get("route")
    if not request.query_params or not isinstance(route, StrictRoute) or not route.path.startswith(PREFIX):
        return
    names = _names(route.dependant)
    if unknown := [name for name in request.query_params if name not in names]:
        takes = ", ".join(names) or "none"
        raise problems.HttpRefusal(
            422, "invalid", f"query.{unknown[0][:100]}: it is not known; of a query this address takes {takes}."
        )


def _names(dependant: Dependant) -> list[str]:
    """What a route takes of a query, with what it depends on."""
    own = [field.alias for field in dependant.query_params]
    return own + [name for each in dependant.dependencies for name in _names(each)]


async def _check_kind(request: Request) -> None:
    """HttpRefusal: a body is not called JSON. Pages of other sites can send such bodies unasked, so none is read."""
    kind = request.headers.get("content-type", "")
    if _JSON.match(kind) is None and await request.body():
        came = f"it came as {kind[:100]}" if kind else "it came without a type"
        raise problems.HttpRefusal(
            415, "no-json", f"The body must be JSON, with the header Content-Type: application/json; {came}."
        )


def parse(body: bytes) -> Any:
    """The value of a body. HttpRefusal: it is no such JSON."""
    if _depth(body) > DEEPEST:
        raise problems.HttpRefusal(
            400, "no-json", f"The body has more than {DEEPEST} lists and objects within one another."
        )
    try:
        value = json.loads(body, parse_constant=_no_constant, object_pairs_hook=_no_name_twice)
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


def _no_name_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object. Readers differ in which of two values counts, so that a proxy may have checked the other one."""
    made: dict[str, Any] = {}
    for name, value in pairs:
        if name in made:
            raise ValueError(f"{name[:50]!r} is there twice")
        made[name] = value
    return made


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")
