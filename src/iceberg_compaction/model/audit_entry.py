"""One act in the service: who, what, when, and what came of it."""

from __future__ import annotations

from iceberg_compaction.model.value import Count, Value


class AuditEntry(Value):
    """One act. Texts are cut, so that nobody fills the store with them."""

    at_ms: Count
    principal: str
    token_id: str | None = None
    address: str = ""  # of the client
    action: str  # such as `POST /api/v1/compact`
    catalog: str = ""
    table: str = ""
    tenant: str | None = None
    target: str = ""  # a run, a policy, a token
    status: int  # of the answer
    sentence: str = ""  # why it was refused, or what was begun
