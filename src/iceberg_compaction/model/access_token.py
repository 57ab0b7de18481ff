"""A token of the service as it is kept: who it stands for, and until when. The secret itself is shown once and kept
nowhere; only its hash is."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from iceberg_compaction.model.principal import Principal, Role
from iceberg_compaction.model.value import Count, Value


class AccessToken(Value):
    """One token. `tenants` None: all."""

    token_id: str
    name: Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]
    role: Role
    tenants: tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] | None = None
    created_ms: Count
    created_by: str = ""
    expires_ms: Count | None = None  # None: never
    revoked_ms: Count | None = None

    def holds(self, now_ms: int) -> bool:
        """Whether the token counts now."""
        return self.revoked_ms is None and (self.expires_ms is None or now_ms < self.expires_ms)

    @property
    def principal(self) -> Principal:
        return Principal(name=self.name, role=self.role, tenants=self.tenants, token_id=self.token_id)


class NewToken(Value):
    """A token that was just made, with its secret, for the only time."""

    token: AccessToken
    secret: Annotated[str, Field(repr=False)]
