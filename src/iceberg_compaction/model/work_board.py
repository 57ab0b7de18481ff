"""The board of a service's work: who is at work on what, how much waits for each tenant, and how well each tenant was
served. It is one small entry of the run store that every change of the work compares and sets, so that limits and turns
hold over all replicas. Pure: a board comes in, another one goes out."""

from __future__ import annotations

from dataclasses import dataclass, field

from iceberg_compaction.model.value import Count, Finite, Value

_FOR_A_CLAIM = 1.0  # what a claim counts, in seconds of work: many short runs are a service as well


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkLimits:
    """How much may be at work at a time, over all workers; None or absent: as much as there is."""

    total: int | None = None
    catalogs: dict[str, int] = field(default_factory=dict)
    tenants: dict[str, int] = field(default_factory=dict)
    away: frozenset[str] = frozenset()  # catalogs that do not answer now
    blocked: frozenset[tuple[str, str]] = frozenset()  # tables whose writers ask for peace, each with its catalog
    waiting: frozenset[str] = frozenset()  # tenants whose budget is spent for now


class BoardClaim(Value):
    """Somebody is at work on a table."""

    work_id: str
    tenant: str  # empty: none
    catalog: str
    table: str
    worker: str
    token: Count
    since_ms: Count


class TenantTurn(Value):
    """How much waits for a tenant, and how well it was served."""

    queued: Count = 0
    served: Finite = 0.0  # seconds of work, counted from the round on in which it came


class WorkBoard(Value):
    """All that is at work. `round`: how well the tenant was served that was served last; nobody counts as less, so that
    a tenant that was away for a week is not served alone for a week."""

    token: Count = 0  # of the last claim
    ended: Count = 0  # pieces of work
    round: Finite = 0.0
    tenants: dict[str, TenantTurn] = {}
    claims: tuple[BoardClaim, ...] = ()

    @property
    def queued(self) -> int:
        return sum(turn.queued for turn in self.tenants.values())

    def queued_of(self, tenant: str) -> int:
        return self.tenants.get(tenant, TenantTurn()).queued

    def claim_of(self, work_id: str) -> BoardClaim | None:
        return next((claim for claim in self.claims if claim.work_id == work_id), None)

    def turns(self, limits: WorkLimits) -> list[str]:
        """The tenants with waiting work that may have more at work now, the least served first: those that have least
        at work, then those that had least."""
        if limits.total is not None and len(self.claims) >= limits.total:
            return []
        busy = dict.fromkeys(self.tenants, 0)
        for claim in self.claims:
            busy[claim.tenant] = busy.get(claim.tenant, 0) + 1
        ready = [
            name
            for name, turn in self.tenants.items()
            if turn.queued and name not in limits.waiting and busy[name] < limits.tenants.get(name, busy[name] + 1)
        ]
        return sorted(ready, key=lambda name: (busy[name], max(self.tenants[name].served, self.round), name))

    def has_room(self, catalog: str, table: str, limits: WorkLimits) -> bool:
        """Whether work on this table may begin: it is the only work on it, and its catalog answers and takes more."""
        if catalog in limits.away or (catalog, table) in limits.blocked:
            return False
        if any((claim.catalog, claim.table) == (catalog, table) for claim in self.claims):
            return False
        most = limits.catalogs.get(catalog)
        return most is None or sum(claim.catalog == catalog for claim in self.claims) < most

    def with_queued(self, tenant: str, more: int) -> WorkBoard:
        """With more or less waiting work of a tenant."""
        turn = self.tenants.get(tenant) or TenantTurn(served=self.round)
        return self._with(tenant, turn.model_copy(update={"queued": max(0, turn.queued + more)}))

    def with_claim(self, claim: BoardClaim) -> WorkBoard:
        """Waiting work of a tenant is at work."""
        turn = self.tenants.get(claim.tenant) or TenantTurn(served=self.round)
        served = max(turn.served, self.round)
        began = TenantTurn(queued=max(0, turn.queued - 1), served=served + _FOR_A_CLAIM)
        board = self.model_copy(update={"token": claim.token, "round": served, "claims": (*self.claims, claim)})
        return board._with(claim.tenant, began)

    def with_heir(self, claim: BoardClaim) -> WorkBoard:
        """Another worker has the work."""
        others = tuple(each for each in self.claims if each.work_id != claim.work_id)
        return self.model_copy(update={"token": claim.token, "claims": (*others, claim)})

    def without_claim(self, work_id: str, now_ms: int, *, again: bool) -> WorkBoard:
        """Nobody is at work on it any more. `again`: it waits again, else it has ended."""
        claim = self.claim_of(work_id)
        if claim is None:
            return self
        seconds = max(0, now_ms - claim.since_ms) / 1000
        turn = self.tenants.get(claim.tenant) or TenantTurn(served=self.round)
        turn = TenantTurn(queued=turn.queued + again, served=turn.served + seconds)
        others = tuple(each for each in self.claims if each.work_id != work_id)
        ended = self.ended + (not again)
        return self.model_copy(update={"claims": others, "ended": ended})._with(claim.tenant, turn)

    def _with(self, tenant: str, turn: TenantTurn) -> WorkBoard:
        """A tenant without work that nobody was served less than is forgotten."""
        tenants = {**self.tenants, tenant: turn}
        if not self.claims and not any(each.queued for each in tenants.values()):
            return self.model_copy(update={"tenants": {}})  # nobody is owed anything by those who did nothing
        at_work = {claim.tenant for claim in self.claims}
        kept = {
            name: each for name, each in tenants.items() if each.queued or each.served > self.round or name in at_work
        }
        return self.model_copy(update={"tenants": kept})
