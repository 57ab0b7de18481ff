"""The summary of a replace snapshot (R13): what it added and removed, and the table's totals after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.table.snapshots import Operation, Summary

from iceberg_compaction.metadata.manifests import NONE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iceberg_compaction.metadata.manifests import Counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Everything that the summary counts."""

    added: Counts  # data files
    removed: Counts
    changed_partitions: int
    manifests_created: int
    manifests_kept: int
    manifests_replaced: int
    position_deletes: Counts = NONE  # removed
    equality_deletes: Counts = NONE


def summarize(figures: Figures, previous: Mapping[str, str] | None, properties: Mapping[str, str]) -> Summary:
    """The new snapshot's summary, given that of the branch head."""
    added, removed = figures.added, figures.removed
    positions, equality = figures.position_deletes, figures.equality_deletes
    deletes = positions + equality
    changed = {
        "added-data-files": added.files,
        "deleted-data-files": removed.files,
        "added-records": added.records,
        "deleted-records": removed.records,
        "added-files-size": added.bytes,
        "removed-files-size": removed.bytes + deletes.bytes,
        "removed-delete-files": deletes.files,
        "removed-position-delete-files": positions.files,
        "removed-equality-delete-files": equality.files,
        "removed-position-deletes": positions.records,
        "removed-equality-deletes": equality.records,
    }
    counted = {key: value for key, value in changed.items() if value} | {
        "changed-partition-count": figures.changed_partitions,
        "manifests-created": figures.manifests_created,
        "manifests-kept": figures.manifests_kept,
        "manifests-replaced": figures.manifests_replaced,
    }
    totals = {
        "total-records": added.records - removed.records,
        "total-files-size": added.bytes - removed.bytes - deletes.bytes,
        "total-data-files": added.files - removed.files,
        "total-delete-files": -deletes.files,
        "total-position-deletes": -positions.records,
        "total-equality-deletes": -equality.records,
    }
    # A total that the head does not state, or that makes no sense, cannot be carried on: it is left out.
    known = {key: _count(previous, key) for key in totals}
    after = {key: total + totals[key] for key, total in known.items() if total is not None}
    texts = {key: str(value) for key, value in (counted | {k: v for k, v in after.items() if v >= 0}).items()}
    return Summary(operation=Operation.REPLACE, **(dict(properties) | texts))


def _count(previous: Mapping[str, str] | None, key: str) -> int | None:
    text = (previous or {}).get(key)
    return int(text) if text is not None and text.isascii() and text.isdigit() else None
