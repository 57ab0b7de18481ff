"""The name of a partition in all comparisons: equal keys are the same partition of the same spec."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection

    import pyarrow as pa
    from numpy.typing import NDArray

PartitionKey: TypeAlias = tuple[int, str]  # spec id, canonical JSON of the partition tuple (model.table_view.FILES)


def lie_in(files: pa.Table, partition_keys: Collection[PartitionKey]) -> NDArray[np.bool_]:
    """Which files (model.table_view.FILES) lie in one of these partitions."""
    mask = np.zeros(files.num_rows, np.bool_)
    if not files.num_rows:
        return mask
    column, spec_ids = files["partition"].unify_dictionaries().combine_chunks(), files["spec_id"].to_numpy()
    codes, texts = column.indices.to_numpy(), column.dictionary.to_pylist()
    for spec_id in {spec_id for spec_id, _ in partition_keys}:
        of_spec = {text for other, text in partition_keys if other == spec_id}
        mask |= (spec_ids == spec_id) & np.fromiter((text in of_spec for text in texts), np.bool_, len(texts))[codes]
    return mask
