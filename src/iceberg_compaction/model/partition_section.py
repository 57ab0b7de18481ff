"""Files of one partition among those that are rewritten together. Rows that move to another partition spec are gathered
from many partitions, so a group or a task may have several sections; most have none, and lie in one partition."""

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
    """So many files of one partition and spec, one after the other."""

    spec_id: Count
    partition: str  # canonical JSON, see model.table.FILES
    files: Count
