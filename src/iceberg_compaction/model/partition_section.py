"""Sections of groups and tasks. Rows that move to another partition spec come from many partitions, so a group or task
of them has a section for each partition. Other groups lie in one partition and have none."""

from __future__ import annotations

import pyarrow as pa

from iceberg_compaction.model.value import Count, Value

SECTIONS = pa.list_(
    pa.struct(
        [
            pa.field("spec_id", pa.int64(), nullable=False),
            pa.field("partition", pa.string(), nullable=False),
            pa.field("files", pa.int64(), nullable=False),
        ]
    )
)


class Section(Value):
    """Consecutive files of one partition and spec."""

    spec_id: Count
    partition: str  # canonical JSON, see model.table_view.FILES
    files: Count
