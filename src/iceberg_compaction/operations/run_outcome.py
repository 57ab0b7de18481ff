"""The Outcome of a run by its facts: the kind, the sentence and the figures. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typing_extensions import assert_never

from iceberg_compaction.model import outcome
from iceberg_compaction.model.outcome import GroupEnd
from iceberg_compaction.operations import outcome_words

if TYPE_CHECKING:
    from iceberg_compaction.operations.run_facts import RunFacts


def finished(facts: RunFacts) -> outcome.Outcome:
    """The outcome of a run that nothing stopped: it committed something, had nothing to do, or each of its groups
    failed or was in conflict."""
    if facts.commits:
        return _outcome(facts, outcome.Kind.COMPACTED, outcome_words.compacted(facts))
    if not facts.groups:
        return _outcome(facts, outcome.Kind.HEALTHY, outcome_words.nothing_to_do(facts))
    if facts.over_budget and all(group.outcome is GroupEnd.DROPPED for group in facts.ends):
        return _outcome(facts, outcome.Kind.SKIPPED, outcome_words.nothing_begun(facts))
    if failed := facts.ended(GroupEnd.FAILED):
        refused = all(group.id in facts.refused for group in failed)
        kind = outcome.Kind.UNSUPPORTED if refused else outcome.Kind.FAILED
        return _outcome(facts, kind, outcome_words.all_failed(facts))
    if facts.rewritten_by is not None:
        return _outcome(facts, outcome.Kind.HEALTHY, outcome_words.all_rewritten(facts.rewritten_by))
    if facts.spared:
        return _outcome(facts, outcome.Kind.HEALTHY, outcome_words.all_spared(facts))
    return _outcome(facts, outcome.Kind.CONFLICT, outcome_words.all_in_conflict(facts))


def stopped(facts: RunFacts, kind: outcome.Kind, reason: str) -> outcome.Outcome:
    """The outcome of a run that something stopped: of this kind if the reason says everything, else failed."""
    beyond = outcome_words.beyond(facts, reason)
    return _outcome(facts, outcome.Kind.FAILED if beyond else kind, " ".join([reason, *beyond]))


def _outcome(facts: RunFacts, kind: outcome.Kind, sentence: str) -> outcome.Outcome:
    every_kind: dict[str, Any] = {
        "table": facts.table,
        "sentence": sentence,
        "run_id": facts.run_id,
        "plan_id": facts.plan.id if facts.plan else None,
        "strategy": facts.plan.policy.strategy if facts.plan else None,
        "groups": len(facts.groups),
        "groups_conflicted": len(facts.ended(GroupEnd.CONFLICT)),
        "groups_failed": len(facts.ended(GroupEnd.FAILED)),
        "group_outcomes": facts.groups,
        "effort": facts.effort,
        "cost": facts.spent,
        "tenant": facts.plan.policy.tenant if facts.plan else None,
    }
    match kind:
        case outcome.Kind.COMPACTED:
            return outcome.Compacted(**every_kind, **_figures(facts))
        case outcome.Kind.FAILED:
            return outcome.Failed(**every_kind, **_figures(facts))
        case outcome.Kind.HEALTHY:
            return outcome.Healthy(**every_kind)
        case outcome.Kind.SKIPPED:
            return outcome.Skipped(**every_kind)
        case outcome.Kind.UNSUPPORTED:
            return outcome.Unsupported(**every_kind)
        case outcome.Kind.CONFLICT:
            return outcome.Conflict(**every_kind)
        case outcome.Kind.UNDONE | outcome.Kind.MAINTAINED:
            raise ValueError("The outcome of an undo or of housekeeping is not made of groups.")
        case _:
            assert_never(kind)


def _figures(facts: RunFacts) -> dict[str, Any]:
    """The figures of the commits."""
    proof = facts.proof
    return {
        "snapshot_id": facts.commits[-1].snapshot_id if facts.commits else None,
        "snapshot_ids": tuple(commit.snapshot_id for commit in facts.commits),
        "files_removed": facts.files_removed,
        "files_added": facts.files_added,
        "bytes_removed": facts.bytes_removed,
        "bytes_added": facts.bytes_added,
        "records": proof.rows if proof else 0,
        "deleted_rows": proof.deleted_rows if proof else 0,
        "delete_files_removed": facts.delete_files_removed,
        "groups_landed": facts.groups_committed,
        "attempts": facts.attempts,
        "proof": proof,
    }
