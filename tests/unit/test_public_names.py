"""The public list is a promise: a name that comes or goes must be meant."""

from __future__ import annotations

import iceberg_compaction


def test_public_names_are_exactly_these() -> None:
    assert sorted(iceberg_compaction.__all__) == [
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


def test_every_public_name_loads() -> None:
    for name in iceberg_compaction.__all__:
        assert getattr(iceberg_compaction, name) is not None
