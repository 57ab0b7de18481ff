"""Compares two plans of one table. Plans come in, the difference goes out. Groups are told apart by their files: two
that have the same files are the same group, and two that share files, or lie in the same partition, are one that has
changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow.compute as pc

from iceberg_compaction.model import byte_size, file_group, partition_words, plurals
from iceberg_compaction.model.plan_difference import (
    ChangedGroup,
    FigureChange,
    GroupChange,
    OptionChange,
    PlanDifference,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iceberg_compaction.model.rewrite_plan import EmptyPlan, Plan

    AnyPlan: TypeAlias = Plan | EmptyPlan
    Row: TypeAlias = Mapping[str, Any]  # of PLAN_GROUPS


def compare(old: AnyPlan, new: AnyPlan) -> PlanDifference:
    """The difference from the old plan to the new one."""
    options = _options(old, new)
    why = _cause(old, new, options)
    shared = _shared(old, new)
    same, pairs = _pairs(old, new, shared)
    before = np.bincount([b for _, b, _ in shared], [n for _, _, n in shared], len(new.groups)).astype(int).tolist()
    in_old = dict(zip(new.groups.columns["id"].to_pylist(), before, strict=True))
    groups = (
        *(_changed(*pair) for pair in pairs),
        *(_gone(row) for row in _others(old, {a["id"] for a, _, _ in pairs}, same[0])),
        *(_new(row, in_old[row["id"]]) for row in _others(new, {b["id"] for _, b, _ in pairs}, same[1])),
    )
    return PlanDifference(
        table=new.table,
        old_plan=old.id,
        new_plan=new.id,
        old_snapshot_id=old.pin.snapshot_id if old.pin else None,
        new_snapshot_id=new.pin.snapshot_id if new.pin else None,
        figures=_figures(old, new),
        options=options,
        same_groups=len(same[0]),
        groups=groups,
        cause=why,
        left_out=tuple(left.sentence for left in new.left_out),
        sentence=_sentence(groups, len(same[0]), why),
    )


def _figures(old: AnyPlan, new: AnyPlan) -> tuple[FigureChange, ...]:
    figures = {
        "files": (old.input_files, new.input_files),
        "bytes": (old.input_bytes, new.input_bytes),
        "groups": (len(old.groups), len(new.groups)),
        "outputs": (old.output_files, new.output_files),
        "core-seconds": (old.copying.core_seconds, new.copying.core_seconds),
        "cost": (old.cost.cost, new.cost.cost),
        "saving": (old.cost.saving, new.cost.saving),
    }
    return tuple(FigureChange(name=name, old=pair[0], new=pair[1]) for name, pair in figures.items())


def _options(old: AnyPlan, new: AnyPlan) -> tuple[OptionChange, ...]:
    """Options that differ; those of a nested value one by one."""
    before, after = (_flat(plan.policy.model_dump(mode="json", by_alias=True)) for plan in (old, new))
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return tuple(
        OptionChange(name=name, old=_word(before.get(name)), new=_word(after.get(name))) for name in sorted(names)
    )


def _flat(options: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in options.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{inner}": each for inner, each in _flat(value).items()}
        else:
            flat[name] = value
    return flat


def _word(value: Any) -> str:
    return "not set" if value is None else str(value)


def _cause(old: AnyPlan, new: AnyPlan, options: tuple[OptionChange, ...]) -> str:
    """Why plans differ, as far as they tell."""
    causes = []
    if old.pin and new.pin and old.pin.table_uuid != new.pin.table_uuid:
        causes.append("it is another table of the same name")
    elif _snapshot(old) != _snapshot(new):
        causes.append(f"the table has moved from snapshot {_snapshot(old)} to {_snapshot(new)}")
    if options:
        causes.append(f"options differ: {', '.join(option.name for option in options)}")
    return "; ".join(causes) or "other runs, leases or the clock"


def _snapshot(plan: AnyPlan) -> str:
    return str(plan.pin.snapshot_id) if plan.pin else "none"


def _pairs(
    old: AnyPlan, new: AnyPlan, shared_files: list[tuple[int, int, int]]
) -> tuple[tuple[set[int], set[int]], list[tuple[Row, Row, int]]]:
    """The ids of groups with the same files, in the old and in the new plan; and pairs of groups that have changed,
    each group at most once, with the number of files that they share."""
    rows = [plan.groups.columns.to_pylist() for plan in (old, new)]
    same: tuple[set[int], set[int]] = (set(), set())
    pairs: list[tuple[Row, Row, int]] = []
    used: tuple[set[int], set[int]] = (set(), set())
    for before, after, shared in shared_files:
        a, b = rows[0][before], rows[1][after]
        if a["id"] in used[0] or b["id"] in used[1]:
            continue
        used[0].add(a["id"])
        used[1].add(b["id"])
        if shared == a["files"] == b["files"]:
            same[0].add(a["id"])
            same[1].add(b["id"])
        else:
            pairs.append((a, b, shared))
    free = {file_group.partition_keys(row): row for row in reversed(rows[1]) if row["id"] not in used[1]}
    for row in rows[0]:
        if row["id"] not in used[0] and (twin := free.pop(file_group.partition_keys(row), None)) is not None:
            pairs.append((row, twin, 0))
    return same, pairs


def _shared(old: AnyPlan, new: AnyPlan) -> list[tuple[int, int, int]]:
    """Positions of old and new groups that share files, and how many; most files first."""
    if not len(old.groups) or not len(new.groups):
        return []
    at = pc.index_in(old.files["file_path"], value_set=new.files["file_path"].combine_chunks())
    both = at.is_valid().to_numpy(zero_copy_only=False)
    before, after = (np.repeat(np.arange(len(p.groups)), p.groups.columns["files"].to_numpy()) for p in (old, new))
    numbers = before[both] * len(new.groups) + after[at.drop_null().to_numpy()]
    pairs, counts = np.unique(numbers, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    positions = np.divmod(pairs[order], len(new.groups))
    return list(zip(positions[0].tolist(), positions[1].tolist(), counts[order].tolist(), strict=True))


def _others(plan: AnyPlan, paired: set[int], same: set[int]) -> list[Row]:
    return [row for row in plan.groups.columns.to_pylist() if row["id"] not in paired and row["id"] not in same]


def _changed(old: Row, new: Row, shared: int) -> ChangedGroup:
    lost, more = old["files"] - shared, new["files"] - shared
    steps = [f"{lost:,} of its {old['files']:,} files left it"] if lost else []
    steps += [f"{more:,} came to it"] if more else []
    if old["reason"] != new["reason"]:
        steps.append(f"the reason is {new['reason']}, not {old['reason']}")
    return _group(GroupChange.CHANGED, old, new, f"{_name(new)}{', '.join(steps)}", shared)


def _gone(old: Row) -> ChangedGroup:
    return _group(GroupChange.GONE, old, None, f"{_name(old)}{_amount(old)}, of no group any more")


def _new(new: Row, in_old: int) -> ChangedGroup:
    """`in_old`: how many of its files another group of the old plan has."""
    origin = f"{in_old:,} of them of other groups before" if in_old else "of no group before"
    return _group(GroupChange.NEW, None, new, f"{_name(new)}{_amount(new)}, {origin}", in_old)


def _name(row: Row) -> str:
    name = partition_words.text(row["partition"])
    return f"{name}: " if name else ""


def _amount(row: Row) -> str:
    return f"{plurals.count(row['files'], 'file')} ({byte_size.format_size(row['bytes'])})"


def _group(change: GroupChange, old: Row | None, new: Row | None, sentence: str, shared: int = 0) -> ChangedGroup:
    row = new if new is not None else old
    assert row is not None
    return ChangedGroup(
        change=change,
        spec_id=row["spec_id"],
        partition=row["partition"],
        old_id=None if old is None else old["id"],
        new_id=None if new is None else new["id"],
        old_files=0 if old is None else old["files"],
        new_files=0 if new is None else new["files"],
        shared_files=shared,
        old_bytes=0 if old is None else old["bytes"],
        new_bytes=0 if new is None else new["bytes"],
        sentence=sentence,
    )


def _sentence(groups: tuple[ChangedGroup, ...], same: int, why: str) -> str:
    if not groups:
        same_groups = plurals.count(
            same, "group has the same files in both plans", "groups have the same files in both plans"
        )
        return f"{same_groups}." if same else "Neither plan has a group."
    counts = [(sum(group.change is change for group in groups), change.value) for change in GroupChange]
    parts = [f"{count:,} {word}" for count, word in counts if count]
    return f"{', '.join(parts)}, {same:,} as before; {why}."
