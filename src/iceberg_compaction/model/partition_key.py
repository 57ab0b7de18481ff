"""The name of a partition in all comparisons: equal keys are the same partition of the same spec."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    import pyarrow as pa
    from numpy.typing import NDArray

PartitionKey: TypeAlias = tuple[int, str]  # spec id, canonical JSON of the partition tuple (model.table_view.FILES)


def lie_in(files: pa.Table, partition_keys: Collection[PartitionKey]) -> NDArray[np.bool_]:
    """Which files (model.table_view.FILES) lie in one of these partitions."""
    spec_ids = {spec_id for spec_id, _ in partition_keys}
    of_spec = {each: {text for spec_id, text in partition_keys if spec_id == each} for each in spec_ids}
    return lie_where(files, lambda spec_id, text: text in of_spec.get(spec_id, ()))


def lie_where(files: pa.Table, is_wanted: Callable[[int, str], bool]) -> NDArray[np.bool_]:
    """Which files lie in partitions that a test of spec id and canonical JSON is true for; it is made once for each."""
    mask = np.zeros(files.num_rows, np.bool_)
    if not files.num_rows:
        return mask
    column, spec_ids = files["partition"].unify_dictionaries().combine_chunks(), files["spec_id"].to_numpy()
    codes, texts = column.indices.to_numpy(), column.dictionary.to_pylist()
    for spec_id in np.unique(spec_ids).tolist():
        wanted = np.fromiter((is_wanted(spec_id, text) for text in texts), np.bool_, len(texts))
        mask |= (spec_ids == spec_id) & wanted[codes]
    return mask
