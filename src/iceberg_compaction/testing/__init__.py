"""Contract suites for authors of strategies and engines: what iceberg-compaction relies on, checked by plain functions
that raise AssertionError with a sentence. They need no test framework, no Spark and no catalog. Nothing of the product
imports this package."""

from __future__ import annotations

from iceberg_compaction.testing.engine_suite import check_engine
from iceberg_compaction.testing.strategy_suite import check_strategy

__all__ = ["check_engine", "check_strategy"]
