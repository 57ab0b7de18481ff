"""Decides which manifests are worth rewriting. Facts of all manifests come in, groups with reasons and the manifests
that stay go out. A group is rewritten when that more than halves its small manifests, or the manifests that its
partitions lie in, or when some are too large. The new manifests fill the target at least to a half, the last one
excepted, and hold each partition together: so neither can be halved again, and a second run has nothing to do."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from iceberg_compaction.model import manifest_plan, plurals
from iceberg_compaction.model.byte_size import format_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iceberg_compaction.model.table_view import Pin

_LISTED = {manifest_plan.Content.DATA: "data files", manifest_plan.Content.DELETES: "delete files"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestPlanRequest:
    """Everything beside the manifests that a plan depends on."""

    plan_id: str
    table: str
    now_ms: int
    pin: Pin | None
    target: int  # bytes of a manifest
    spec_id: int | None = None  # None: all
    unwritable_specs: frozenset[int] = frozenset()


def build(facts: Sequence[manifest_plan.ManifestFacts], request: ManifestPlanRequest) -> manifest_plan.ManifestPlan:
    """The plan for these manifests, all of a branch's head."""
    by_kind = defaultdict(list)
    for manifest in facts:
        by_kind[manifest.spec_id, manifest.content].append(manifest)
    groups, kept = [], []
    for (spec_id, content), members in sorted(by_kind.items()):
        chosen, reason = _choose(members, spec_id, request)
        if isinstance(reason, manifest_plan.Reason):
            groups.append(_group(members, chosen, reason, request.target))
            stays = manifest_plan.KeptReason.WELL_PACKED
        else:
            stays = reason
        paths = {manifest.path for manifest in chosen}
        if rest := [manifest for manifest in members if manifest.path not in paths]:
            kept.append(_kept(rest, stays, spec_id, content))
    if not facts:
        kept.append(
            manifest_plan.KeptManifests(
                reason=manifest_plan.KeptReason.NO_FILES, sentence="the branch has no live files"
            )
        )
    return manifest_plan.ManifestPlan(
        id=request.plan_id,
        table=request.table,
        created_ms=request.now_ms,
        pin=request.pin,
        target_size_bytes=request.target,
        groups=tuple(groups),
        kept=tuple(kept),
    )


def _choose(
    members: list[manifest_plan.ManifestFacts], spec_id: int, request: ManifestPlanRequest
) -> tuple[list[manifest_plan.ManifestFacts], manifest_plan.Reason | manifest_plan.KeptReason]:
    """The manifests of one kind to rewrite, and why; or none, and why not."""
    if request.spec_id not in (None, spec_id):
        return [], manifest_plan.KeptReason.OTHER_SPEC
    if spec_id in request.unwritable_specs:
        return [], manifest_plan.KeptReason.LOST_COLUMN
    target = request.target
    if len(members) == 1 and members[0].live_bytes <= 2 * target:
        return [], manifest_plan.KeptReason.ALONE
    small = [manifest for manifest in members if manifest.live_bytes * 2 < target]
    large = [manifest for manifest in members if manifest.live_bytes > 2 * target]
    if len(small) > 2 * outputs(small, target):
        reason = manifest_plan.Reason.SMALL
    elif large:
        reason = manifest_plan.Reason.LARGE
    else:
        scattered = _is_scattered(_pairs(members), _distinct(members), outputs(members, target))
        return (members, manifest_plan.Reason.SCATTERED) if scattered else ([], manifest_plan.KeptReason.WELL_PACKED)
    # The small ones alone are cheap to merge, but not if all had to be rewritten the next time.
    chosen = [manifest for manifest in members if manifest.live_bytes * 2 < target or manifest.live_bytes > 2 * target]
    rest = [manifest for manifest in members if target <= manifest.live_bytes * 2 and manifest.live_bytes <= 2 * target]
    after = _pairs(rest) + _distinct(chosen) + outputs(chosen, target)
    least = outputs(rest, target) or 1
    return (members if _is_scattered(after, _distinct(members), least) else chosen), reason


def outputs(members: Sequence[manifest_plan.ManifestFacts], target: int) -> int:
    """The number of manifests that the entries fill, if these keep their size; merged, they rather shrink."""
    return -(-sum(manifest.live_bytes for manifest in members) // target)


def _is_scattered(pairs: int, partitions: int, filled: int) -> bool:
    """Whether clustering halves the number of pairs of a partition and a manifest that it has files in. Clustered, each
    partition is in one manifest, and each border between two manifests adds at most one pair."""
    return pairs > 2 * (partitions + filled - 1)


def _pairs(members: Sequence[manifest_plan.ManifestFacts]) -> int:
    return sum(len(manifest.partitions) for manifest in members)


def _distinct(members: Sequence[manifest_plan.ManifestFacts]) -> int:
    return len(np.unique(np.concatenate([manifest.partitions for manifest in members]))) if members else 0


def _group(
    members: list[manifest_plan.ManifestFacts],
    chosen: list[manifest_plan.ManifestFacts],
    reason: manifest_plan.Reason,
    target: int,
) -> manifest_plan.ManifestGroup:
    paths = {manifest.path for manifest in chosen}
    rest = [manifest for manifest in members if manifest.path not in paths]
    partitions, filled = _distinct(members), max(1, outputs(chosen, target))
    after = min(_pairs(members), _pairs(rest) + _distinct(chosen) + filled - 1)
    spread, spread_after = _pairs(members) / partitions, after / partitions
    return manifest_plan.ManifestGroup(
        spec_id=chosen[0].spec_id,
        content=chosen[0].content,
        reason=reason,
        manifests=tuple(manifest.path for manifest in chosen),
        bytes=sum(manifest.bytes for manifest in chosen),
        entries=sum(manifest.live for manifest in chosen),
        outputs=filled,
        spread=round(spread, 2),
        spread_after=round(spread_after, 2),
        sentence=_why(chosen, reason, target, spread),
    )


def _why(chosen: list[manifest_plan.ManifestFacts], reason: manifest_plan.Reason, target: int, spread: float) -> str:
    if reason is manifest_plan.Reason.SMALL:
        small = sum(manifest.live_bytes * 2 < target for manifest in chosen)
        return f"{plurals.count(small, 'manifest is', 'manifests are')} less than half of {format_size(target)}"
    if reason is manifest_plan.Reason.LARGE:
        large = sum(manifest.live_bytes > 2 * target for manifest in chosen)
        return f"{plurals.count(large, 'manifest is', 'manifests are')} more than twice {format_size(target)}"
    return f"the files of a partition lie in {spread:.1f} manifests on average"


def _kept(
    rest: list[manifest_plan.ManifestFacts],
    reason: manifest_plan.KeptReason,
    spec_id: int,
    content: manifest_plan.Content,
) -> manifest_plan.KeptManifests:
    what = f"{plurals.count(len(rest), 'manifest')} of {_LISTED[content]} (spec {spec_id})"
    are = plurals.form(len(rest), "is", "are")
    sentence = {
        manifest_plan.KeptReason.WELL_PACKED: f"a rewrite would halve neither the {what} nor those that a "
        "partition lies in",
        manifest_plan.KeptReason.ALONE: f"the only manifest of {_LISTED[content]} (spec {spec_id}) has none "
        "to be joined with",
        manifest_plan.KeptReason.OTHER_SPEC: f"{what} {are} of another partition spec than the requested one",
        manifest_plan.KeptReason.LOST_COLUMN: f"{what} {are} partitioned in a way that is not known here, or by a "
        "column that the table no longer has",
    }[reason]
    return manifest_plan.KeptManifests(
        reason=reason,
        spec_id=spec_id,
        content=content,
        manifests=len(rest),
        bytes=sum(manifest.bytes for manifest in rest),
        sentence=sentence,
    )
