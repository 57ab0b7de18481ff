"""Times in words have no end, and within Python's calendar they are Python's (R55)."""

from __future__ import annotations

import random

import numpy as np
import pytest
from pyiceberg.utils import datetime as iceberg_datetime

from iceberg_compaction.model import times


@pytest.mark.parametrize(
    ("days", "text"),
    [  # as Iceberg Java names partitions
        (2**31 - 1, "5881580-07-11"),
        (-(2**31), "-5877641-06-23"),
        (2_932_897, "10000-01-01"),
        (-719_163, "0000-12-31"),
        (-719_529, "-001-12-31"),
        (0, "1970-01-01"),
    ],
)
def test_days_of_any_year(days: int, text: str) -> None:
    assert times.day(days) == text
    assert times.to_days(text) == days
    assert times.hour(days * 24 - 1) == f"{times.day(days - 1)}-23"


def test_times_are_what_pyiceberg_says_as_far_as_it_goes() -> None:
    dice = random.Random(7)
    for _ in range(300):
        micros = dice.randrange(-62_135_596_800_000_000, 253_402_300_800_000_000)
        days, hours = micros // 86_400_000_000, micros // 3_600_000_000
        assert times.day(days) == iceberg_datetime.to_human_day(days)
        assert times.hour(hours) == iceberg_datetime.to_human_hour(hours)
        assert times.timestamp(micros) == iceberg_datetime.to_human_timestamp(micros)
        assert times.timestamptz(micros) == iceberg_datetime.to_human_timestamptz(micros)


def test_every_moment_comes_back() -> None:
    dice = random.Random(8)
    for micros in [-(2**63), 2**63 - 1, *(dice.randrange(-(2**63), 2**63) for _ in range(300))]:
        assert times.to_micros(times.timestamp(micros)) == times.to_micros(times.timestamptz(micros)) == micros
        assert times.to_nanos(times.timestamp_ns(micros)) == times.to_nanos(times.timestamptz_ns(micros)) == micros
        if micros > 253_402_300_800_000_000:  # numpy writes these years alike
            assert times.timestamp(micros).split("T")[0] == str(np.datetime64(micros, "us").astype("datetime64[D]"))


@pytest.mark.parametrize(
    "text", ["2026-02-30", "26-01-01", "2026-1-1", "+2026-01-01", "", "\N{ARABIC-INDIC DIGIT TWO}026-01-01"]
)
def test_what_is_no_date_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        times.to_days(text)
    with pytest.raises(ValueError, match=r"."):
        times.to_micros(f"{text}T00:00:00")


def test_a_moment_elsewhere_is_refused() -> None:
    with pytest.raises(ValueError, match="is not in UTC"):
        times.to_micros("12026-01-01T00:00:00+01:00")
