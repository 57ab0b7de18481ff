"""iceberg-compaction keeps Apache Iceberg tables fast and cheap, and proves that no row was lost or revived.

    from iceberg_compaction import Compactor, Strategy
    Compactor("prod", strategy=Strategy.SMALL_FILES, target_file_size="1GB").compact_table("db.sales")

Only the names in `__all__` are public. They are loaded when first used, so that the command line starts fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from iceberg_compaction.errors import CompactionError
    from iceberg_compaction.execute.perform_task import execute_task
    from iceberg_compaction.interfaces.client.service_client import Client
    from iceberg_compaction.interfaces.library import Compactor, commit_tasks, tasks
    from iceberg_compaction.model.events import Event
    from iceberg_compaction.model.explanation import Explanation
    from iceberg_compaction.model.manifest_plan import ManifestPlan
    from iceberg_compaction.model.outcome import Kind, Outcome
    from iceberg_compaction.model.policies import CopyMode, Policy, ProofLevel, Strategy
    from iceberg_compaction.model.policy_origin import EffectivePolicy
    from iceberg_compaction.model.portable_task import PortableResult, PortableTask
    from iceberg_compaction.model.proof import Proof
    from iceberg_compaction.model.rewrite_plan import EmptyPlan, FileGroup, LeftOut, Plan
    from iceberg_compaction.model.table_health import TableHealth
    from iceberg_compaction.model.table_policy import TablePolicy
    from iceberg_compaction.model.undo_plan import UndoPlan, UndoWay
    from iceberg_compaction.model.verification import CheckVerdict, Verification
    from iceberg_compaction.observe.metrics.run_metrics import RunMetrics
    from iceberg_compaction.operations.rewrite_files.plan_file import load_plan, save_plan
    from iceberg_compaction.settings import CatalogSettings
    from iceberg_compaction.version import __version__

_HOMES = {
    "CatalogSettings": "settings",
    "CheckVerdict": "model.verification",
    "Client": "interfaces.client.service_client",
    "CompactionError": "errors",
    "Compactor": "interfaces.library",
    "CopyMode": "model.policies",
    "EffectivePolicy": "model.policy_origin",
    "EmptyPlan": "model.rewrite_plan",
    "Event": "model.events",
    "Explanation": "model.explanation",
    "FileGroup": "model.rewrite_plan",
    "Kind": "model.outcome",
    "LeftOut": "model.rewrite_plan",
    "ManifestPlan": "model.manifest_plan",
    "Outcome": "model.outcome",
    "Plan": "model.rewrite_plan",
    "Policy": "model.policies",
    "PortableResult": "model.portable_task",
    "PortableTask": "model.portable_task",
    "Proof": "model.proof",
    "ProofLevel": "model.policies",
    "RunMetrics": "observe.metrics.run_metrics",
    "Strategy": "model.policies",
    "TableHealth": "model.table_health",
    "TablePolicy": "model.table_policy",
    "UndoPlan": "model.undo_plan",
    "UndoWay": "model.undo_plan",
    "Verification": "model.verification",
    "__version__": "version",
    "commit_tasks": "interfaces.library",
    "execute_task": "execute.perform_task",
    "load_plan": "operations.rewrite_files.plan_file",
    "save_plan": "operations.rewrite_files.plan_file",
    "tasks": "interfaces.library",
}

__all__ = [
    "CatalogSettings",
    "CheckVerdict",
    "Client",
    "CompactionError",
    "Compactor",
    "CopyMode",
    "EffectivePolicy",
    "EmptyPlan",
    "Event",
    "Explanation",
    "FileGroup",
    "Kind",
    "LeftOut",
    "ManifestPlan",
    "Outcome",
    "Plan",
    "Policy",
    "PortableResult",
    "PortableTask",
    "Proof",
    "ProofLevel",
    "RunMetrics",
    "Strategy",
    "TableHealth",
    "TablePolicy",
    "UndoPlan",
    "UndoWay",
    "Verification",
    "__version__",
    "commit_tasks",
    "execute_task",
    "load_plan",
    "save_plan",
    "tasks",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
