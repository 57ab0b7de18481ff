"""A checkpoint: a plan under way in the run store, with the results of its tasks, so that another run can go on with
it. One run at a time owns it, and nobody else may add to it or remove files that it names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iceberg_compaction.model.run_record import CatalogEntry
from iceberg_compaction.model.value import Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iceberg_compaction.model.portable_task import PortableResult
    from iceberg_compaction.model.rewrite_plan import Plan

FORMAT = 1
NOBODY = ""


class CheckpointHead(Value):
    """The facts of a checkpoint that are read without its plan. Whoever changes it makes a new version of its entry, by
    which all others are fenced."""

    format: int = FORMAT
    run_id: str  # of the run that made the plan
    number: int  # of the plan in that run
    owner: str  # the run that performs the plan; NOBODY: any run may take it up
    writers: tuple[str, ...]  # the runs that have written files for it
    entry: CatalogEntry
    branch: str
    plan_id: str
    version: str  # of the product that made it
    cores: int  # that the tasks were cut for
    tasks: int
    groups: int
    bytes: int  # of all input files
    saved_ms: int  # when a run made it or took it up

    @property
    def name(self) -> tuple[str, int]:
        return self.run_id, self.number


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointContent:
    """A checkpoint with all that it holds."""

    plan: Plan | None  # None: it is damaged, or of another version
    results: Sequence[PortableResult] = ()
    gone: frozenset[str] = field(default_factory=frozenset)  # paths of files that its owners removed, or were about to

    def paths(self) -> set[str]:
        """The staged files that a run could still make part of the table."""
        return {file.file_path for each in self.results for file in each.result.staged} - self.gone
