"""What happened to one table: a kind from a closed vocabulary, one sentence for a person, and the figures."""

from __future__ import annotations

from enum import Enum

from iceberg_compaction.model.policies import Strategy
from iceberg_compaction.model.proof import Proof
from iceberg_compaction.model.rewrite_task import Effort
from iceberg_compaction.model.value import Value


class Kind(str, Enum):
    """How a run ended."""

    COMPACTED = "compacted"
    HEALTHY = "healthy"  # nothing to do
    SKIPPED = "skipped"
    UNSUPPORTED = "unsupported"
    CONFLICT = "conflict"
    FAILED = "failed"


class GroupEnd(str, Enum):
    """What became of one group of a plan. Closed set."""

    LANDED = "landed"
    CONFLICT = "conflict"  # others changed what it depends on, so that it was left as it is
    FAILED = "failed"  # it could not be rewritten, and was left as it is
    DROPPED = "dropped"  # it no longer held when the plan was applied
    UNKNOWN = "unknown"  # the catalog did not say whether its commit landed
    NOT_REACHED = "not-reached"  # the run ended before its commit


class GroupOutcome(Value):
    """One group, and what became of it."""

    id: int
    partition: str  # canonical JSON, see model.table.FILES
    outcome: GroupEnd
    snapshot_id: int | None = None  # that it landed in
    sentence: str = ""  # why it did not
    file_path: str | None = None  # failed: the file that cannot be read, if that is why
    first_file: str | None = None  # failed: of the group's data files, so that it is known again


class Outcome(Value):
    """The result of compacting one table. Files, bytes and rows are those of the groups that landed."""

    kind: Kind
    table: str
    sentence: str
    run_id: str
    plan_id: str | None = None
    strategy: Strategy | None = None
    snapshot_id: int | None = None  # the last snapshot that the run committed
    snapshot_ids: tuple[int, ...] = ()  # all of them, in order
    files_removed: int = 0
    files_added: int = 0
    bytes_removed: int = 0
    bytes_added: int = 0
    records: int = 0
    deleted_rows: int = 0  # that delete files had taken, and that are in no file any more
    delete_files_removed: int = 0  # that applied to nothing after the run
    groups: int = 0  # that the run set out to rewrite, those planned anew included
    groups_landed: int = 0
    groups_conflicted: int = 0
    groups_failed: int = 0
    group_outcomes: tuple[GroupOutcome, ...] = ()  # one for each group
    attempts: int = 0  # commit attempts
    manifests_removed: int = 0  # `rewrite_manifests` only
    manifests_added: int = 0
    manifest_entries: int = 0  # files that the manifests list
    proof: Proof | None = None
    effort: Effort = Effort()  # what was copied as bytes, and what was encoded
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Nothing failed. Of a table that is `compacted`, groups may have failed alone."""
        return self.kind in (Kind.COMPACTED, Kind.HEALTHY, Kind.SKIPPED) and not self.groups_failed

    def brief(self, most: int = 1000) -> Outcome:
        """The same without most of its groups if there are very many: those that did not land tell more, and those that
        failed most."""
        if len(self.group_outcomes) <= most:
            return self
        telling = [one for one in self.group_outcomes if one.outcome is not GroupEnd.LANDED]
        telling.sort(key=lambda one: one.outcome is not GroupEnd.FAILED)
        return self.model_copy(update={"group_outcomes": tuple(telling[:most])})
