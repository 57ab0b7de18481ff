"""Whether a table is due, from its stored health alone. A look at the table, as the run store has it, a policy and the
moment come in; the answer goes out, with the moment from which on time alone makes the table due. Pure, and quick
enough to be asked for every table of a large lake at every turn of a scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.model.table_due import DueState, TableDue
from iceberg_compaction.plan.triggers import decision_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iceberg_compaction.model.policies import Policy
    from iceberg_compaction.model.run_figures import HealthEntry, PartitionExtremes, TableFigures
    from iceberg_compaction.plan.triggers.decision_table import TriggerRule

# Measures that depend on what counts as small, and on the classes of files by size.
_BY_SMALL_FILES = frozenset({"small_files"})
_BY_CLASSES = frozenset(
    {
        "fragments",
        "since_rewrite_of_fragments",
        "position_deletes",
        "duplicate_ratio",
        "undersized_targets",
        "since_rewrite_of_work",
    }
)
# Figures of the whole table that no partition exceeds.
_MOST = {"files": "data_files"}


def check(entry: HealthEntry, policy: Policy, now_ms: int) -> TableDue:
    """The answer for the table of a look. A run that looked at the table counts as a rewrite: it did what there was to
    do."""
    if not policy.triggers.active:
        return _by_strategy(entry)
    outcome = _Answers(entry, policy, now_ms)
    for rule, threshold in decision_table.active(policy.triggers):
        outcome.add(rule, threshold)
    return outcome.due()


def _by_strategy(entry: HealthEntry) -> TableDue:
    """The strategy decides, and the look has its verdict, or not."""
    sick = entry.figures.sick
    state = DueState.UNKNOWN if sick is None else DueState.DUE if sick else DueState.QUIET
    fired, unknown = (("sick",) if sick else ()), (("strategy",) if sick is None else ())
    return _due(entry, state, fired, unknown)


def _due(
    entry: HealthEntry, state: DueState, fired: Sequence[str], unknown: Sequence[str], next_ms: int | None = None
) -> TableDue:
    return TableDue(
        catalog=entry.catalog,
        table=entry.table,
        state=state,
        triggers=tuple(fired),
        unknown=tuple(unknown),
        next_ms=next_ms,
        seen_ms=entry.at_ms,
    )


class _Answers:
    """The answers of triggers about one table, collected."""

    def __init__(self, entry: HealthEntry, policy: Policy, now_ms: int) -> None:
        self._entry, self._policy, self._now_ms = entry, policy, now_ms
        self._fired: list[str] = []
        self._unknown: list[str] = []
        self._later: list[int] = []  # moments at which triggers of time fire

    def add(self, rule: TriggerRule, threshold: float) -> None:
        extremes = self._entry.figures.extremes
        if extremes is None or not _is_comparable(rule, extremes, self._policy):
            self._add_bound(rule, threshold)
        elif rule.is_timed:
            if rule.measure in extremes.oldest_ms:
                self._add_time(rule, threshold, extremes.oldest_ms[rule.measure])
        elif rule.measure in extremes.values:
            self._add_value(rule, threshold, extremes.values[rule.measure])

    def due(self) -> TableDue:
        state = DueState.DUE if self._fired else DueState.UNKNOWN if self._unknown else DueState.QUIET
        next_ms = self._now_ms if self._fired else min(self._later, default=None)
        return _due(self._entry, state, self._fired, self._unknown, next_ms)

    def _add_value(self, rule: TriggerRule, threshold: float, value: float) -> None:
        if rule.fires(value, threshold):
            self._fired.append(rule.words(value, threshold))

    def _add_time(self, rule: TriggerRule, threshold: float, rewritten_ms: int | None) -> None:
        if self._entry.run_id is not None:
            rewritten_ms = max(self._entry.at_ms, rewritten_ms or 0)
        since = float("inf") if rewritten_ms is None else (self._now_ms - rewritten_ms) / 1000
        if rule.fires(since, threshold):
            self._fired.append(rule.words(since, threshold))
        elif rewritten_ms is not None:
            self._later.append(rewritten_ms + round(1000 * threshold) + (rule.sign == ">"))

    def _add_bound(self, rule: TriggerRule, threshold: float) -> None:
        """Without extremes of partitions, figures of the whole table still rule some triggers out, and a run that has
        just looked at the table is the last rewrite."""
        figures = self._entry.figures
        if rule.is_timed and self._entry.run_id is not None:
            self._add_time(rule, threshold, self._entry.at_ms)
        elif not _is_ruled_out(rule, threshold, figures):
            self._unknown.append(rule.name)


def _is_ruled_out(rule: TriggerRule, threshold: float, figures: TableFigures) -> bool:
    if not figures.data_files:
        return True
    if rule.measure in _MOST:
        return not rule.fires(getattr(figures, _MOST[rule.measure]), threshold)
    return rule.measure in ("delete_ratio", "position_deletes", "duplicate_ratio") and not figures.delete_files


def _is_comparable(rule: TriggerRule, extremes: PartitionExtremes, policy: Policy) -> bool:
    """Whether the extremes were measured by what the policy means."""
    triggers = policy.triggers
    if rule.measure in _BY_SMALL_FILES:
        return extremes.small_file_bytes == decision_table.small_file_bytes(triggers)
    if rule.measure in _BY_CLASSES:
        target = policy.target_file_size_bytes or extremes.target_bytes
        given = (target, triggers.fragment_size_divisor, triggers.min_target_size_ratio)
        return given == (extremes.target_bytes, extremes.fragment_size_divisor, extremes.min_target_size_ratio)
    return True
