"""Years, months, days and hours since 1970, as Iceberg's time transforms count them, for whole columns at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from pyiceberg import transforms, types

if TYPE_CHECKING:
    from numpy.typing import NDArray

TIMES = (
    transforms.YearTransform,
    transforms.MonthTransform,
    transforms.DayTransform,
    transforms.HourTransform,
)  # each within the one before
_HOUR = 3_600_000_000  # microseconds
_DAY = 24 * _HOUR


def count(transform: Any, source: types.IcebergType, numbers: NDArray[np.int64]) -> NDArray[np.int32]:
    """Units since 1970, rounded down, so that what lies before has negative numbers. `numbers` are the days of a date,
    or the microseconds of a timestamp."""
    if isinstance(transform, transforms.HourTransform):
        return np.floor_divide(numbers, _HOUR).astype(np.int32)
    days = numbers if isinstance(source, types.DateType) else np.floor_divide(numbers, _DAY)
    if isinstance(transform, transforms.DayTransform):
        return days.astype(np.int32)
    unit = "Y" if isinstance(transform, transforms.YearTransform) else "M"
    return days.astype("datetime64[D]").astype(f"datetime64[{unit}]").astype(np.int64).astype(np.int32)


def begin(transform: Any, source: types.IcebergType, units: int) -> int:
    """The first moment of a unit, in the numbers of the source."""
    if isinstance(transform, transforms.HourTransform):
        return units * _HOUR
    if isinstance(transform, transforms.DayTransform):
        days = units
    else:
        unit = "Y" if isinstance(transform, transforms.YearTransform) else "M"
        days = int(np.array([units]).astype(f"datetime64[{unit}]").astype("datetime64[D]").astype(np.int64)[0])
    return days if isinstance(source, types.DateType) else days * _DAY
