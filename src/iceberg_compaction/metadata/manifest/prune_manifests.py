"""Rules out manifests that need not be opened, because their partition summaries exclude all rewritten partitions. This
only saves work: a manifest is opened in doubt."""

from __future__ import annotations

import bisect
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyiceberg import types

from iceberg_compaction import errors
from iceberg_compaction.metadata import partition_tuples

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.manifest import ManifestFile, PartitionFieldSummary
    from pyiceberg.table.metadata import TableMetadata

    from iceberg_compaction.model.partition_key import PartitionKey

# Types whose bounds compare as their Python values do, also after a promotion of int to long.
_NUMBERS = (types.IntegerType, types.LongType, types.DateType, types.TimestampType, types.TimestamptzType)


@dataclass(frozen=True, slots=True, kw_only=True)
class _WantedValues:
    """The values of one partition field that are looked for."""

    kind: types.IcebergType
    values: list[Any]  # numbers, or strings as UTF-8, sorted; other types as they are
    null: bool

    def may_be_in(self, summary: PartitionFieldSummary) -> bool:
        if self.null and summary.contains_null:
            return True
        if not self.values:
            return False
        if not isinstance(self.kind, (*_NUMBERS, types.StringType)):
            return True
        if summary.lower_bound is None or summary.upper_bound is None:
            return False  # only nulls
        lower, upper = summary.lower_bound, summary.upper_bound
        if isinstance(self.kind, types.StringType):
            # From U+E000 on, writers that compare UTF-16 order strings differently.
            return max(lower + upper, default=0) >= 0xEE or self._has_between(lower, upper)
        return self._has_between(*(int.from_bytes(bound, "little", signed=True) for bound in (lower, upper)))

    def _has_between(self, lower: Any, upper: Any) -> bool:
        at = bisect.bisect_left(self.values, lower)
        return at < len(self.values) and bool(self.values[at] <= upper)


class PartitionScope:
    """The rewritten partitions, by their keys."""

    def __init__(self, metadata: TableMetadata, partition_keys: Iterable[PartitionKey]) -> None:
        texts = defaultdict(set)
        for spec_id, text in partition_keys:
            texts[spec_id].add(text)
        specs = metadata.specs()
        if missing := texts.keys() - specs.keys():
            raise errors.ConflictError(f"Partition spec {min(missing)} was removed from the table; make a new plan.")
        self._wanted = {spec_id: _wanted(metadata, spec_id, of_spec) for spec_id, of_spec in texts.items()}

    def may_be_in(self, manifest: ManifestFile) -> bool:
        """Whether a manifest may hold files of these partitions."""
        wanted = self._wanted.get(manifest.partition_spec_id)
        if wanted is None:
            return False
        summaries = manifest.partitions
        if summaries is None or len(summaries) != len(wanted):
            return True
        return all(field.may_be_in(summary) for field, summary in zip(wanted, summaries, strict=True))


def _wanted(metadata: TableMetadata, spec_id: int, texts: set[str]) -> list[_WantedValues]:
    spec, schema = metadata.specs()[spec_id], metadata.schema()
    records = [partition_tuples.decode(text, spec, schema) for text in texts]
    by_field = []
    for index, field in enumerate(spec.partition_type(schema).fields):
        values = [record[index] for record in records]
        distinct = list({value for value in values if value is not None})
        if isinstance(field.field_type, types.StringType):
            distinct = sorted(value.encode() for value in distinct)
        elif isinstance(field.field_type, _NUMBERS):
            distinct = sorted(distinct)
        by_field.append(_WantedValues(kind=field.field_type, values=distinct, null=None in values))
    return by_field
