"""Writes every act down: whoever asked for a change, what it was about, and how it was answered. Reads are no acts, but
reads that were refused are."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anyio import to_thread

from iceberg_compaction import errors
from iceberg_compaction.model.audit_entry import AuditEntry

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from iceberg_compaction.interfaces.service.api.service_desk import ServiceDesk

_READING = ("GET", "HEAD", "OPTIONS")
_REFUSED = (401, 403)
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class AuditTrail:
    """An ASGI middleware. What routes note about a request (`Asking.note`) goes into its entry."""

    app: ASGIApp
    desk: ServiceDesk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status = 0

        async def watch(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if status in _REFUSED or scope["method"] not in _READING:
                    # Before the answer: an act that was answered is in the log.
                    await to_thread.run_sync(self._add, scope, status)
            await send(message)

        await self.app(scope, receive, watch)

    def _add(self, scope: Scope, status: int) -> None:
        state = scope.get("state", {})
        principal = state.get("principal")
        facts: dict[str, Any] = state.get("audit", {})
        client = scope.get("client")
        route = getattr(scope.get("route"), "path", scope["path"])
        entry = AuditEntry(
            at_ms=self.desk.house.clock(),
            principal="" if principal is None else principal.name,
            token_id=None if principal is None else principal.token_id,
            address=client[0] if client else "",
            action=f"{scope['method']} {route}",
            status=status,
            **facts,
        )
        try:
            self.desk.audit.add(entry)
        except errors.StoreError as error:
            _log.error("An act is not in the audit log: %s %s", entry.action, error)
