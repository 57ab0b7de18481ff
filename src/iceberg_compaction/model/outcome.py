"""The result of a run on one table: a class for each kind of a closed vocabulary, told apart by `kind`, with one
sentence for a person and the figures. Their JSON has a version."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import Field, TypeAdapter

from iceberg_compaction.model.policies import StrategyName
from iceberg_compaction.model.proof import Proof
from iceberg_compaction.model.rewrite_task import Effort
from iceberg_compaction.model.storage_requests import StorageRequests
from iceberg_compaction.model.value import Value

if TYPE_CHECKING:
    from typing_extensions import Self


class Kind(str, Enum):
    """How a run ended."""

    COMPACTED = "compacted"
    HEALTHY = "healthy"  # nothing to do
    SKIPPED = "skipped"
    UNSUPPORTED = "unsupported"
    CONFLICT = "conflict"
    FAILED = "failed"
    UNDONE = "undone"  # an earlier run was undone
    MAINTAINED = "maintained"  # housekeeping changed the table, or removed files that it no longer needs


_GOOD = frozenset({Kind.COMPACTED, Kind.HEALTHY, Kind.SKIPPED, Kind.UNDONE, Kind.MAINTAINED})


class GroupEnd(str, Enum):
    """How one group of a plan ended. Closed set."""

    COMMITTED = "landed"  # the word in JSON since the first version
    CONFLICT = "conflict"  # others changed what it depends on, so that it was left as it is
    FAILED = "failed"  # it could not be rewritten, and was left as it is
    DROPPED = "dropped"  # it no longer held when the plan was applied
    UNKNOWN = "unknown"  # the catalog did not say whether its commit landed
    NOT_REACHED = "not-reached"  # the run ended before its commit


class GroupOutcome(Value):
    """How one group ended."""

    id: int
    partition: str  # canonical JSON, see model.table.FILES
    outcome: GroupEnd
    snapshot_id: int | None = None  # of its commit
    sentence: str = ""  # why it was not committed
    file_path: str | None = None  # failed: the file that cannot be read, if that is why
    first_file: str | None = None  # failed: of the group's data files, so that it is known again


class _RunEnd(Value):
    """The fields that mean the same for every kind."""

    version: Literal[1] = 1  # of the JSON; rows of older stores have none, and the same fields
    kind: Kind
    table: str
    sentence: str
    run_id: str
    plan_id: str | None = None
    strategy: StrategyName | None = None
    groups: int = 0  # that the run set out to rewrite, those planned anew included
    groups_conflicted: int = 0
    groups_failed: int = 0
    group_outcomes: tuple[GroupOutcome, ...] = ()  # one for each group
    effort: Effort = Effort()  # bytes that were copied, and bytes that were encoded
    requests: StorageRequests = StorageRequests()  # to storage, of the run and of its workers
    cost: float = 0.0  # dollars of its tasks, by the price list; commits are not counted
    tenant: str | None = None  # whose hourly limit that counts against
    seconds: float = 0.0

    def __repr__(self) -> str:
        return self._line(self.table, self.sentence)

    __str__ = __repr__

    @property
    def ok(self) -> bool:
        """Nothing failed. Of a table that is `compacted`, groups may have failed alone."""
        return self.kind in _GOOD and not self.groups_failed

    def brief(self, most: int = 1000) -> Self:
        """The same without most of its groups if there are very many: groups that were not committed say more, and
        those that failed say most."""
        if len(self.group_outcomes) <= most:
            return self
        telling = [group for group in self.group_outcomes if group.outcome is not GroupEnd.COMMITTED]
        telling.sort(key=lambda group: group.outcome is not GroupEnd.FAILED)
        return self.model_copy(update={"group_outcomes": tuple(telling[:most])})


class _Unchanged(_RunEnd):
    """The run committed nothing. The figures are there, so that outcomes of many tables add up, and can only be 0."""

    snapshot_id: None = None
    snapshot_ids: tuple[()] = ()
    files_removed: Literal[0] = 0
    files_added: Literal[0] = 0
    bytes_removed: Literal[0] = 0
    bytes_added: Literal[0] = 0
    records: Literal[0] = 0
    deleted_rows: Literal[0] = 0
    delete_files_removed: Literal[0] = 0
    groups_landed: Literal[0] = 0
    attempts: Literal[0] = 0
    manifests_removed: Literal[0] = 0
    manifests_added: Literal[0] = 0
    manifest_entries: Literal[0] = 0
    proof: None = None


class _Changed(_RunEnd):
    """The run committed something, or may have. Files, bytes and rows are those of the committed groups."""

    snapshot_id: int | None = None  # the last snapshot that the run committed
    snapshot_ids: tuple[int, ...] = ()  # all of them, in order
    files_removed: int = 0
    files_added: int = 0
    bytes_removed: int = 0
    bytes_added: int = 0
    records: int = 0
    deleted_rows: int = 0  # that delete files had taken, and that are in no file any more
    delete_files_removed: int = 0  # that applied to nothing after the run
    groups_landed: int = 0  # committed groups
    attempts: int = 0  # commit attempts
    manifests_removed: int = 0  # `rewrite_manifests` only
    manifests_added: int = 0
    manifest_entries: int = 0  # files that the manifests list
    proof: Proof | None = None


class Compacted(_Changed):
    """Something was committed, and nothing stopped the run. Some groups may have been left as they were."""

    kind: Literal[Kind.COMPACTED] = Kind.COMPACTED
    snapshot_id: int


class Healthy(_Unchanged):
    """There was nothing to do, or nothing is left to do."""

    kind: Literal[Kind.HEALTHY] = Kind.HEALTHY


class Skipped(_Unchanged):
    """The table was passed over on purpose."""

    kind: Literal[Kind.SKIPPED] = Kind.SKIPPED


class Unsupported(_Unchanged):
    """The table has something that cannot be rewritten safely yet."""

    kind: Literal[Kind.UNSUPPORTED] = Kind.UNSUPPORTED


class Conflict(_Unchanged):
    """Others changed what the plan depends on, so that nothing could be committed."""

    kind: Literal[Kind.CONFLICT] = Kind.CONFLICT


class Failed(_Changed):
    """Something stopped the run, or all of its groups failed. Commits before that stay and are listed."""

    kind: Literal[Kind.FAILED] = Kind.FAILED


class Undone(_Changed):
    """An earlier run was undone: files that it had written left the table, and those that it had replaced came back. A
    rollback commits no snapshot of its own."""

    kind: Literal[Kind.UNDONE] = Kind.UNDONE
    undone_run_id: str
    way: Literal["rollback", "replace"]
    head_snapshot_id: int  # of the branch after that


class Maintained(_Changed):
    """An operation of housekeeping did its work, see `model.upkeep_plan`. Not every one commits a snapshot."""

    kind: Literal[Kind.MAINTAINED] = Kind.MAINTAINED
    operation: str  # the verb
    figures: dict[str, int] = {}  # what was done, by name, such as `snapshots` and `data-files`
    notes: tuple[str, ...] = ()  # such as what can still be undone, and until when


Outcome: TypeAlias = Annotated[
    Compacted | Healthy | Skipped | Unsupported | Conflict | Failed | Undone | Maintained, Field(discriminator="kind")
]

_ADAPTER: TypeAdapter[Outcome] = TypeAdapter(Outcome)


def parse(fields: dict[str, Any]) -> Outcome:
    """The outcome of its fields, as read from JSON."""
    return _ADAPTER.validate_python(fields)


def from_json(text: str | bytes) -> Outcome:
    """The outcome that `model_dump_json` wrote, in this version or an older one."""
    return _ADAPTER.validate_json(text)
