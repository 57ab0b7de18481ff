"""Chooses the snapshots that expire, as Iceberg Java's `expireSnapshots` does, and keeps more: what others are at work
on, and what Flink's jobs need to go on. Every snapshot that stays has a reason."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.plan.expiry import effective_retention

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from iceberg_compaction.model.snapshot_retention import RefFacts, Retention, RetentionGoal, SnapshotFacts

MAIN = "main"
FLINK_MS = 7 * 86_400_000  # a job that has been silent for longer will not look for its way back


class KeptFor(str, enum.Enum):
    """Why a snapshot stays. Closed set; the first that applies."""

    HEAD = "head"
    AGE = "age"
    COUNT = "count"
    NOT_NAMED = "not-named"
    FLINK = "flink"
    IN_USE = "in-use"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotsOfTable:
    """A table, as far as the life of its snapshots is concerned."""

    snapshots: Sequence[SnapshotFacts]
    refs: Sequence[RefFacts]
    in_use: Mapping[int, str]  # snapshots that others are at work on, and who

    @property
    def by_id(self) -> dict[int, SnapshotFacts]:
        return {each.snapshot_id: each for each in self.snapshots}


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotChoice:
    """The snapshots and refs that go, in the order of the table, and why the others stay."""

    expired: tuple[int, ...]
    removed_refs: tuple[str, ...]
    kept: Mapping[int, KeptFor]


def choose(table: SnapshotsOfTable, goal: RetentionGoal, held: Retention, now_ms: int) -> SnapshotChoice:
    """What expires now."""
    by_id = table.by_id
    refs = [ref for ref in table.refs if goal.only_ids or not _is_over(ref, by_id, held, now_ms)]
    kept: dict[int, KeptFor] = {ref.snapshot_id: KeptFor.HEAD for ref in refs if ref.snapshot_id in by_id}
    if goal.only_ids:
        named = set(goal.snapshot_ids)
        kept |= {each: KeptFor.NOT_NAMED for each in by_id if each not in named and each not in kept}
    else:
        least_ms = 0 if goal.allow_recent else effective_retention.LEAST_AGE_MS
        for reason, snapshot_ids in _by_retention(by_id, refs, held, now_ms, least_ms):
            kept |= {each: reason for each in snapshot_ids if each not in kept and each not in goal.snapshot_ids}
    kept |= {each: KeptFor.FLINK for each in _of_flink(by_id, refs, now_ms) if each not in kept}
    kept |= {each: KeptFor.IN_USE for each in table.in_use if each not in kept and each in by_id}
    stays = {ref.name for ref in refs}
    return SnapshotChoice(
        expired=tuple(each for each in by_id if each not in kept),
        removed_refs=tuple(ref.name for ref in table.refs if ref.name not in stays),
        kept=kept,
    )


def check_ids(table: SnapshotsOfTable, goal: RetentionGoal, held: Retention, now_ms: int) -> None:
    """ConfigError: a snapshot that is named cannot expire, or is not there."""
    by_id = table.by_id
    if unknown := [each for each in goal.snapshot_ids if each not in by_id]:
        raise errors.ConfigError(f"The table has no snapshot {unknown[0]}; `history` of an engine lists those it has.")
    for ref in table.refs:
        stays = goal.only_ids or not _is_over(ref, by_id, held, now_ms)
        if stays and ref.snapshot_id in goal.snapshot_ids:
            kind = "branch" if ref.is_branch else "tag"
            raise errors.ConfigError(f"Snapshot {ref.snapshot_id} cannot expire: the {kind} {ref.name} points to it.")


def _is_over(ref: RefFacts, by_id: Mapping[int, SnapshotFacts], held: Retention, now_ms: int) -> bool:
    """Whether a branch or tag has outlived its time. `main` never does, and one whose snapshot is not there is not
    judged."""
    if ref.name == MAIN or ref.snapshot_id not in by_id:
        return False
    longest = held.max_ref_age_ms.value if ref.max_ref_age_ms is None else ref.max_ref_age_ms
    return now_ms - by_id[ref.snapshot_id].timestamp_ms > longest


def _by_retention(
    by_id: Mapping[int, SnapshotFacts], refs: Sequence[RefFacts], held: Retention, now_ms: int, least_ms: int
) -> Iterator[tuple[KeptFor, Sequence[int]]]:
    """What age and count keep: of each branch its youngest snapshots, up to the first that both let go; and what no
    branch or tag has, by age alone. `least_ms`: whatever a branch says of itself, younger ones stay."""
    referenced = {ref.snapshot_id for ref in refs}
    for ref in refs:
        if not ref.is_branch:
            continue
        line = list(ancestors(by_id, ref.snapshot_id))
        referenced.update(each.snapshot_id for each in line)
        own_age = ref.max_snapshot_age_ms
        since = held.older_than_ms.value if own_age is None else now_ms - max(own_age, least_ms)
        least = held.min_snapshots.value if ref.min_snapshots_to_keep is None else ref.min_snapshots_to_keep
        aged, counted = [], []
        for number, each in enumerate(line):
            if each.timestamp_ms >= since:
                aged.append(each.snapshot_id)
            elif number < least:
                counted.append(each.snapshot_id)
            else:
                break
        yield KeptFor.AGE, aged
        yield KeptFor.COUNT, counted
    yield (
        KeptFor.AGE,
        [
            each.snapshot_id
            for each in by_id.values()
            if each.snapshot_id not in referenced and each.timestamp_ms >= held.older_than_ms.value
        ],
    )


def _of_flink(by_id: Mapping[int, SnapshotFacts], refs: Sequence[RefFacts], now_ms: int) -> set[int]:
    """The snapshot with the latest checkpoint of each job. A job finds it by going back from the head of its branch, so
    that of a job which is not long over all snapshots up to there stay."""
    latest: dict[str, SnapshotFacts] = {}
    for each in by_id.values():
        if each.flink_job is None or each.flink_checkpoint is None:
            continue
        best = latest.get(each.flink_job)
        rank = (each.flink_checkpoint, each.timestamp_ms)
        if best is None or rank >= (best.flink_checkpoint or 0, best.timestamp_ms):
            latest[each.flink_job] = each
    kept = {each.snapshot_id for each in latest.values()}
    recent = {each.snapshot_id for each in latest.values() if now_ms - each.timestamp_ms < FLINK_MS}
    for ref in refs:
        line = [each.snapshot_id for each in ancestors(by_id, ref.snapshot_id)] if ref.is_branch and recent else []
        last = max((number for number, each in enumerate(line) if each in recent), default=-1)
        kept.update(line[: last + 1])
    return kept


def ancestors(by_id: Mapping[int, SnapshotFacts], head_id: int | None) -> Iterator[SnapshotFacts]:
    """A snapshot and its parents, the newest first, as far as they are there."""
    seen = set()
    while head_id is not None and head_id in by_id and head_id not in seen:
        seen.add(head_id)
        yield by_id[head_id]
        head_id = by_id[head_id].parent_id
