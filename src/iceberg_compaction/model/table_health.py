"""The health of a table in words and figures, as `doctor`, reports and services show it. docs/reference/health.md
defines each figure."""

from __future__ import annotations

from typing import Literal

from iceberg_compaction.model import byte_size, plurals
from iceberg_compaction.model.bucket_lifecycle import LifecycleNote
from iceberg_compaction.model.maintainer import Maintainer
from iceberg_compaction.model.partition_score import PartitionScore
from iceberg_compaction.model.value import Value


class SizeBucket(Value):
    """One bar of the size histogram: files below `upto` bytes and not in an earlier bar (None: no upper end)."""

    label: str
    upto: int | None
    files: int
    bytes: int


class PartitionHealth(Value):
    """The figures of one partition."""

    spec_id: int
    partition: str
    files: int
    bytes: int
    records: int
    small_files: int
    large_files: int
    delete_files: int
    deleted_row_ratio: float  # as in DeleteHealth
    clustering_depth: float | None = None  # as in ClusteringHealth
    rewrite_score: PartitionScore | None = None  # by the guide's formula; None: not computed


class DeleteHealth(Value):
    """The deletes that readers apply. A position delete or an entry of a deletion vector deletes one row; the key of an
    equality delete may match none, one or many, so the two are never added up."""

    position_files: int = 0
    position_rows: int = 0
    equality_files: int = 0
    equality_rows: int = 0
    vectors: int = 0
    vector_rows: int = 0
    bytes: int = 0
    file_ratio: float = 0.0  # delete files and vectors / data files
    fragment_ratio: float = 0.0  # (equality + position delete files) / data files
    deleted_row_ratio: float = 0.0  # rows of position deletes and vectors / rows of data files, at most 1
    equality_row_ratio: float = 0.0  # keys of equality deletes / rows of data files
    per_data_file_mean: float | None = None  # delete files that apply to a data file; None: not computed
    per_data_file_max: int | None = None
    dangling_files: int | None = None  # delete files that no longer apply to anything

    @property
    def files(self) -> int:
        """All delete files, a deletion vector counted as one."""
        return self.position_files + self.equality_files + self.vectors


class ClusteringHealth(Value):
    """The mean number of files of a partition whose range covers a value; 1.0 is perfectly clustered."""

    column: str | None
    depth: float
    files: int  # that have bounds
    sampled_files: int  # behind the depth


class SpecShare(Value):
    """The data files that were written under one partition spec."""

    spec_id: int
    files: int
    bytes: int
    current: bool


class ScorePart(Value):
    """One summand of the score, and the division behind it."""

    name: str
    points: float
    most: int
    why: str


class Writer(Value):
    """Commits of one kind by one application, from the snapshots that are still kept."""

    name: str  # for people: `flink job 5f1c (append)`
    engine: str
    app: str | None  # application or job id; None: there is none, or several short-lived applications are joined
    apps: int
    operation: str
    commits: int
    first_ms: int
    last_ms: int
    median_interval_seconds: float | None  # between two commits
    files_per_commit: float
    partitions_per_commit: float | None
    added_files: int
    added_records: int
    added_bytes: int
    mean_file_bytes: int
    small_share: float  # of its added files, those from commits whose mean file is small
    live_files: int | None = None  # data files of the table that it wrote; None: unknown
    live_small_files: int | None = None


class PropertyFix(Value):
    """A table property that would prevent problems."""

    name: str
    old: str | None  # None: not set
    new: str
    why: str


class GrowthDay(Value):
    """The changes of one day (UTC) by commits, and the size of the table after the last of them."""

    day: str
    commits: int
    added_files: int
    removed_files: int
    added_bytes: int
    removed_bytes: int
    added_records: int
    removed_records: int
    total_files: int | None
    total_bytes: int | None
    total_records: int | None
    added_files_by_writer: dict[str, int]


class TableHealth(Value):
    """The state of a table, from metadata alone."""

    table: str
    snapshot_id: int | None
    format_version: int | None = None
    data_files: int
    delete_files: int
    records: int
    bytes: int
    mean_file_bytes: int
    target_file_bytes: int
    small_files: int  # below 0.75 x target
    small_ratio: float
    large_files: int  # above 1.8 x target
    partitions: int
    manifests: int  # with live files
    manifest_bytes: int = 0
    small_manifests: int = 0  # below half of commit.manifest.target-size-bytes
    snapshots: int
    refs: int = 0
    metadata_files: int = 0  # metadata.json files in the table's metadata log
    metadata_bytes: int | None = None  # the current metadata.json and manifests together
    histogram: tuple[SizeBucket, ...]
    deletes: DeleteHealth = DeleteHealth()
    clustering: ClusteringHealth | None = None  # None: no file has bounds of a clustering column
    specs: tuple[SpecShare, ...] = ()
    stale_spec_ratio: float = 0.0  # data files of older specs / data files
    worst_partitions: tuple[PartitionHealth, ...]  # most small and delete files first
    score: int  # 0 (sick) to 100 (healthy)
    score_parts: tuple[ScorePart, ...] = ()
    score_note: str | None = None  # why the score is not the sum of its parts
    sick: bool  # a run of the policy has something to do, or many delete files apply to one data file
    advice: tuple[str, ...]
    writers: tuple[Writer, ...] = ()  # most live small files first
    maintainers: tuple[Maintainer, ...] = ()  # other tools that rewrite the table, the most recent first
    causes: tuple[str, ...] = ()  # writers of small files, with remedies
    fixes: tuple[PropertyFix, ...] = ()
    growth: tuple[GrowthDay, ...] = ()
    lifecycle: tuple[LifecycleNote, ...] = ()  # what rules of the bucket do to the table's files
    unsupported: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return self._line(self.table, self.sentence)

    __str__ = __repr__

    @property
    def sentence(self) -> str:
        """The state of the table in one sentence."""
        state = "unsupported" if self.unsupported else "sick" if self.sick else "healthy"
        files = f"{plurals.count(self.data_files, 'data file')}, {self.small_files:,} of them small"
        deletes = f", {plurals.count(self.delete_files, 'delete file')}" if self.delete_files else ""
        return f"{state}, score {self.score} of 100; {files}{deletes}; {byte_size.format_size(self.bytes)}."


class BrokenTable(Value):
    """A table whose health could not be read. `unreachable`: nothing is known to be wrong with the table itself, but
    its catalog or store did not answer, or refused."""

    table: str
    error: str
    state: Literal["broken", "unreachable"] = "broken"
