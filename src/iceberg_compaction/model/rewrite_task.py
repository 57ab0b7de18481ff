"""What travels to a worker and back. A task is a slice of one group; what all tasks of a run share is the context,
which travels once beside the code so that credentials never become rows that an engine's pages would show."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from pydantic import Field

from iceberg_compaction.model import plurals
from iceberg_compaction.model.byte_size import format_size
from iceberg_compaction.model.listing_task import FoldersToList, KnownHashes, ListedFolders
from iceberg_compaction.model.partition_section import Section
from iceberg_compaction.model.past_rows import PastRows
from iceberg_compaction.model.policies import DEFAULT_MIN_ROW_GROUP, CopyMode, ProofLevel, Sizes
from iceberg_compaction.model.proof import Proof
from iceberg_compaction.model.storage_requests import StorageRequests
from iceberg_compaction.model.value import Value

Told = tuple[int | None, bytes | None, bytes | None]  # nulls, lower and upper bound of a column


class DeleteFile(Value):
    """A live delete file that applies to input files. Which of their rows it deletes follows from its content and from
    the sequence numbers: equality deletes reach older files only, position deletes those of their own commit too."""

    file_path: str
    content: int  # model.table.POSITION_DELETES or EQUALITY_DELETES
    file_format: str  # PARQUET, AVRO, ORC
    file_size_in_bytes: int
    record_count: int
    sequence_number: int  # data sequence number
    equality_ids: tuple[int, ...] = ()


class TaskSection(Section):
    """Files of a task that lie in one partition, and the delete files that apply to them."""

    deletes: tuple[DeleteFile, ...] = ()


class RewriteTask(Value):
    """Input files to be written anew: of one partition and spec, or of several if their rows move to another. The file
    columns run in parallel."""

    id: int
    group_id: int
    spec_id: int
    partition: str  # canonical JSON, see model.table.FILES
    file_paths: tuple[str, ...]
    file_sizes: tuple[int, ...]
    record_counts: tuple[int, ...]
    sequence_numbers: tuple[int, ...] = ()  # data sequence numbers; may be left out where nothing is deleted
    nan_counts: tuple[dict[int, int], ...] = ()  # NaNs of float columns by field id, as manifests tell; {}: not told
    # Nulls, lower and upper bound of floats and texts by field id, as manifests tell; {} and None: not told.
    told: tuple[dict[int, Told], ...] = ()
    deletes: tuple[DeleteFile, ...] = ()  # every delete file that applies to one of the files, or to several
    # Of a task that writes position deletes: those that stay, so that positions in them need not be written again.
    kept_deletes: tuple[DeleteFile, ...] = ()
    sections: tuple[TaskSection, ...] = ()  # where the files lie, if in several partitions; they have the deletes then
    sizes: Sizes | None = None  # of the output files; None: those of the context
    folders: FoldersToList | None = None  # the task lists these, and `file_paths` are their names
    parted: bool = False  # rows are sent to the partitions of their values, even if they are in the output's spec

    @property
    def bytes(self) -> int:
        return sum(self.file_sizes)

    @property
    def parts(self) -> tuple[RewriteTask, ...]:
        """The task as one for each partition that its files lie in."""
        if not self.sections:
            return (self,)
        found, start = [], 0
        for section in self.sections:
            mine = slice(start, start + section.files)
            here = {name: getattr(self, name)[mine] for name in _FILE_COLUMNS}
            here |= {"spec_id": section.spec_id, "partition": section.partition, "deletes": section.deletes}
            found.append(self.model_copy(update=here | {"sections": (), "parted": True}))
            start += section.files
        return tuple(found)


_FILE_COLUMNS = ("file_paths", "file_sizes", "record_counts", "sequence_numbers", "nan_counts", "told")


class Granularity(str, Enum):
    """What a position delete file is for, by Iceberg's names (`write.delete.granularity`)."""

    FILE = "file"  # one data file
    PARTITION = "partition"  # data files of one partition


class RewriteContext(Value):
    """What every task of a run needs to know."""

    run_id: str
    table: str
    table_location: str
    table_schema: str  # the table schema to write, Iceberg JSON
    partition_specs: dict[int, str]  # the partition specs of the tasks and of the output, by id, Iceberg JSON
    output_spec_id: int | None = None  # the spec of all output files; None: each task keeps that of its inputs
    sort_order: str | None = None  # what outputs are sorted by, Iceberg JSON; None: rows keep the order of the inputs
    # Fields that equality deletes compare and the schema has lost: the columns that are or hold them, Iceberg JSON.
    delete_fields: dict[int, str] = {}
    properties: dict[str, str]  # table properties: write.*, schema.name-mapping.default
    sizes: Sizes
    verify: ProofLevel
    copy_row_groups: CopyMode = CopyMode.AUTO
    min_row_group: int = DEFAULT_MIN_ROW_GROUP  # bytes; smaller row groups are merged, not taken over
    only_measured: bool = False  # rows are read and measured, and nothing is written
    sketched: bool = False  # distinct values of all columns are counted, and nothing is written
    past_rows: PastRows | None = None  # rows that go as if they were deleted; None: all stay
    # Tasks list folders, and compare their files with these; None: they read rows.
    known_hashes: Annotated[KnownHashes | None, Field(repr=False)] = None
    position_deletes: Granularity | None = None  # tasks write these for the rows that their deletes take, and no rows
    delete_contents: Annotated[dict[str, bytes], Field(repr=False)] = {}  # small delete files, read once and sent along
    io_properties: Annotated[dict[str, str], Field(repr=False)] = {}  # FileIO only, never the catalog's
    trace: dict[str, str] = {}  # the span that tasks belong to, as W3C headers; empty: nobody traces the run


class StagedFile(Value):
    """A file that is written but not yet part of the table, with all that its manifest entry needs: a data file, or
    position deletes."""

    file_path: str
    file_size_in_bytes: int
    record_count: int
    spec_id: int
    partition: str
    column_sizes: dict[int, int] = {}
    value_counts: dict[int, int] = {}
    null_value_counts: dict[int, int] = {}
    nan_value_counts: dict[int, int] = {}
    lower_bounds: dict[int, bytes] = {}
    upper_bounds: dict[int, bytes] = {}
    split_offsets: tuple[int, ...] = ()
    sort_order_id: int | None = None
    row_checksum: int | None = None  # model.proof.Side's, of a file all of whose rows were encoded
    content: int = 0  # model.table_view.DATA or POSITION_DELETES
    referenced_data_file: str | None = None  # position deletes: their data file, if it is a single one
    sequence_number: int | None = None  # data sequence number; None: that of the planned snapshot (R1)


def _row_groups(count: int) -> str:
    return plurals.count(count, "row group")


class Effort(Value):
    """How the rows of a task got into its outputs: what was taken over as bytes and what was encoded anew."""

    copied_groups: int = 0  # row groups
    copied_bytes: int = 0  # of the inputs
    copy_seconds: float = 0.0
    joined_groups: int = 0  # row groups of the inputs that became fewer and larger ones, mostly as bytes
    joined_bytes: int = 0
    join_seconds: float = 0.0
    encoded_groups: int = 0
    encoded_bytes: int = 0  # of the inputs
    encode_seconds: float = 0.0
    kept_from_copying: dict[str, int] = {}  # row groups of the inputs that were encoded, by reason
    memory_foreseen: int = 0  # bytes of a process that performs tasks, at their peak: the most of all processes
    memory_peak: int = 0  # the same as it was measured; 0: it was not

    @property
    def groups(self) -> int:
        return self.copied_groups + self.joined_groups + self.encoded_groups

    @property
    def bytes(self) -> int:
        return self.copied_bytes + self.joined_bytes + self.encoded_bytes

    @property
    def copied_share(self) -> float:
        """Of the bytes, those that were copied or joined."""
        return (self.copied_bytes + self.joined_bytes) / max(1, self.bytes)

    @property
    def sentence(self) -> str:
        """What was copied and joined and what was not, and why; empty where nothing is known."""
        if not self.groups:
            return ""
        total = format_size(self.bytes)
        encoded = f"{_row_groups(self.encoded_groups)} encoded{self._reasons()}"
        if self.encoded_groups == self.groups:
            return f"Nothing of {total} was copied, {encoded}."
        ways = []
        if self.copied_groups:
            share = f"{self.copied_bytes / max(1, self.bytes):.0%} of {total}"
            ways.append(f"{share} was copied as bytes, {_row_groups(self.copied_groups)}")
        if self.joined_groups:
            share = f"{self.joined_bytes / max(1, self.bytes):.0%}" + ("" if ways else f" of {total}")
            ways.append(f"{share} was joined page by page, {_row_groups(self.joined_groups)}")
        if self.encoded_groups:
            ways.append(encoded)
        return f"{'; '.join(ways)}."

    @property
    def memory_sentence(self) -> str:
        """The memory of the process that took most; empty where nothing is known."""
        if not self.memory_peak:
            return ""
        foreseen = format_size(self.memory_foreseen)
        return f"A process took up to {format_size(self.memory_peak)} of memory; {foreseen} were foreseen."

    def _reasons(self) -> str:
        most = sorted(self.kept_from_copying.items(), key=lambda item: (-item[1], item[0]))
        return f": {', '.join(f'{reason} ({count:,})' for reason, count in most)}" if most else ""

    def __add__(self, other: Effort) -> Effort:
        reasons = sorted(self.kept_from_copying.keys() | other.kept_from_copying.keys())
        return Effort(
            copied_groups=self.copied_groups + other.copied_groups,
            copied_bytes=self.copied_bytes + other.copied_bytes,
            copy_seconds=self.copy_seconds + other.copy_seconds,
            joined_groups=self.joined_groups + other.joined_groups,
            joined_bytes=self.joined_bytes + other.joined_bytes,
            join_seconds=self.join_seconds + other.join_seconds,
            encoded_groups=self.encoded_groups + other.encoded_groups,
            encoded_bytes=self.encoded_bytes + other.encoded_bytes,
            encode_seconds=self.encode_seconds + other.encode_seconds,
            kept_from_copying={
                reason: self.kept_from_copying.get(reason, 0) + other.kept_from_copying.get(reason, 0)
                for reason in reasons
            },
            memory_foreseen=max(self.memory_foreseen, other.memory_foreseen),
            memory_peak=max(self.memory_peak, other.memory_peak),
        )


class TaskResult(Value):
    """What one task did, with its proof."""

    task_id: int
    group_id: int
    staged: tuple[StagedFile, ...]
    proof: Proof
    bytes_read: int
    bytes_written: int
    seconds: float
    effort: Effort = Effort()
    listed: ListedFolders | None = None  # of a task that lists folders
    requests: StorageRequests = StorageRequests()  # to storage, of all attempts in this worker
    sketches: dict[int, bytes] = {}  # of distinct values by field id, in the compact form of theta sketches
    left_behind: bool = False  # not all files of other attempts at the task are surely removed
    attempts: int = 1  # of an engine that retries tasks by itself, those included that may have been lost
