"""Limits on requests before anything looks at them: how large a body is, and how long it may take to arrive."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from iceberg_compaction.interfaces.service.api import problems

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_READING = ("GET", "HEAD", "OPTIONS")


@dataclass(slots=True)
class RequestLimits:
    """An ASGI middleware. It has the whole body before the app begins, so that a slow client keeps no thread."""

    app: ASGIApp
    most_bytes: int
    seconds: float

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in _READING:
            await self.app(scope, receive, send)
            return
        try:
            body = await asyncio.wait_for(self._body(scope, receive), self.seconds)
        except asyncio.TimeoutError:
            slow = problems.HttpRefusal(408, "too-slow", f"The body did not arrive within {self.seconds:g} seconds.")
            await problems.response(slow)(scope, receive, send)
            return
        except problems.HttpRefusal as refusal:
            await problems.response(refusal)(scope, receive, send)
            return
        if body is None:  # the client is gone
            return
        messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return messages.pop() if messages else await receive()

        await self.app(scope, replay, send)

    async def _body(self, scope: Scope, receive: Receive) -> bytes | None:
        announced = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if announced.isdigit() and int(announced) > self.most_bytes:
            raise self._too_large()
        parts: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            part = message.get("body", b"")
            size += len(part)
            if size > self.most_bytes:
                raise self._too_large()
            parts.append(part)
            if not message.get("more_body", False):
                return b"".join(parts)

    def _too_large(self) -> problems.HttpRefusal:
        return problems.HttpRefusal(413, "too-large", f"The body is larger than {self.most_bytes} bytes.")
