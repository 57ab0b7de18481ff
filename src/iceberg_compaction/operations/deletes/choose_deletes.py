"""Chooses the delete files that leave, and groups those that position deletes replace. The live files of a snapshot and
a goal come in, row numbers go out; nothing but metadata is read. Each partition lies in one group, and one group has
all partitions that a chosen global equality delete reaches: such a file leaves only if all of them are done (R18)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction import errors
from iceberg_compaction.execute.prepare import position_job
from iceberg_compaction.metadata.deletes import delete_index, useless_deletes
from iceberg_compaction.model import partition_key, table_view
from iceberg_compaction.model.rewrite_task import Granularity

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iceberg_compaction.model.deletes_plan import DeletesPlan
    from iceberg_compaction.model.partition_key import PartitionKey

    Ints = NDArray[np.int64]
    Mask = NDArray[np.bool_]

_CROWDED = 2  # position delete files of one data file from which on they are merged
_ENDLESS = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGoal:
    """Which of the three to do, and where."""

    dangling: bool = True
    merge: bool = True
    convert: bool = True
    where: str | None = None
    granularity: Granularity | None = None  # None: the table's own
    cold_tiers: bool = False  # also where that reads files in cold tiers of their store


def goal_of(
    *,
    dangling: bool = False,
    merge: bool = False,
    convert: bool = False,
    where: str | None = None,
    granularity: str | None = None,
    rewrite_cold_tiers: bool = False,
) -> DeleteGoal:
    """The goal of a request; all three where it names none. ConfigError: there is no such granularity."""
    every = not (dangling or merge or convert)
    try:
        chosen = None if granularity is None else Granularity(granularity)
    except ValueError:
        raise errors.ConfigError(
            f"The granularity of delete files is file or partition, not {granularity!r}."
        ) from None
    return DeleteGoal(
        dangling=dangling or every,
        merge=merge or every,
        convert=convert or every,
        where=where,
        granularity=chosen,
        cold_tiers=rewrite_cold_tiers,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenGroup(position_job.PositionGroup):
    """A group that is committed whole or not at all."""

    targets: Ints  # of each replaced file: the data files within its reach
    sequence_number: int  # of the new position deletes: the newest of the replaced files (R25)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenDeletes:
    """Rows of the live files."""

    live: pa.Table  # model.table_view.FILES
    dangling: Ints
    groups: tuple[ChosenGroup, ...]
    is_converted: Mask  # equality deletes that are replaced
    is_merged: Mask  # position deletes that are replaced
    parts: Ints  # the number of each file's partition
    cold: int = 0  # delete files that stay because files in cold tiers would have to be read

    def read_files(self) -> pa.Table:
        """The files that tasks would read: delete files, and the data files of equality deletes."""
        rows = [group.replaced for group in self.groups]
        rows += [group.data for group in self.groups if self.is_converted[group.replaced].any()]
        return self.live.take(pa.array(np.concatenate([np.zeros(0, np.int64), *rows])))

    def without(self, paths: frozenset[str]) -> ChosenDeletes:
        """The choice without groups that would read one of these files."""
        named = pc.is_in(self.live["file_path"], value_set=pa.array(sorted(paths), pa.string())).to_numpy()
        stays = [group for group in self.groups if self._reads(group, named)]
        rows = np.concatenate([np.zeros(0, np.int64), *(group.replaced for group in stays)])
        leaves = np.ones(self.live.num_rows, np.bool_)
        leaves[rows] = False
        return replace(
            self,
            groups=tuple(group for group in self.groups if not self._reads(group, named)),
            is_converted=self.is_converted & leaves,
            is_merged=self.is_merged & leaves,
            cold=len(rows),
        )

    def _reads(self, group: ChosenGroup, named: Mask) -> bool:
        converts = self.is_converted[group.replaced].any()
        return bool(named[group.replaced].any() or (converts and named[group.data].any()))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceScope:
    """What may be chosen."""

    goal: DeleteGoal
    granularity: Granularity
    global_specs: frozenset[int]
    selected: pa.BooleanArray | None = None  # rows that a `where` may match; None: all
    given: DeletesPlan | None = None  # a plan made before: no other file than its own is chosen
    within: WithinPartitions | None = None  # None: all partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class WithinPartitions:
    """The partitions where delete files are merged, and those where they are converted as well."""

    merge: frozenset[PartitionKey]
    convert: frozenset[PartitionKey]
    newest: int  # delete files with a higher sequence number came later, and stay


def choose(live: pa.Table, scope: ChoiceScope) -> ChosenDeletes:
    """The choice for a snapshot with these live files."""
    return Chooser(live, scope).made(scope.goal)


class Chooser:
    """Columns over all live files, for any number of goals."""

    def __init__(self, live: pa.Table, scope: ChoiceScope) -> None:
        self._live, self._scope = live, scope
        index = delete_index.build(live, unpartitioned_specs=scope.global_specs)
        content = live["content"].to_numpy()
        self._numbers = live["sequence_number"].to_numpy()
        self._data: Mask = content == table_view.DATA
        self._useless: Mask = np.zeros(live.num_rows, np.bool_)
        self._useless[~self._data] = useless_deletes.mask_of_snapshot(live, index, scope.global_specs)
        self._reach = _spread(index.live_targets(), "in_scope", live.num_rows)
        counts = index.counts_per_data_file()
        self._crowd = _spread(counts, "position", live.num_rows)
        if scope.within is not None:
            self._crowd = self._crowd_before(scope.within.newest)
        self.equality = _spread(counts, "equality", live.num_rows)  # equality delete files that apply to each data file
        in_use = ~self._data & ~self._useless & (self._reach > 0)
        self._equality: Mask = in_use & (content == table_view.EQUALITY_DELETES)
        self._position: Mask = in_use & (content == table_view.POSITION_DELETES)
        self._global: Mask = self._equality & np.isin(live["spec_id"].to_numpy(), list(scope.global_specs))
        self._parts = partition_numbers(live)
        self._count = int(self._parts.max(initial=-1)) + 1
        self._open = self._open_partitions()
        self._convertible_partitions = self._open & self._within(to_convert=True)

    def _crowd_before(self, newest: int) -> Ints:
        """The position delete files of each data file that may be merged: what came later stays beside them."""
        rows = np.flatnonzero(self._data | (self._numbers <= newest))
        files = self._live.take(pa.array(rows))
        index = delete_index.build(files, unpartitioned_specs=self._scope.global_specs)
        crowd = np.zeros(self._live.num_rows, np.int64)
        crowd[rows] = _spread(index.counts_per_data_file(), "position", len(rows))
        return crowd

    @property
    def position(self) -> Ints:
        """The position delete files that apply to each data file."""
        return self._crowd

    @property
    def everywhere(self) -> Mask:
        """The data files that equality deletes of an unpartitioned spec reach."""
        mask: Mask = self._data & (self._numbers < self._numbers[self._global].max(initial=-1))
        return mask

    def made(self, goal: DeleteGoal) -> ChosenDeletes:
        nothing = np.zeros(self._live.num_rows, np.bool_)
        equality = self._convertible() if goal.convert else nothing
        newest = self._newest(equality)
        reached = self._data & (self._numbers < newest[self._parts])
        position = self._mergeable(reached) if goal.merge else nothing
        covered = reached | self._named_by(position)
        dangling = self._useless & self._given("dangling") if goal.dangling else nothing
        if self._scope.selected is not None:
            dangling = dangling & self._scope.selected.to_numpy(zero_copy_only=False)
        return ChosenDeletes(
            live=self._live,
            dangling=np.flatnonzero(dangling),
            groups=self._groups(equality | position, covered),
            is_converted=equality,
            is_merged=position,
            parts=self._parts,
        )

    def _open_partitions(self) -> Mask:
        """The partitions with a data file that a `where` may match."""
        chosen = self._data
        if self._scope.selected is not None:
            chosen = chosen & self._scope.selected.to_numpy(zero_copy_only=False)
        has_data: Mask = np.bincount(self._parts[chosen], minlength=self._count) > 0
        return has_data & self._within(to_convert=False)

    def _within(self, *, to_convert: bool) -> Mask:
        """The partitions that may be changed, or only those where equality deletes may."""
        within = self._scope.within
        if within is None:
            return np.ones(self._count, np.bool_)
        keys = within.convert if to_convert else within.convert | within.merge
        mask: Mask = np.bincount(self._parts[partition_key.lie_in(self._live, keys)], minlength=self._count) > 0
        return mask

    def _given(self, kind: str) -> Mask:
        """The files that a given plan names, or that were there when it was made."""
        if self._scope.given is None:
            newest = _ENDLESS if self._scope.within is None else self._scope.within.newest
            mask: Mask = self._numbers <= newest
            return mask
        names = pa.array(getattr(self._scope.given, kind), pa.string())
        named: Mask = pc.is_in(self._live["file_path"], value_set=names).to_numpy()
        return named

    def _convertible(self) -> Mask:
        chosen = self._equality & self._given("converted")
        local = chosen & ~self._global & self._convertible_partitions[self._parts]
        return local | (chosen & self._global if self._may_convert_global(chosen) else np.zeros_like(chosen))

    def _may_convert_global(self, chosen: Mask) -> bool:
        """Global deletes are converted in all partitions that they reach, so a `where` must let all of them in."""
        mine = chosen & self._global
        if not mine.any():
            return False
        reached = self._data & (self._numbers < self._numbers[mine].max())
        return bool(self._convertible_partitions[self._parts[reached]].all())

    def _newest(self, equality: Mask) -> Ints:
        """For each partition the number of the newest chosen equality delete that applies there; 0: none."""
        newest = np.zeros(self._count, np.int64)
        local = equality & ~self._global
        np.maximum.at(newest, self._parts[local], self._numbers[local])
        everywhere = int(self._numbers[equality & self._global].max(initial=0))
        np.maximum(newest, everywhere, out=newest)
        return newest

    def _mergeable(self, reached: Mask) -> Mask:
        """Position deletes of data files that have several, or that may get more because equality deletes reach
        them."""
        crowded = self._data & (self._crowd >= _CROWDED) & self._open[self._parts]
        crowded |= reached & (self._crowd > 0)
        target = self._targets()
        named = self._position & (target >= 0)
        named[named] = crowded[target[named]]
        oldest = np.full(self._count, _ENDLESS, np.int64)
        np.minimum.at(oldest, self._parts[crowded], self._numbers[crowded])
        shared = self._position & (target < 0) & (self._numbers >= oldest[self._parts])
        chosen: Mask = (named | shared) & self._given("merged")
        chosen &= self._worth_it(chosen, reached)[self._parts]
        return chosen

    def _worth_it(self, chosen: Mask, reached: Mask) -> Mask:
        """The partitions where merging leaves fewer files, or where files are written anyway."""
        worth: Mask = np.bincount(self._parts[reached], minlength=self._count) > 0
        merged = np.bincount(self._parts[chosen], minlength=self._count)
        if self._scope.granularity is Granularity.FILE:
            return worth | (merged > 0)
        covered = self._named_by(chosen)
        for part in np.flatnonzero((merged > 1) & ~worth).tolist():
            data = np.flatnonzero(covered & (self._parts == part))
            worth[part] = merged[part] > position_job.task_count(self._live, data)
        return worth

    def _named_by(self, position: Mask) -> Mask:
        """The data files that chosen position deletes may name."""
        target = self._targets()
        shared = position & (target < 0)
        newest = np.full(self._count, -1, np.int64)
        np.maximum.at(newest, self._parts[shared], self._numbers[shared])
        covered: Mask = self._data & (self._numbers <= newest[self._parts])
        covered[target[position & (target >= 0)]] = True
        return covered

    def _targets(self) -> Ints:
        """For each position delete file that is for a single data file, the row of that; else -1."""
        rows = np.flatnonzero(self._data)
        paths = self._live["file_path"].take(pa.array(rows)).combine_chunks()
        at = pc.index_in(self._live["referenced_data_file"], value_set=paths, skip_nulls=True)
        numbers = pc.fill_null(at, -1).to_numpy().astype(np.int64)
        target: Ints = np.where(numbers >= 0, rows[numbers] if len(rows) else -1, -1)
        return np.where(self._position, target, -1)

    def _groups(self, replaced: Mask, covered: Mask) -> tuple[ChosenGroup, ...]:
        owner = np.arange(self._count)
        everywhere = replaced & self._global
        if everywhere.any():
            within = self._data & (self._numbers < self._numbers[everywhere].max())
            owner[np.unique(self._parts[within])] = self._count
        owners = np.where(everywhere, self._count, owner[self._parts])
        rows, data = np.flatnonzero(replaced), np.flatnonzero(covered)
        rows, data = rows[np.argsort(owners[rows], kind="stable")], data[np.argsort(owners[data], kind="stable")]
        keys, starts = np.unique(owners[rows], return_index=True)
        files = np.searchsorted(owners[data], keys, side="left"), np.searchsorted(owners[data], keys, side="right")
        ends = [*starts[1:], len(rows)][: len(starts)]
        return tuple(
            ChosenGroup(
                id=number,
                data=data[first:last],
                replaced=rows[start:end],
                targets=self._reach[rows[start:end]],
                sequence_number=int(self._numbers[rows[start:end]].max()),
            )
            for number, (start, end, first, last) in enumerate(zip(starts, ends, *files, strict=True))
        )


def partition_numbers(files: pa.Table) -> Ints:
    """A number for the partition of each file, from 0 on; files of one spec and tuple have the same."""
    texts = files["partition"].cast(pa.string()).dictionary_encode().combine_chunks()
    codes = texts.indices.to_numpy(zero_copy_only=False).astype(np.int64) if files.num_rows else np.zeros(0, np.int64)
    specs = files["spec_id"].to_numpy().astype(np.int64)
    _, numbers = np.unique(specs * (codes.max(initial=0) + 1) + codes, return_inverse=True)
    return numbers.astype(np.int64)


def _spread(counts: pa.Table, name: str, rows: int) -> Ints:
    column = np.zeros(rows, np.int64)
    column[counts["row"].to_numpy()] = counts[name].to_numpy()
    return column
