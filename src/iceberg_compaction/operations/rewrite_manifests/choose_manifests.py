"""Which manifests are worth rewriting. Facts of all manifests come in, groups with reasons and what stays go out. A
group is rewritten when that more than halves its small manifests, or the manifests that its partitions lie in, or when
some are too large. What comes out fills the target at least to a half, its last manifest excepted, and holds each
partition together: so neither can be halved again, and a second run finds nothing to do."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from iceberg_compaction.model import manifest_plan
from iceberg_compaction.model.byte_size import format_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iceberg_compaction.model.table_view import Pin

_LISTED = {manifest_plan.Content.DATA: "data files", manifest_plan.Content.DELETES: "delete files"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What to decide on, beside the manifests themselves."""

    plan_id: str
    table: str
    now_ms: int
    pin: Pin | None
    target: int  # bytes of a manifest
    spec_id: int | None = None  # None: all
    unwritable_specs: frozenset[int] = frozenset()


def build(facts: Sequence[manifest_plan.ManifestFacts], asked: Question) -> manifest_plan.ManifestPlan:
    """The plan for these manifests, all of a branch's head."""
    kinds = defaultdict(list)
    for one in facts:
        kinds[one.spec_id, one.content].append(one)
    groups, kept = [], []
    for (spec_id, content), members in sorted(kinds.items()):
        chosen, reason = _choose(members, spec_id, asked)
        if isinstance(reason, manifest_plan.Reason):
            groups.append(_group(members, chosen, reason, asked.target))
            stays = manifest_plan.KeptReason.WELL_PACKED
        else:
            stays = reason
        paths = {one.path for one in chosen}
        if rest := [one for one in members if one.path not in paths]:
            kept.append(_kept(rest, stays, spec_id, content))
    if not facts:
        kept.append(
            manifest_plan.KeptManifests(
                reason=manifest_plan.KeptReason.NO_FILES, sentence="the branch has no live files"
            )
        )
    return manifest_plan.ManifestPlan(
        id=asked.plan_id,
        table=asked.table,
        created_ms=asked.now_ms,
        pin=asked.pin,
        target_size_bytes=asked.target,
        groups=tuple(groups),
        kept=tuple(kept),
    )


def _choose(
    members: list[manifest_plan.ManifestFacts], spec_id: int, asked: Question
) -> tuple[list[manifest_plan.ManifestFacts], manifest_plan.Reason | manifest_plan.KeptReason]:
    """The manifests of one kind to rewrite, and why; or none, and why not."""
    if asked.spec_id not in (None, spec_id):
        return [], manifest_plan.KeptReason.OTHER_SPEC
    if spec_id in asked.unwritable_specs:
        return [], manifest_plan.KeptReason.LOST_COLUMN
    target = asked.target
    if len(members) == 1 and members[0].live_bytes <= 2 * target:
        return [], manifest_plan.KeptReason.ALONE
    small = [one for one in members if one.live_bytes * 2 < target]
    large = [one for one in members if one.live_bytes > 2 * target]
    if len(small) > 2 * outputs(small, target):
        reason = manifest_plan.Reason.SMALL
    elif large:
        reason = manifest_plan.Reason.LARGE
    else:
        scattered = _is_scattered(_pairs(members), _distinct(members), outputs(members, target))
        return (members, manifest_plan.Reason.SCATTERED) if scattered else ([], manifest_plan.KeptReason.WELL_PACKED)
    # The small ones alone are cheap to merge, but not if all had to be rewritten the next time.
    chosen = [one for one in members if one.live_bytes * 2 < target or one.live_bytes > 2 * target]
    rest = [one for one in members if target <= one.live_bytes * 2 and one.live_bytes <= 2 * target]
    after = _pairs(rest) + _distinct(chosen) + outputs(chosen, target)
    least = outputs(rest, target) or 1
    return (members if _is_scattered(after, _distinct(members), least) else chosen), reason


def outputs(members: Sequence[manifest_plan.ManifestFacts], target: int) -> int:
    """How many manifests the entries fill, if these stay as large as they are; merged, they rather shrink."""
    return -(-sum(one.live_bytes for one in members) // target)


def _is_scattered(pairs: int, partitions: int, filled: int) -> bool:
    """Whether clustering halves the number of pairs of a partition and a manifest that it has files in. Clustered, each
    partition is in one manifest, and each border between two manifests adds at most one pair."""
    return pairs > 2 * (partitions + filled - 1)


def _pairs(members: Sequence[manifest_plan.ManifestFacts]) -> int:
    return sum(len(one.partitions) for one in members)


def _distinct(members: Sequence[manifest_plan.ManifestFacts]) -> int:
    return len(np.unique(np.concatenate([one.partitions for one in members]))) if members else 0


def _group(
    members: list[manifest_plan.ManifestFacts],
    chosen: list[manifest_plan.ManifestFacts],
    reason: manifest_plan.Reason,
    target: int,
) -> manifest_plan.ManifestGroup:
    paths = {one.path for one in chosen}
    rest = [one for one in members if one.path not in paths]
    partitions, filled = _distinct(members), max(1, outputs(chosen, target))
    after = min(_pairs(members), _pairs(rest) + _distinct(chosen) + filled - 1)
    spread, spread_after = _pairs(members) / partitions, after / partitions
    return manifest_plan.ManifestGroup(
        spec_id=chosen[0].spec_id,
        content=chosen[0].content,
        reason=reason,
        manifests=tuple(one.path for one in chosen),
        bytes=sum(one.bytes for one in chosen),
        entries=sum(one.live for one in chosen),
        outputs=filled,
        spread=round(spread, 2),
        spread_after=round(spread_after, 2),
        sentence=_why(chosen, reason, target, spread),
    )


def _why(chosen: list[manifest_plan.ManifestFacts], reason: manifest_plan.Reason, target: int, spread: float) -> str:
    if reason is manifest_plan.Reason.SMALL:
        small = sum(one.live_bytes * 2 < target for one in chosen)
        return f"{small} manifests are less than half of {format_size(target)}"
    if reason is manifest_plan.Reason.LARGE:
        large = sum(one.live_bytes > 2 * target for one in chosen)
        return f"{large} {'is' if large == 1 else 'are'} more than twice {format_size(target)}"
    return f"the files of a partition lie in {spread:.1f} manifests on average"


def _kept(
    rest: list[manifest_plan.ManifestFacts],
    reason: manifest_plan.KeptReason,
    spec_id: int,
    content: manifest_plan.Content,
) -> manifest_plan.KeptManifests:
    count = "1 manifest" if len(rest) == 1 else f"{len(rest)} manifests"
    what, are = f"{count} of {_LISTED[content]} (spec {spec_id})", "is" if len(rest) == 1 else "are"
    sentence = {
        manifest_plan.KeptReason.WELL_PACKED: f"a rewrite would halve neither the {what} nor those that a "
        "partition lies in",
        manifest_plan.KeptReason.ALONE: f"the only manifest of {_LISTED[content]} (spec {spec_id}) has none "
        "to be joined with",
        manifest_plan.KeptReason.OTHER_SPEC: f"{what} {are} of another partition spec than was asked for",
        manifest_plan.KeptReason.LOST_COLUMN: f"{what} {are} partitioned in a way that is not known here, or by a "
        "column that the table no longer has",
    }[reason]
    return manifest_plan.KeptManifests(
        reason=reason,
        spec_id=spec_id,
        content=content,
        manifests=len(rest),
        bytes=sum(one.bytes for one in rest),
        sentence=sentence,
    )
