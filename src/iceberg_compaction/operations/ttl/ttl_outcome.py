"""The outcome of `ttl`: what left as whole files and what left by rewrites, in one sentence and in figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from iceberg_compaction.model import outcome, plurals

if TYPE_CHECKING:
    from iceberg_compaction.model.ttl_plan import TtlPlan
    from iceberg_compaction.operations.rewrite_files.change.replace_files import CommitResult, ReplaceGroup
    from iceberg_compaction.operations.run_facts import RunFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class LeavingFiles:
    """The commit by which whole files left."""

    groups: tuple[ReplaceGroup, ...]
    result: CommitResult

    @property
    def files(self) -> int:
        return sum(group.removed.num_rows for group in self.groups)

    @property
    def rows(self) -> int:
        return sum(group.deleted_records for group in self.groups)

    @property
    def bytes(self) -> int:
        return sum(int(pc.sum(group.removed["file_size_in_bytes"]).as_py() or 0) for group in self.groups)


def outcome_of(plan: TtlPlan, removal: LeavingFiles | None, rewrites: RunFacts, run_id: str) -> outcome.Outcome:
    """`rewrites` are the facts of files that were written anew, if there were any."""
    assert plan.pin is not None
    proof, snapshots = rewrites.proof, [commit.snapshot_id for commit in rewrites.commits]
    rewritten = proof.deleted_rows if proof else 0
    snapshots = [*([] if removal is None else [removal.result.snapshot_id]), *snapshots]
    files, rows = (0, 0) if removal is None else (removal.files, removal.rows)
    failed = [group for group in rewrites.groups if group.outcome is not outcome.GroupEnd.COMMITTED]
    time_travel = f"The rows can be read by time travel to snapshot {plan.pin.snapshot_id}"
    figures = {
        "table": plan.table,
        "sentence": _sentence(plan, removal, rewrites, rewritten),
        "run_id": run_id,
        "plan_id": plan.id,
        "snapshot_id": snapshots[-1] if snapshots else None,
        "snapshot_ids": tuple(snapshots),
        "files_removed": files + rewrites.files_removed,
        "files_added": rewrites.files_added,
        "bytes_removed": (0 if removal is None else removal.bytes) + rewrites.bytes_removed,
        "bytes_added": rewrites.bytes_added,
        "deleted_rows": rows + rewritten,
        "groups_failed": len(failed),
        "group_outcomes": tuple(failed),
        "attempts": (0 if removal is None else removal.result.attempts) + rewrites.attempts,
    }
    if not snapshots and failed:
        return outcome.Failed(**figures)
    return outcome.Maintained(
        operation="ttl",
        figures={"data-files": files, "rows": rows + rewritten, "rewritten-files": rewrites.files_removed},
        notes=(f"{time_travel}, and a rollback to it brings them back, until it expires.",),
        **figures,
    )


def _sentence(plan: TtlPlan, removal: LeavingFiles | None, rewrites: RunFacts, rewritten: int) -> str:
    sentences = []
    if removal is not None:
        counts = f"{plurals.count(removal.files, 'data file')} with {plurals.count(removal.rows, 'row')}"
        sentences.append(f"{counts} before {plan.before} left the table in snapshot {removal.result.snapshot_id}.")
        if removal.result.conflicts:
            stayed = plurals.count(len(removal.result.conflicts), "partition")
            sentences.append(f"{stayed} stayed, because others changed them meanwhile; run it again.")
    if rewrites.commits:
        files = plurals.count(rewrites.files_removed, "data file")
        be = plurals.form(rewrites.files_removed, "was", "were")
        gone = plurals.count(rewritten, "row")
        sentences.append(f"{files} {be} written anew without {gone}; the other rows are proved to be the same.")
    left = [group for group in rewrites.groups if group.outcome is not outcome.GroupEnd.COMMITTED]
    if left:
        reason = next((group.sentence for group in left if group.sentence), "they were not reached")
        sentences.append(f"{plurals.count(len(left), 'group')} of files stayed: {reason}")
    return " ".join(sentences) or "Nothing was left to do."
