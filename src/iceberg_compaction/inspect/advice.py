"""What a person can do about a table, most useful first. Figures come in, sentences go out; none for a healthy one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.model import size as size_model

if TYPE_CHECKING:
    from iceberg_compaction.inspect.score import Figures
    from iceberg_compaction.model.plan import Plan
    from iceberg_compaction.model.table import Inventory

TARGET_PROPERTY = "write.target-file-size-bytes"
MANY_SNAPSHOTS = 100


def advice(inventory: Inventory, plan: Plan, figures: Figures, mean: int) -> tuple[str, ...]:
    """Sentences, each of which names a command, a property or a figure."""
    told = [f"Not supported yet: {reason}." for reason in inventory.unsupported]
    if not plan.empty:
        told.append(f"Run: iceberg-compact run --table {inventory.table} --strategy {plan.policy.strategy.value}")
    if (figures.small_files - figures.lone_small_files) * 2 > figures.data_files:
        told.append(_sizes(inventory, plan, mean))
    if figures.delete_files:
        told.append(f"{figures.delete_files} delete files are applied whenever the table is read.")
    if figures.manifests > figures.fair_manifests:
        told.append(
            f"{figures.manifests} manifests for {figures.data_files + figures.delete_files} files slow planning down; "
            "check that commit.manifest-merge.enabled is true."
        )
    if inventory.snapshots > MANY_SNAPSHOTS:
        told.append(f"{inventory.snapshots} snapshots are kept, and the files of all of them; expire old ones.")
    return tuple(told)


def _sizes(inventory: Inventory, plan: Plan, mean: int) -> str:
    target = size_model.format_size(plan.sizes.target)
    if plan.policy.target_file_size_bytes is not None:
        origin = f"The target asked for is {target}"
    elif TARGET_PROPERTY in inventory.properties:
        origin = f"{TARGET_PROPERTY} is {target}"
    else:
        origin = f"{TARGET_PROPERTY} is not set, so the target is {target}"
    return f"{origin}, but files have {size_model.format_size(mean)} on average: let the writer commit less often."
