"""Iceberg's output arithmetic, and where our writer departs from it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.factories.examples import examples

from iceberg_compaction.model import sizing
from iceberg_compaction.model.policies import Sizes
from iceberg_compaction.plan import output_counts

MIB = 2**20
DEFAULT = Sizes(target=512 * MIB, min=384 * MIB, max=int(512 * MIB * 1.8))


def iceberg(total: int, sizes: Sizes) -> int:
    """SizeBasedFileRewritePlanner.expectedOutputFiles, step by step as its documentation tells it."""
    if total < sizes.target:
        return 1
    with_rest, without_rest = math.ceil(total / sizes.target), math.floor(total / sizes.target)
    if total % sizes.target > sizes.min:
        return with_rest
    average = int(total / without_rest)
    write_max = int(sizes.target + (sizes.max - sizes.target) * 0.5)
    return without_rest if average < min(1.1 * sizes.target, float(write_max)) else with_rest


@st.composite
def any_sizes(draw: st.DrawFn) -> Sizes:
    target = draw(st.integers(2, 10**9))
    return Sizes(target=target, min=draw(st.integers(0, target - 1)), max=draw(st.integers(target + 1, 4 * target)))


@pytest.mark.parametrize(
    ("targets", "files"),
    [(0.0, 1), (0.99, 1), (1.0, 1), (1.09, 1), (1.2, 2), (1.9, 2), (2.1, 2), (2.3, 3), (10.1, 10), (10.8, 11)],
)
def test_output_count_of_the_default_sizes(targets: float, files: int) -> None:
    assert sizing.output_count(int(targets * DEFAULT.target), DEFAULT) == files


@examples(300)
@given(any_sizes(), st.integers(0, 10**11))
def test_output_count_is_icebergs(sizes: Sizes, total: int) -> None:
    assert sizing.output_count(total, sizes) == iceberg(total, sizes)


@examples(300)
@given(any_sizes(), st.integers(0, 10**11))
def test_the_planner_counts_many_as_one(sizes: Sizes, total: int) -> None:
    totals = np.array([total, total // 2, 0])
    assert output_counts.output_counts(totals, sizes).tolist() == [sizing.output_count(int(t), sizes) for t in totals]
    assert output_counts.file_counts(totals, sizes).tolist() == [sizing.file_count(int(t), sizes) for t in totals]


@examples(300)
@given(any_sizes(), st.integers(0, 10**11))
@example(Sizes(target=1055, min=0, max=1061), 3177)
def test_the_writer_never_aims_above_the_maximum(sizes: Sizes, total: int) -> None:
    assert 0 < sizing.roll_size(total, sizes) <= sizes.max
    assert sizing.file_count(total, sizes) in (sizing.output_count(total, sizes), sizing.output_count(total, sizes) - 1)


@pytest.mark.parametrize("hundredths", range(75, 1200, 7))
def test_equal_shares_lie_within_the_range(hundredths: int) -> None:
    total = hundredths * DEFAULT.target // 100
    share = total / sizing.file_count(total, DEFAULT)
    assert DEFAULT.min <= share <= DEFAULT.max


def test_a_rest_between_one_and_two_targets_becomes_one_file_rather_than_a_small_one() -> None:
    total = int(1.4 * DEFAULT.target)
    assert sizing.output_count(total, DEFAULT) == 2  # one of 512 MiB and one of 205 MiB
    assert sizing.file_count(total, DEFAULT) == 1
    assert sizing.roll_size(total, DEFAULT) > total  # with room for an estimate that is a little low


def test_a_range_too_narrow_for_one_fewer_file_keeps_icebergs_count() -> None:
    narrow = Sizes(target=100, min=95, max=105)
    assert sizing.file_count(140, narrow) == sizing.output_count(140, narrow) == 2


def test_a_file_that_outgrew_its_share_takes_a_rest_that_would_be_small() -> None:
    target = DEFAULT.target
    assert not sizing.takes_all(0, int(1.66 * target), DEFAULT)  # two of 0.83
    assert sizing.takes_all(int(1.16 * target), int(0.5 * target), DEFAULT)
    assert not sizing.takes_all(int(1.16 * target), int(0.9 * target), DEFAULT)
    assert not sizing.takes_all(int(1.4 * target), int(0.5 * target), DEFAULT)  # it would be above the maximum
