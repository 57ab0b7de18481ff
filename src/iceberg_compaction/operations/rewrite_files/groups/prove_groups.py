"""The proof of a group from the proofs of its tasks, and what a snapshot tells of it. Results come in; what does not
hold goes no further."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

from iceberg_compaction import errors
from iceberg_compaction.commit import snapshot_summary
from iceberg_compaction.model import policies, row_order_terms, writer_options
from iceberg_compaction.model.output_layout import RowOrder
from iceberg_compaction.model.rewrite_task import Effort
from iceberg_compaction.operations.past_runs import run_commits
from iceberg_compaction.operations.rewrite_files.groups import gather_pieces

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyiceberg.table.snapshots import Snapshot

    from iceberg_compaction.model.proof import Proof
    from iceberg_compaction.model.rewrite_plan import Plan
    from iceberg_compaction.model.rewrite_task import RewriteTask, StagedFile, TaskResult
    from iceberg_compaction.record.runs import Run

# Properties of snapshots.
_PLAN_ID = "compaction.plan-id"
WRITE_OPTIONS = "compaction.write-options"  # of the run, instead of the table's properties
SCHEMA_ID = "compaction.schema-id"  # that rows were read and written with
PROOF_ROWS = "compaction.proof.rows"
PROOF_CHECKSUM = "compaction.proof.checksum"
PROOF_STORED_CHECKSUM = "compaction.proof.stored-checksum"  # of all rows, where they were read back


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvedGroup:
    """A group whose files are all written, and hold what its inputs held."""

    row: Mapping[str, Any]  # of PLAN_GROUPS
    staged: tuple[StagedFile, ...]
    proof: Proof
    effort: Effort

    @property
    def id(self) -> int:
        return int(self.row["id"])


def prove(
    plan: Plan, row: Mapping[str, Any], results: Sequence[TaskResult], gathered: Sequence[RewriteTask] = ()
) -> ProvedGroup:
    """The group with its proof. Each task's must hold alone, and together they must cover what the plan names. What
    the second round gathered (`gathered` are its tasks) is proved to be what the first had written."""
    results = sorted(results, key=lambda result: result.task_id)
    for result in results:
        if result.proof.failures:
            raise errors.ProofError(f"Task {result.task_id} on {plan.table}: {result.proof.sentence}")
    later, pieces = {task.id for task in gathered}, gather_pieces.pieces(gathered)
    first = [result for result in results if result.task_id not in later]
    gather_pieces.check(gathered, first, {result.task_id: result for result in results})
    proof = together(result.proof for result in first)
    files = tuple(file for result in results for file in result.staged if file.file_path not in pieces)
    staged, planned = sum(file.record_count for file in files), row["records"]
    if planned != proof.rows + proof.deleted_rows or staged != proof.rows:
        raise errors.ProofError(
            f"The plan for {plan.table} names {planned} rows in group {row['id']}; {proof.rows} were read, "
            f"{proof.deleted_rows} found deleted and {staged} staged."
        )
    return ProvedGroup(row=row, staged=files, proof=proof, effort=all_efforts(result.effort for result in results))


def together(proofs: Any) -> Proof:
    """One proof of several."""
    found: Proof = reduce(add, proofs)
    return found


def is_of(plan: Plan, snapshot: Snapshot) -> bool:
    """Whether a snapshot came from the plan."""
    return snapshot.summary is not None and snapshot.summary.additional_properties.get(_PLAN_ID) == plan.id


def all_efforts(efforts: Iterable[Effort]) -> Effort:
    """One effort of several."""
    return sum(efforts, Effort())


def snapshot_properties(plan: Plan, run: Run, *, batch: int) -> dict[str, str]:
    """Who made the snapshot, and why, for anyone who reads the table's history."""
    options = plan.policy.write_options
    return {
        **writer_options.pairs(plan.policy.snapshot_properties),
        **({WRITE_OPTIONS: ", ".join(options)} if options else {}),
        **snapshot_summary.signature(run.run_id),
        _PLAN_ID: plan.id,
        "compaction.batch": str(batch),
        "compaction.strategy": policies.name_of(plan.policy.strategy),
        "compaction.planned-snapshot-id": str(plan.pin.snapshot_id),
        SCHEMA_ID: str(plan.pin.schema_id),
        run_commits.BRANCH: plan.pin.branch,
        **run_commits.past_properties(plan.past_rows),
        **_sort_properties(plan),
    }


def _sort_properties(plan: Plan) -> dict[str, str]:
    """What rows were sorted by, so that a later plan finds these files in order: the entries of files can only name
    sort orders of the table."""
    if plan.layout.row_order is not RowOrder.GIVEN:
        return {}
    terms = plan.layout.sort_terms
    return {
        row_order_terms.SORTED_BY: row_order_terms.key(terms),
        "compaction.sort-order": row_order_terms.text(terms),
    }


def group_properties(groups: Sequence[ProvedGroup]) -> dict[str, str]:
    """What was proved of the groups that a snapshot holds, and how they were made."""
    return _proof_properties(groups) | _effort_properties(groups)


def _proof_properties(groups: Sequence[ProvedGroup]) -> dict[str, str]:
    proof = together(group.proof for group in groups)
    told = {
        "compaction.groups": str(len(groups)),
        "compaction.proof.level": proof.level.value,
        PROOF_ROWS: str(proof.rows),
    }
    told |= {"compaction.proof.deleted-rows": str(proof.deleted_rows)} if proof.deleted_rows else {}
    if proof.stored is not None and proof.stored.row_checksum is not None:
        told[PROOF_STORED_CHECKSUM] = f"{proof.stored.row_checksum:016x}"
    return told | ({PROOF_CHECKSUM: proof.checksum} if proof.checksum else {})


def _effort_properties(groups: Sequence[ProvedGroup]) -> dict[str, str]:
    """Only where something was copied or joined as bytes."""
    effort = all_efforts(group.effort for group in groups)
    if not effort.copied_groups and not effort.joined_groups:
        return {}
    joined = {
        "compaction.joined-row-groups": str(effort.joined_groups),
        "compaction.joined-bytes": str(effort.joined_bytes),
    }
    return {
        "compaction.copied-row-groups": str(effort.copied_groups),
        "compaction.copied-bytes": str(effort.copied_bytes),
        **(joined if effort.joined_groups else {}),
        "compaction.encoded-row-groups": str(effort.encoded_groups),
        "compaction.encoded-bytes": str(effort.encoded_bytes),
    }
