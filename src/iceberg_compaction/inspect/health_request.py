"""The input of a health check beside the view of the table: the policy, and facts from other rooms. Every part of the
check reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iceberg_compaction.inspect.delete_cost import AppliedCounts
    from iceberg_compaction.model.maintainer import Maintainer
    from iceberg_compaction.model.manifest_plan import ManifestPlan
    from iceberg_compaction.model.policies import Policy, Sizes
    from iceberg_compaction.model.snapshot_history import History

WORST = 10
MANY_DELETES = 5  # delete files that apply to one data file; each scan of the data file opens them all


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWork:
    """The data files that a run would rewrite, and the delete files that it would drop with no data file."""

    files: int = 0
    bytes: int = 0
    useless_deletes: int = 0
    exchanged_deletes: int = 0  # that it would merge or convert


NO_WORK = RunWork()


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """One table's check. A fact that is None is unknown, and health leaves it out."""

    policy: Policy
    sizes: Sizes  # resolved for the table
    sick: bool  # a run with the policy has something to do
    work: RunWork = NO_WORK  # of that run
    delete_work: RunWork = NO_WORK  # of a run of `delete-files` with MANY_DELETES as its threshold
    full_work: RunWork = NO_WORK  # of a run that rewrites all files, where some are of an older partition spec
    manifest_plan: ManifestPlan | None = None  # of `manifests`; None: it would refuse the table
    applied: AppliedCounts | None = None
    history: History | None = None
    maintainers: tuple[Maintainer, ...] = ()  # other tools that rewrite the table
    worst: int = WORST  # number of partitions to list

    @property
    def delete_heavy(self) -> bool:
        """Whether deletes alone are a reason for a run."""
        return self.delete_work.files > 0 or self.delete_work.exchanged_deletes > 0
