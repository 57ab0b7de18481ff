"""The name of a partition in all comparisons: equal keys are the same partition of the same spec."""

from __future__ import annotations

from typing import TypeAlias

PartitionKey: TypeAlias = tuple[int, str]  # spec id, canonical JSON of the partition tuple (model.table_view.FILES)
