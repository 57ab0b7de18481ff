"""Orders partition tuples by their values. Canonical texts come in; ranks to sort files by, and partition summaries for
a manifest list, go out. The order is the one by which readers compare bounds: 9 before 10, and -0.0 before 0.0; null
comes first and NaN last."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
from pyiceberg import conversions
from pyiceberg.manifest import PartitionFieldSummary

from iceberg_compaction.metadata import partition_tuples

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from iceberg_compaction.metadata.manifest import entry_fields


def ranks(texts: Sequence[str], layout: entry_fields.ManifestLayout) -> NDArray[np.int64]:
    """The rank of each of the distinct tuples."""
    tuples = [partition_tuples.decode(text, layout.spec, layout.schema) for text in texts]
    keys = [tuple(_key(record[i]) for i in range(len(layout.partition_fields))) for record in tuples]
    order = sorted(range(len(texts)), key=keys.__getitem__)
    ranked = np.empty(len(texts), np.int64)
    ranked[order] = np.arange(len(texts))
    return ranked


def summaries(texts: Iterable[str], layout: entry_fields.ManifestLayout) -> list[PartitionFieldSummary]:
    """The summary of each partition field for a manifest that holds exactly these partitions."""
    records = [partition_tuples.decode(text, layout.spec, layout.schema) for text in texts]
    by_field = []
    for i, field in enumerate(layout.partition_fields):
        values = [record[i] for record in records]
        ordered = sorted((value for value in values if value is not None and not _is_nan(value)), key=_key)
        kind: Any = field.field_type
        bounds = [conversions.to_bytes(kind, value) for value in (ordered[0], ordered[-1])] if ordered else [None, None]
        by_field.append(PartitionFieldSummary(None in values, any(map(_is_nan, values)), *bounds))
    return by_field


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _key(value: Any) -> tuple[int, Any]:
    """A sort key for values of one field: text by its bytes, floats so that -0.0 is before 0.0."""
    if value is None:
        return (0, 0)
    if isinstance(value, float):
        if math.isnan(value):
            return (2, 0)
        bits = struct.unpack(">q", struct.pack(">d", value))[0]
        return (1, bits if bits >= 0 else -(bits & 0x7FFF_FFFF_FFFF_FFFF) - 1)
    return (1, value.encode() if isinstance(value, str) else value)
