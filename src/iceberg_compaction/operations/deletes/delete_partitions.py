"""The delete files that a commit adds and removes in each partition, counted for its summary."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import pyarrow as pa

from iceberg_compaction.commit.snapshot_summary import FileChanges
from iceberg_compaction.metadata import partition_tuples
from iceberg_compaction.metadata.manifest.written_manifests import Counts
from iceberg_compaction.model import table_view

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyiceberg.table.metadata import TableMetadata

    from iceberg_compaction.model.partition_key import PartitionKey
    from iceberg_compaction.model.rewrite_task import StagedFile

_FIGURES = ("record_count", "file_size_in_bytes")


def changes(gone: pa.Table, added: Sequence[StagedFile]) -> dict[PartitionKey, FileChanges]:
    """The changes by partition: delete files that leave (model.table_view.FILES), and position deletes that come."""
    keys = ["spec_id", "partition", "content"]
    plain = gone.select([*keys, *_FIGURES])
    plain = plain.set_column(1, "partition", plain["partition"].cast(pa.string()))
    sums = plain.group_by(keys).aggregate([(name, "sum") for name in _FIGURES] + [("record_count", "count")])
    by_key: dict[PartitionKey, FileChanges] = defaultdict(FileChanges)
    for row in sums.to_pylist():
        counts = Counts(
            files=row["record_count_count"], records=row["record_count_sum"], bytes=row["file_size_in_bytes_sum"]
        )
        equality = row["content"] == table_view.EQUALITY_DELETES
        change = FileChanges(equality_deletes=counts) if equality else FileChanges(position_deletes=counts)
        by_key[row["spec_id"], row["partition"]] += change
    for file in added:
        counts = Counts(files=1, records=file.record_count, bytes=file.file_size_in_bytes)
        by_key[file.spec_id, file.partition] += FileChanges(added_position_deletes=counts)
    return dict(by_key)


def by_path(metadata: TableMetadata, changed: Mapping[PartitionKey, FileChanges]) -> dict[str, FileChanges]:
    """The same by the path of each partition; unpartitioned specs are left out."""
    paths: dict[str, FileChanges] = defaultdict(FileChanges)
    for (spec_id, text), change in changed.items():
        spec = metadata.specs()[spec_id]
        if spec.fields:
            paths[partition_tuples.path(text, spec, metadata.schema())] += change
    return dict(paths)
