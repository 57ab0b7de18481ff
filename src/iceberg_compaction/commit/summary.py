"""The summary of a replace snapshot (R13): what it added and removed, and the table's totals after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.table.snapshots import Operation, Summary

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iceberg_compaction.metadata.manifests import Counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Everything that the summary counts."""

    added: Counts
    removed: Counts
    changed_partitions: int
    manifests_created: int
    manifests_kept: int
    manifests_replaced: int


def summarize(figures: Figures, previous: Mapping[str, str] | None, properties: Mapping[str, str]) -> Summary:
    """The new snapshot's summary, given that of the branch head."""
    added, removed = figures.added, figures.removed
    counted = {
        "added-data-files": added.files,
        "deleted-data-files": removed.files,
        "added-records": added.records,
        "deleted-records": removed.records,
        "added-files-size": added.bytes,
        "removed-files-size": removed.bytes,
        "changed-partition-count": figures.changed_partitions,
        "manifests-created": figures.manifests_created,
        "manifests-kept": figures.manifests_kept,
        "manifests-replaced": figures.manifests_replaced,
    }
    totals = {
        "total-records": added.records - removed.records,
        "total-files-size": added.bytes - removed.bytes,
        "total-data-files": added.files - removed.files,
        "total-delete-files": 0,
        "total-position-deletes": 0,
        "total-equality-deletes": 0,
    }
    # A total that the head does not state, or that makes no sense, cannot be carried on: it is left out.
    known = {key: _count(previous, key) for key in totals}
    after = {key: total + totals[key] for key, total in known.items() if total is not None}
    texts = {key: str(value) for key, value in (counted | {k: v for k, v in after.items() if v >= 0}).items()}
    return Summary(operation=Operation.REPLACE, **(dict(properties) | texts))


def _count(previous: Mapping[str, str] | None, key: str) -> int | None:
    text = (previous or {}).get(key)
    return int(text) if text is not None and text.isascii() and text.isdigit() else None
