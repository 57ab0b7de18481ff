"""Plans of housekeeping as files, in the form of plans of rewrites, and the operation that performs a saved plan.
Performing never does more than the plan says: an operation plans again, and drops what its given plan does not name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from iceberg_compaction import errors
from iceberg_compaction.model import upkeep_plan, validation_words
from iceberg_compaction.operations.rewrite_files import plan_file

if TYPE_CHECKING:
    from pathlib import Path

    from iceberg_compaction.model.upkeep_plan import UpkeepPlan
    from iceberg_compaction.operations.operation import Operation


def save(plan: UpkeepPlan, path: Path) -> None:
    """Write the plan to a file; it is compressed if the name ends in `.gz`."""
    plan_file.save_plan(plan, path)


def load_operation(path: Path) -> Operation[Any]:
    """The operation that performs the plan in a file, whatever kind of plan it is. ConfigError: it is no plan."""
    content = plan_file.read_content(path)
    if "operation" not in content:
        from iceberg_compaction.operations.rewrite_files import file_rewrite

        return file_rewrite.ApplyPlan(given=plan_file.plan_of(content, name=str(path)))
    if content.get("format") != upkeep_plan.FORMAT:
        raise errors.ConfigError(
            f"The plan in {path} has format {content.get('format')}, but this version reads {upkeep_plan.FORMAT}; "
            "make a new plan."
        )
    try:
        return _operation(content)
    except ValidationError as error:
        first = error.errors()[0]
        reason = validation_words.text(f"{'.'.join(map(str, first['loc']))}: {first['msg']}")
        raise errors.ConfigError(f"The plan in {path} is not valid: {reason[:300]}; make a new plan.") from error


def _operation(content: dict[str, Any]) -> Operation[Any]:
    """Each operation of housekeeping has a case here."""
    match content["operation"]:
        case "ttl":
            from iceberg_compaction.model import ttl_plan
            from iceberg_compaction.operations.ttl import expire_rows

            plan = ttl_plan.TtlPlan.model_validate(content)
            return expire_rows.ExpireRows(table=plan.table, goal=plan.goal, branch=plan.branch, given=plan)
        case "orphans":
            from iceberg_compaction.model import orphan_plan
            from iceberg_compaction.operations.orphans import remove_orphans

            return remove_orphans.of_plan(orphan_plan.OrphanPlan.model_validate(content))
        case "expire":
            from iceberg_compaction.model.expire_plan import ExpirePlan
            from iceberg_compaction.operations.expire import expire_snapshots

            expiry = ExpirePlan.model_validate(content)
            return expire_snapshots.ExpireSnapshots(table=expiry.table, goal=expiry.goal, given=expiry)
        case "tags":
            from iceberg_compaction.model.tag_plan import TagPlan
            from iceberg_compaction.operations.tags import make_tags

            tags = TagPlan.model_validate(content)
            return make_tags.MakeTags(table=tags.table, goal=tags.goal, branch=tags.branch, given=tags)
        case "repair":
            from iceberg_compaction.model.repair_plan import RepairPlan
            from iceberg_compaction.operations.repair import repair_table

            repair = RepairPlan.model_validate(content)
            return repair_table.RepairTable(table=repair.table, goal=repair.goal, branch=repair.branch, given=repair)
        case "deletes":
            from iceberg_compaction.model.deletes_plan import DeletesPlan
            from iceberg_compaction.operations.deletes import delete_upkeep

            given = DeletesPlan.model_validate(content)
            return delete_upkeep.CleanDeletes(table=given.table, branch=given.branch, given=given)
        case "statistics":
            from iceberg_compaction.model.statistics_plan import StatisticsPlan
            from iceberg_compaction.operations.statistics import refresh_statistics

            counts = StatisticsPlan.model_validate(content)
            return refresh_statistics.RefreshStatistics(
                table=counts.table, goal=counts.goal, branch=counts.branch, given=counts
            )
        case other:
            raise errors.ConfigError(f"This version knows no operation {str(other)[:40]!r}; make a new plan.")
