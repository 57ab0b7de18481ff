"""The changes of a commit in each partition, for tables whose snapshot summaries list them (by the property
`write.summary.partition-limit`). A request and the delete files that leave come in, counts by partition path go
out."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from iceberg_compaction.commit.snapshot_summary import FileChanges
from iceberg_compaction.metadata import partition_tuples
from iceberg_compaction.metadata.manifest.written_manifests import Counts
from iceberg_compaction.model import table_view

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyiceberg.table.metadata import TableMetadata

    from iceberg_compaction.model.partition_key import PartitionKey
    from iceberg_compaction.operations.rewrite_files.change.replace_request import ReplaceRequest


def changes(metadata: TableMetadata, request: ReplaceRequest, dangling: pa.Table) -> dict[str, FileChanges]:
    """The changes by the path of each partition; empty if a group has files of several partitions, as it does not say
    which file lies in which."""
    if any(len(group.partitions) > 1 for group in request.groups):
        return {}
    by_path: dict[str, FileChanges] = defaultdict(FileChanges)
    for (spec_id, text), change in (*_data(request), *_deletes(dangling)):
        spec, schema = metadata.specs()[spec_id], metadata.schema()
        if spec.fields:
            by_path[partition_tuples.path(text, spec, schema)] += change
    return dict(by_path)


def _data(request: ReplaceRequest) -> Iterator[tuple[PartitionKey, FileChanges]]:
    for group in request.groups:
        removed = Counts(
            files=group.removed.num_rows,
            records=pc.sum(group.removed["record_count"]).as_py(),
            bytes=pc.sum(group.removed["file_size_in_bytes"]).as_py(),
        )
        yield group.partitions[0], FileChanges(removed=removed)
        for file in group.added:
            counts = Counts(files=1, records=file.record_count, bytes=file.file_size_in_bytes)
            yield (file.spec_id, file.partition), FileChanges(added=counts)


def _deletes(dangling: pa.Table) -> Iterator[tuple[PartitionKey, FileChanges]]:
    wanted = ["spec_id", "partition", "content", "record_count", "file_size_in_bytes"]
    for row in dangling.select(wanted).to_pylist():
        counts = Counts(files=1, records=row["record_count"], bytes=row["file_size_in_bytes"])
        equality = row["content"] == table_view.EQUALITY_DELETES
        yield (
            (row["spec_id"], row["partition"]),
            FileChanges(equality_deletes=counts) if equality else FileChanges(position_deletes=counts),
        )
