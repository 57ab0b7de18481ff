"""The rule that a rewrite must pay: bins whose expected saving does not exceed their cost are left alone. A verdict and
estimates come in, the stricter verdict and its words go out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from iceberg_compaction.model import partition_words, plurals
from iceberg_compaction.model.plan_cost import dollars
from iceberg_compaction.model.rewrite_plan import LeftOutReason

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iceberg_compaction.plan.costs.cost_model import Estimates
    from iceberg_compaction.plan.packing import Packing
    from iceberg_compaction.plan.plan_request import PlanRequest
    from iceberg_compaction.plan.strategies.rewrite_strategy import Verdict

_NAMED = 3  # groups


def pays(costs: Estimates) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = costs.saving > costs.cost
    return mask


def keep(verdict: Verdict, costs: Estimates) -> Verdict:
    """The same verdict, but bins that do not pay are left out."""
    paying = pays(costs)
    poor = verdict.kept & ~paying
    return replace(
        verdict,
        rewritten={reason: mask & paying for reason, mask in verdict.rewritten.items()},
        left_out={**verdict.left_out, LeftOutReason.NOT_WORTH: poor},
    )


def words_of_files(unpaid: tuple[float, float], request: PlanRequest) -> str:
    """The cost and the saving of files that are too large for what they save."""
    if not any(unpaid):
        return ""
    cost, saving = map(dollars, unpaid)
    return f": as parts of groups, they would cost about {cost} and save about {saving} in {_horizon(request)}"


def _horizon(request: PlanRequest) -> str:
    return f"{request.policy.horizon_days:g} days"


def words(packing: Packing, costs: Estimates, poor: NDArray[np.bool_], request: PlanRequest) -> str:
    """The cost and the saving of the groups that are left out: of all, and of those that are nearest to paying."""
    numbers = np.flatnonzero(poor)
    if not len(numbers):
        return ""
    nearest = numbers[np.argsort(-costs.gain_per_cost()[numbers], kind="stable")][:_NAMED]
    texts = packing.files.numbering.texts_of(packing.bins.packing_key[nearest]).to_pylist()
    groups = plurals.count(len(numbers), "group")
    total = (
        f": {groups} would cost about {dollars(float(costs.cost[numbers].sum()))} and save about "
        f"{dollars(float(costs.saving[numbers].sum()))} in {_horizon(request)}"
    )
    if len(numbers) == 1:
        return total
    names = [partition_words.text(text) or "the table" for text in texts]
    pairs = [f"{dollars(costs.cost[number])} and {dollars(costs.saving[number])}" for number in nearest]
    each = "; ".join(f"{name}: {pair}" for name, pair in zip(names, pairs, strict=True))
    return f"{total} (nearest to paying: {each})"
