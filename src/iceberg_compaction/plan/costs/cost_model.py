"""The cost of rewriting files, and the saving of their readers, for many groups at once. Figures of groups and prices
come in, estimates go out. Pure arithmetic, every line of which docs/explanation/cost.md states.

A rewrite costs requests (the prior is 2 x inputs + outputs), seconds of cores by the learned rates, and the storage of
the replaced files until their snapshots expire. A scan is spared the files, row groups and delete files that are gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from iceberg_compaction.model import policies
from iceberg_compaction.model.plan_cost import PlanCost
from iceberg_compaction.plan import copy_or_encode

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iceberg_compaction.model.copy_plan import Rates
    from iceberg_compaction.model.table_view import TableView
    from iceberg_compaction.plan.plan_request import PlanRequest

    Floats = NDArray[np.float64]
    Numbers = NDArray[np.int64] | NDArray[np.float64]

READ_RANGE = 16 * 2**20  # bytes of one request, beyond the two for each input
UPLOAD_PART = 10 * 2**20  # bytes; a larger output is uploaded in parts, see docs/explanation/requests.md
FILE_SECONDS = 0.01  # of a core, to open a data file: its footer and the wait that nothing else fills
DELETE_SECONDS = 0.02  # to open a delete file for one data file, and to apply it
GROUP_SECONDS = 0.5  # around the tasks of a group
KEY_SECONDS = 1e-6  # to read a key of an equality delete for one data file, and to keep it for comparison
COMPARE_SECONDS = 1e-7  # to compare a row of a data file with keys
SCAN_RATE = 200e6  # bytes of deleted rows that a scan reads in a second, only to throw them away
_EXPIRE, _EXPIRE_MS = "history.expire.max-snapshot-age-ms", 5 * 86_400_000  # Iceberg's own default
_DAY_MS = 86_400_000
_DIGITS = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFigures:
    """What the cost of groups depends on, one item each."""

    files: Numbers
    bytes: Numbers
    freed: Numbers  # bytes of deleted rows
    row_groups: Numbers
    delete_files: Numbers  # that apply to the files
    key_seconds: Numbers  # that a reader compares rows with the keys of equality deletes
    outputs: Numbers
    copied: Numbers  # bytes
    joined: Numbers  # bytes; the rest is encoded
    whole: bool = True  # else they are parts of groups, and go into parts of outputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimates:
    """Costs and savings of groups, as columns of PLAN_GROUPS."""

    reads: NDArray[np.int64]
    writes: NDArray[np.int64]
    core_seconds: Floats
    spared_requests: NDArray[np.int64]
    spared_seconds: Floats
    freed_bytes: NDArray[np.int64]
    gain_days: Floats
    cost: Floats
    saving: Floats

    def columns(self) -> dict[str, Numbers]:
        return {name: getattr(self, name) for name in self.__slots__}

    def gain_per_cost(self) -> Floats:
        ratio: Floats = self.saving / np.maximum(self.cost, 1e-12)
        return ratio


def basis(request: PlanRequest) -> PlanCost:
    """The prices and assumptions behind the estimates of a plan."""
    policy = request.policy
    declared = policy.scans_per_day
    return PlanCost(
        prices=policy.prices,
        scans_per_day=policies.ASSUMED_SCANS_PER_DAY if declared is None else declared,
        scans_declared=declared is not None,
        horizon_days=policy.horizon_days,
        kept_days=_kept_days(request.view.properties.get(_EXPIRE)),
        budget=request.budget,
    )


def estimate(
    figures: GroupFigures, request: PlanRequest, *, gain_days: Floats | None = None, overhead: float = GROUP_SECONDS
) -> Estimates:
    """`gain_days`: how long the gain of each group lasts; by default for the whole horizon. `overhead`: seconds of a
    core around each group."""
    based, prices = basis(request), request.policy.prices
    live = np.maximum(figures.bytes - figures.freed, 0)
    outputs = figures.outputs
    reads = 2 * figures.files + figures.bytes // READ_RANGE + figures.delete_files + outputs
    in_parts = live > UPLOAD_PART * outputs
    writes = outputs + np.where(in_parts, live // UPLOAD_PART + outputs, 0)
    seconds = _work(figures, request.rates) + FILE_SECONDS * figures.files + DELETE_SECONDS * figures.delete_files
    seconds = seconds + overhead
    cost = reads * prices.read + writes * prices.write + prices.compute(1) * seconds
    cost = cost + prices.storage(1, based.kept_days) * figures.bytes
    fewer_files = figures.files - outputs
    fewer_row_groups = figures.row_groups - _new_row_groups(figures, live, request)
    requests = fewer_files + fewer_row_groups + figures.delete_files
    spared = FILE_SECONDS * fewer_files + copy_or_encode.SCAN_SECONDS * fewer_row_groups
    spared = spared + DELETE_SECONDS * figures.delete_files + figures.key_seconds + figures.freed / SCAN_RATE
    days = np.full(len(figures.files), based.horizon_days) if gain_days is None else gain_days
    saving = based.scans_per_day * days * (requests * prices.read + prices.compute(1) * spared)
    saving = saving + prices.storage(1, 1) * figures.freed * np.maximum(days - based.kept_days, 0)
    return Estimates(
        reads=reads.astype(np.int64),
        writes=writes.astype(np.int64),
        core_seconds=seconds,
        spared_requests=requests.astype(np.int64),
        spared_seconds=spared,
        freed_bytes=figures.freed.astype(np.int64),
        gain_days=days,
        cost=cost,
        saving=saving,
    )


def key_seconds(view: TableView, rows: NDArray[np.int64]) -> Floats:
    """The seconds of a core in which a reader compares the rows of each of these files with the keys of equality
    deletes: to keep the keys, and to look up each row."""
    if view.equality_keys is None:
        return np.zeros(len(rows))
    keys, records = view.equality_keys.to_numpy()[rows], view.files["record_count"].to_numpy()[rows]
    seconds: Floats = KEY_SECONDS * keys + COMPARE_SECONDS * records * (keys > 0)
    return seconds


def _work(figures: GroupFigures, rates: Rates) -> Floats:
    """Seconds of one core for the bytes."""
    encoded = np.maximum(figures.bytes - figures.copied - figures.joined, 0)
    seconds: Floats = (
        encoded / rates.encoding.bytes_per_second
        + figures.copied / rates.copying.bytes_per_second
        + figures.joined / rates.joining.bytes_per_second
    )
    return seconds


def _new_row_groups(figures: GroupFigures, live: Numbers, request: PlanRequest) -> Floats:
    """The row groups of the outputs: copied ones stay, the others get the size that encoding makes."""
    size = copy_or_encode.encoded_row_group(request)
    share = figures.copied / np.maximum(figures.bytes, 1)
    made = figures.row_groups * share + live * (1 - share) / size
    rounded: Floats = np.maximum(np.ceil(made), figures.outputs) if figures.whole else made
    return rounded


def _kept_days(text: str | None) -> float:
    """How long replaced files stay: until snapshots expire by the table's own setting."""
    is_number = text is not None and text.isascii() and text.isdigit() and len(text) <= _DIGITS
    return min(int(text) if is_number and text else _EXPIRE_MS, 3650 * _DAY_MS) / _DAY_MS
