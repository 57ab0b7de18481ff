"""The seam between the main line and the operations. An operation is one value: it names its table, makes a plan and
performs it. All other steps, from recovery to the record of the run, are the same for all: see `workflow.operate`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from pyiceberg.table import Table

    from iceberg_compaction.execute.engine_door import Engine
    from iceberg_compaction.metadata.manifest.snapshot_manifests import SnapshotManifests
    from iceberg_compaction.model.checkpoint import CheckpointContent, CheckpointHead
    from iceberg_compaction.model.outcome import Outcome
    from iceberg_compaction.operations.run_ledger import Ledger
    from iceberg_compaction.record.checkpoint.checkpoints import HeldHead
    from iceberg_compaction.record.runs import Run

# Called only if there are groups to rewrite, so that a healthy table never waits for an engine.
EngineFactory: TypeAlias = "Callable[[], AbstractContextManager[Engine]]"


class AnyPlan(Protocol):
    """The facts of a plan that the main line needs."""

    @property
    def empty(self) -> bool: ...
    @property
    def resources(self) -> tuple[str, ...]:
        """What the run needs a lease of, see `model.lease`."""
        ...


P = TypeVar("P", bound=AnyPlan)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedWork(Generic[P]):
    """A plan, and the manifests that it was made on, so that performing it does not list them again."""

    plan: P
    manifests: SnapshotManifests | None = None  # None: the plan was not made just now, or is empty


@dataclass(frozen=True, slots=True, kw_only=True)
class Legacy:
    """The checkpoint of a dead run, which nobody owns."""

    held: HeldHead
    content: CheckpointContent
    in_table: frozenset[str] = frozenset()  # names of files that snapshots of the table refer to


class Operation(Protocol[P]):
    """One kind of work on one table."""

    @property
    def table(self) -> str: ...
    @property
    def branch(self) -> str: ...
    @property
    def command(self) -> str:
        """The command line that does the same, for messages."""
        ...

    def wants(self, head: CheckpointHead) -> bool:
        """Whether it would go on with the plan of a dead run on the table."""
        ...

    def take_up(self, legacy: Legacy, table: Table, run: Run, ledger: Ledger, engines: EngineFactory) -> None:
        """Go on with a plan that it wants, and that the run owns now."""
        ...

    def plan(self, table: Table, run: Run, ledger: Ledger) -> PlannedWork[P]:
        """Make the plan, from metadata alone. Writes nothing."""
        ...

    def perform(
        self, planned: PlannedWork[P], table: Table, run: Run, ledger: Ledger, engines: EngineFactory
    ) -> Outcome:
        """Perform the plan. The ledger has every commit by the time that an error is raised."""
        ...

    def idle(self, plan: P, run: Run, ledger: Ledger) -> Outcome:
        """The outcome of an empty plan."""
        ...


class BeginsAnew:
    """An operation that never goes on with the plan of a dead run."""

    __slots__ = ()

    def wants(self, head: CheckpointHead) -> bool:
        return False

    def take_up(self, legacy: Legacy, table: Table, run: Run, ledger: Ledger, engines: EngineFactory) -> None:
        """It wants none."""


@runtime_checkable
class PlansByEngine(Protocol):
    """An operation whose plan may be more than one process should do. Others plan without an engine."""

    def with_engines(self, engines: EngineFactory) -> Any:
        """The same operation, which may use an engine for its plan."""
        ...
