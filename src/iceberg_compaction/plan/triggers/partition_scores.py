"""The guide's score of every partition, and the highest of them as values with their parts. Measures come in; numbers
and values go out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from iceberg_compaction.model import partition_score
from iceberg_compaction.plan.triggers import decision_table

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from iceberg_compaction.model.partition_key import PartitionKey
    from iceberg_compaction.model.rewrite_past import RewritePast
    from iceberg_compaction.plan.triggers.measures import PartitionMeasures
    from iceberg_compaction.plan.triggers.trigger_check import TriggerCheck

    Floats = NDArray[np.float64]

MOST = 10  # partitions that a plan names


def highest(
    check: TriggerCheck, past: RewritePast | None, most: int = MOST
) -> tuple[partition_score.PartitionScore, ...]:
    """The partitions with the highest scores, and the triggers that fired in each."""
    measured = check.measures
    score = sum(parts(measured, past).values(), np.zeros(len(measured.numbering)))
    numbers = np.flatnonzero(measured.has_data)
    numbers = numbers[measured.numbering.sort(numbers)]  # equal ones by spec and text: reports can be compared
    scored = _scores(measured, past, numbers[np.argsort(-score[numbers], kind="stable")][:most])
    return tuple(
        score.model_copy(update={"triggers": tuple(check.comparisons(number))}) for number, score in scored.items()
    )


def of_partitions(
    measured: PartitionMeasures, past: RewritePast | None, keys: Collection[PartitionKey]
) -> dict[PartitionKey, partition_score.PartitionScore]:
    """The scores of these partitions."""
    wanted = set(keys)
    numbering = measured.numbering
    candidates = np.flatnonzero(measured.has_data)
    names = zip(numbering.spec_ids[candidates].tolist(), numbering.texts_of(candidates).to_pylist(), strict=True)
    numbers = candidates[[key in wanted for key in names]] if wanted else candidates[:0]
    scored = _scores(measured, past, numbers)
    return {(score.spec_id, score.partition): score for score in scored.values()}


def parts(measured: PartitionMeasures, past: RewritePast | None) -> dict[str, Floats]:
    """The parts of the score of every partition, which add up to it."""
    hours = _hours(measured, past)
    return {
        "files_part": partition_score.FILES_WEIGHT
        * np.minimum(measured.columns["files"] / partition_score.MANY_FILES, 1.0),
        "fragment_part": partition_score.FRAGMENT_WEIGHT * measured.fragment_ratio,
        "time_part": partition_score.TIME_WEIGHT * np.clip(hours / partition_score.LONG_HOURS, 0.0, 1.0),
        "small_part": partition_score.SMALL_WEIGHT * measured.small_ratio,
    }


def _hours(measured: PartitionMeasures, past: RewritePast | None) -> Floats:
    now_ms = 0 if past is None else past.now_ms
    never = np.isnan(measured.rewritten_ms)
    return np.where(never, partition_score.LONG_HOURS, (now_ms - measured.rewritten_ms) / 1000 / decision_table.HOUR)


def _scores(
    measured: PartitionMeasures, past: RewritePast | None, chosen: NDArray[np.int64]
) -> dict[int, partition_score.PartitionScore]:
    """The scores of these partition numbers as values, in their order."""
    points = parts(measured, past)
    score = sum(points.values(), np.zeros(len(measured.numbering)))
    hours, texts = _hours(measured, past), measured.numbering.texts_of(chosen).to_pylist()
    return {
        number: partition_score.PartitionScore(
            spec_id=int(measured.numbering.spec_ids[number]),
            partition=text,
            score=round(float(score[number]), 4),
            files=int(measured.columns["files"][number]),
            fragment_ratio=round(float(measured.fragment_ratio[number]), 4),
            hours=None if math.isnan(measured.rewritten_ms[number]) else round(max(0.0, float(hours[number])), 2),
            small_ratio=round(float(measured.small_ratio[number]), 4),
            **{name: round(float(part[number]), 4) for name, part in points.items()},
        )
        for number, text in zip(chosen.tolist(), texts, strict=True)
    }
