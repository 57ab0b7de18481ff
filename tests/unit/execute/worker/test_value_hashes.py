"""Values of every type are hashed in Iceberg's own binary form, nulls and empty ones are not."""

from __future__ import annotations

import datetime
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg import conversions, types
from tests.factories import murmur

from iceberg_compaction.execute.worker import arrow_schemas
from iceberg_compaction.execute.worker.sketch import value_hashes
from iceberg_compaction.formats import theta_hashes

DAY = datetime.date(1969, 12, 30)
NOON = datetime.datetime(1969, 12, 31, 12, 0, 0, 7)
VALUES: list[tuple[types.IcebergType, list[Any]]] = [
    (types.BooleanType(), [True, False]),
    (types.IntegerType(), [-(2**31), -1, 0, 2**31 - 1]),
    (types.LongType(), [-(2**63), -1, 0, 2**63 - 1]),
    (types.FloatType(), [-0.0, 0.0, 1.5, float("inf")]),
    (types.DoubleType(), [-0.0, 0.0, 1e300, float("-inf")]),
    (types.DateType(), [DAY, datetime.date(2026, 2, 28)]),
    (types.TimeType(), [datetime.time(23, 59, 59, 999_999)]),
    (types.TimestampType(), [NOON, datetime.datetime(2026, 1, 1)]),
    (types.TimestamptzType(), [NOON.replace(tzinfo=datetime.timezone.utc)]),
    (types.StringType(), ["a", "ü" * 40]),
    (types.BinaryType(), [b"\x00", b"\xff" * 17]),
    (types.FixedType(3), [b"abc", b"\x00\x00\x00"]),
    (types.UUIDType(), [uuid.UUID(int=5), uuid.UUID(int=2**127)]),
    (types.DecimalType(9, 2), [Decimal(each) for each in ("0.00", "0.01", "-0.01", "1.27", "1.28", "-1.28", "-1.29")]),
    (types.DecimalType(38, 0), [Decimal(10**37), Decimal(-(10**37)), Decimal(255), Decimal(-(2**63))]),
]


def array(values: list[Any], kind: types.IcebergType) -> pa.Array:
    if isinstance(kind, types.UUIDType):
        plain = pa.array([value and value.bytes for value in values], pa.binary(16))
        return pa.ExtensionArray.from_storage(pa.uuid(), plain)
    return pa.array(values, arrow_schemas.arrow_type(kind))


@pytest.mark.parametrize(
    ("kind", "values"), VALUES, ids=lambda each: str(each) if isinstance(each, types.PrimitiveType) else ""
)
def test_values_are_hashed_in_their_single_value_form(kind: types.IcebergType, values: list[Any]) -> None:
    assert value_hashes.is_counted(kind)
    expected = {murmur.first_word(conversions.to_bytes(kind, value), theta_hashes.SEED) for value in values}
    given = array([None, *values, values[0], None], kind).slice(0, len(values) + 2)
    found = value_hashes.hashes(given, kind).tolist()
    assert set(found) == expected
    assert len(expected) == len(values)


def test_nulls_empty_values_and_unused_ones_of_a_dictionary_have_no_hash() -> None:
    texts = pa.array(["x", "", None, "y", "x"]).dictionary_encode()
    assert len(value_hashes.hashes(texts, types.StringType())) == 2
    assert len(value_hashes.hashes(texts.slice(3), types.StringType())) == 2
    assert len(value_hashes.hashes(texts.slice(4), types.StringType())) == 1
    assert len(value_hashes.hashes(texts.slice(1, 2), types.StringType())) == 0
    assert len(value_hashes.hashes(pa.array([], pa.int64()), types.LongType())) == 0
    assert not value_hashes.is_counted(types.StructType())
