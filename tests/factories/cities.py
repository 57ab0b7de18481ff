"""Rows with a number and a city, in a table that is partitioned by the city."""

from __future__ import annotations

import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "city", StringType()))
BY_CITY = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "city"), spec_id=0)


def rows(first: int, cities: tuple[str, ...] = ("Rome", "Oslo"), count: int = 6) -> pa.Table:
    """Rows with numbers from the first on; the cities take turns."""
    ids = range(first, first + count)
    return pa.table({"id": pa.array(ids, pa.int64()), "city": [cities[number % len(cities)] for number in ids]})
