"""Policy files of others as they stand in their documents, and short ways to the policy of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from iceberg_compaction.policy import spelling
from iceberg_compaction.policy.policy_book import PolicyBook
from iceberg_compaction.policy.sources import load_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iceberg_compaction.model.policy_origin import EffectivePolicy

SPELLINGS = spelling.PolicySpellings()

# The guide's config.json, with its comments and as the bare fragment that it is.
GUIDE = """\
"iceberg": {
  "write": {
    "target_file_size_mb": 128,        // Target file size for writes
    "compression_codec": "zstd",        // Compression algorithm
    "parquet_row_group_size": 8192      // Parquet row group size
  },
  "compaction": {
    "enabled": true,                           // Enable opportunistic checking
    "small_file_threshold_mb": 64,             // Files smaller than this are "small"
    "min_files_to_compact": 3,                 // Min small files before recommending compaction
    "opportunistic_check_interval": 5,         // Check every Nth write
    "max_files_per_compaction": 100            // Max files to compact at once
  }
}
"""
CUSTOM_RESOURCE = """\
apiVersion: compaction.io/v1
kind: CompactionPolicy
metadata:
  name: hourly-compaction
spec:
  catalog:
    type: glue
    database: production
  schedule: "0 * * * *"
  tables:
    - name: events
      strategy: time-series
      targetFileSize: 512Mi
    - name: dimensions
      strategy: small-files
      targetFileSize: 1Gi
  resources:
    memory: 4Gi
    cpu: 2
  costLimit:
    hourly: 10.00
"""
AMORO = {
    "self-optimizing.enabled": "true",
    "self-optimizing.target-size": "134217728",
    "self-optimizing.max-file-count": "10000",
    "self-optimizing.fragment-ratio": "8",
    "self-optimizing.minor.trigger.file-count": "12",
    "self-optimizing.minor.trigger.interval": "3600000",
    "self-optimizing.major.trigger.duplicate-ratio": "0.1",
    "self-optimizing.full.trigger.interval": "-1",
    "self-optimizing.quota": "0.5",
    "table-expire.enabled": "true",
    "snapshot.keep.duration": "720min",
    "change.data.ttl.minutes": "10080",
}


def policy_of(
    text: str, table: str = "db.events", properties: Mapping[str, str] | None = None, **more: Any
) -> EffectivePolicy:
    """The policy of a table by the text of a file."""
    document = load_file.parse(text, "policy.yaml", SPELLINGS)
    return PolicyBook(document=document, spellings=SPELLINGS, **more).for_table(table, properties or {})


def stated(effective: EffectivePolicy) -> dict[str, Any]:
    """The values that somebody has stated, by their printed names."""
    return {setting.name: setting.value for setting in effective.settings}
