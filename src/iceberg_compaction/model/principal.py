"""Who asks a service for something: a name, a role, and the tenants that the role holds for."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from pydantic import Field

from iceberg_compaction.model.value import Value


class Role(str, Enum):
    """What somebody may do. Closed set; each may do all that the ones before it may."""

    VIEWER = "viewer"  # read
    OPERATOR = "operator"  # also start, cancel and pause work, but for work that deletes files for good
    ADMIN = "admin"  # also policies, tokens, audit, and work that deletes files

    @property
    def rank(self) -> int:
        return list(Role).index(self)

    def covers(self, needed: Role) -> bool:
        """Whether this role may do what another one may."""
        return self.rank >= needed.rank


class Principal(Value):
    """Somebody who was recognised. `tenants` None: all, and tables of no tenant as well."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    role: Role
    tenants: tuple[str, ...] | None = None
    token_id: str | None = None  # of ours; None: recognised otherwise

    def may_see(self, tenant: str | None) -> bool:
        """Whether tables of a tenant exist for this principal; None: tables of no tenant."""
        return self.tenants is None or (tenant is not None and tenant in self.tenants)


ANYBODY = Principal(name="anybody", role=Role.ADMIN)  # where the service asks for no token
