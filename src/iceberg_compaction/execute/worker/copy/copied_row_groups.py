"""Chooses for every row group of a task's inputs whether it is copied as bytes or encoded anew. Footers, deletes and
the wanted form of the output come in; steps in the order of the rows go out, with the reason for every row group that
is encoded although it exists already."""

from __future__ import annotations

import collections
import itertools
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING

from iceberg_compaction.execute.worker.copy import extents, join_choice
from iceberg_compaction.execute.worker.input import identity_columns, read_files
from iceberg_compaction.model import copy_plan
from iceberg_compaction.model.policies import CopyMode

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import pyarrow as pa

    from iceberg_compaction.execute.worker.deletes import apply_deletes, untouched_row_groups
    from iceberg_compaction.formats.parquet import parquet_footer

# Rows between two copies should be so many times the least row group: encoded together, they take less.
_SHRINKAGE = 1.25
_OTHER_CODEC = 0.1  # of a row group's bytes that may be compressed in another way
_PATCHED_SHARE = 0.5  # of a row group's bytes; if more must be encoded, all of it is
_PATCHED_BYTES = 128 * 2**20  # uncompressed, since patched columns of a row group are held at once
_DENSE = ("ZSTD", "GZIP", "BROTLI")  # none of them gains much over another


class Kept(str, Enum):
    """The reason why a row group is encoded. Closed set; people read the words."""

    SMALL = "smaller than the least row group"
    NEIGHBOUR = "merged with smaller neighbours"
    DELETED = "has deleted rows"
    CODEC = "compressed in another way than the table asks for"
    COLUMNS = "most of its columns have changed"
    NO_IDS = "its file has no field ids"
    WRITER = "its file was written in a way that is not copied"
    PAGES = "its pages could not be joined"
    TOO_LARGE = "does not fit into a file of the target size"


_MOVABLE = (None, Kept.SMALL)  # as bytes: alone, or joined with neighbours


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A row group as bytes, except for columns that the file lacks or has in another form."""

    number: int  # of the file in the task
    footer: read_files.Footer
    raw: parquet_footer.RawFooter
    group: int
    columns: tuple[int | None, ...]  # for each leaf of the output the index of the file's leaf; None: encoded
    patched: frozenset[int]  # field ids of the top-level columns that are encoded
    bytes: int
    absent: frozenset[int] = frozenset()  # of these, the columns that the file lacks and that are null in all its rows
    deleted: int = 0  # rows that are left out; such a row group is joined, never copied

    @property
    def stored_rows(self) -> int:
        return self.raw.groups[self.group].rows

    @property
    def rows(self) -> int:
        """Rows that live."""
        return self.stored_rows - self.deleted

    @property
    def first_row(self) -> int:
        """Its number in the file."""
        return sum(self.footer.group_rows[: self.group])

    @property
    def weight(self) -> int:
        """Bytes of the rows that live, about."""
        return self.bytes * self.rows // max(1, self.stored_rows)

    @property
    def part(self) -> read_files.FilePart:
        return read_files.FilePart(self.footer, (self.group,))

    def chunks(self) -> dict[int | None, parquet_footer.Chunk]:
        """The columns that are copied, by field id."""
        chunks = self.raw.groups[self.group].chunks
        return {self.raw.leaves[index].field_id: chunks[index] for index in self.columns if index is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """Row groups that become fewer and larger ones, column by column, mostly as bytes."""

    sources: tuple[Copy, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Encode:
    """Rows that are decoded and encoded."""

    parts: tuple[read_files.FilePart, ...]
    rows: int  # that live; some of them may still turn out to be deleted
    bytes: int
    groups: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Steps that move all rows of a task. `copies` is False where there is nothing to copy."""

    order: tuple[Copy | Join | Encode, ...]
    kept: dict[str, int] = field(default_factory=dict)  # row groups that are encoded, by reason
    merges: bool = False  # whether a row group is encoded if the rows before it would make an undersized one

    @property
    def copies(self) -> bool:
        return any(not isinstance(step, Encode) for step in self.order)

    @property
    def decoded(self) -> tuple[read_files.FilePart, ...]:
        """Parts that are decoded, and those that may be: between encoded rows a copy may become impossible."""
        encoded = tuple(part for step in self.order if isinstance(step, Encode) for part in step.parts)
        return encoded and encoded + tuple(step.part for step in self.order if isinstance(step, Copy))

    def joined_bytes(self, row_group: int) -> int:
        """Of the most row groups that become one of so many bytes; rows that are left out are loaded, too."""
        most = max((sum(source.bytes for source in sources) for sources in self._joins), default=0)
        sources = [source for sources in self._joins for source in sources]
        least_share = min((source.rows / source.stored_rows for source in sources), default=1.0)
        return max([min(most, int(row_group / least_share)), *(source.bytes for source in sources)])

    @property
    def leaves_out(self) -> bool:
        """Whether joined row groups lose rows."""
        return any(source.deleted for sources in self._joins for source in sources)

    @property
    def _joins(self) -> list[tuple[Copy, ...]]:
        return [step.sources for step in self.order if isinstance(step, Join)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The form that row groups must have in order to be copied."""

    mode: CopyMode
    leaves: Sequence[parquet_footer.Leaf]  # of the output files
    tops: Sequence[int]  # field id of the top-level column of each leaf
    partition: Mapping[int, pa.Array]  # values that readers see in all rows of a column, by field id (R51)
    filled: frozenset[int]  # field ids of columns that have a value where a file lacks them
    filtered: frozenset[int]  # field ids of top-level columns with Bloom filters, which cannot be merged
    codecs: frozenset[str]
    least: int  # bytes
    most: int


def codecs(chosen: str, *, asked_for: bool) -> frozenset[str]:
    """The codecs that are as good as the chosen one, by their names in footers. Where the table asks for none in
    particular, any that is as dense as the default will do."""
    name = {"none": "UNCOMPRESSED", "lz4": "LZ4_RAW"}.get(chosen, chosen.upper())
    return frozenset({name}) if asked_for or name not in _DENSE else frozenset(_DENSE)


def encode_all(footers: Sequence[read_files.Footer], deletes: apply_deletes.DeleteFilter | None) -> Steps:
    """Every row group is encoded. Files whose rows are all deleted are not even read."""
    alive = []
    for number, footer in enumerate(footers):
        if deletes and deletes.is_gone(number):
            deletes.pass_over(footer.rows)
        else:
            alive.append(footer)
    whole = Encode(
        parts=tuple(read_files.FilePart(footer) for footer in alive),
        rows=sum(footer.rows for footer in alive),
        bytes=sum(footer.data_bytes for footer in alive),
        groups=sum(len(footer.group_rows) for footer in alive),
    )
    return Steps(order=(whole,))


def choose(footers: Sequence[read_files.Footer], deletes: apply_deletes.DeleteFilter | None, wanted: Wanted) -> Steps:
    """Copies every row group where that is right and pays off."""
    groups = [group for number, footer in enumerate(footers) for group in _judge_file(number, footer, wanted)]
    if deletes is not None:
        groups = list(_with_deletes(groups, deletes))
    merges = wanted.mode is CopyMode.AUTO
    groups = _without_undersized(groups, int(_SHRINKAGE * wanted.least) if merges else 0)
    order: list[Copy | Join | Encode] = []
    kept: collections.Counter[str] = collections.Counter()
    runs = [(way, list(run)) for way, run in itertools.groupby(groups, key=lambda group: _way(group, wanted))]
    for at, (way, run) in enumerate(runs):
        if way is Copy:
            order += [group.copy for group in run if group.copy is not None]
            continue
        # Rows that are encoded before or behind could make an undersized row group, if these are not encoded with them.
        is_alone = all(other is not Encode for other, _ in runs[max(0, at - 1) : at + 2])
        for step, of_step in _join_or_encode(run, wanted, is_alone=is_alone) if way is Join else [(_encode(run), run)]:
            order.append(step)
            if isinstance(step, Encode):
                kept.update(group.kept.value for group in of_step if group.kept is not None)
    return Steps(order=tuple(order), kept=dict(kept), merges=merges)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """A row group and the decision about it."""

    number: int  # of the file in the task
    footer: read_files.Footer
    index: int
    rows: int  # alive
    bytes: int
    copy: Copy | None = None  # the step that would copy it; None: its file has no row group worth copying
    kept: Kept | None = None

    @property
    def weight(self) -> int:
        """Bytes of the rows that live."""
        return self.bytes * self.rows // max(1, self.footer.group_rows[self.index])


def _judge_file(number: int, footer: read_files.Footer, wanted: Wanted) -> Iterator[_Group]:
    """Every row group of a file that has rows, judged by its footer alone."""
    if (raw := footer.raw) is None:
        for index, rows in enumerate(footer.group_rows):
            size = footer.data_bytes * rows // max(1, footer.rows)
            if rows:
                yield _Group(number=number, footer=footer, index=index, rows=rows, bytes=size, kept=Kept.SMALL)
        return
    whole_file = None
    if raw.why_not is not None:
        whole_file = Kept.WRITER
    elif not any(leaf.field_id is not None for leaf in raw.leaves):
        whole_file = Kept.NO_IDS
    absent = _absent(raw.leaves, wanted)
    matches: dict[frozenset[int], tuple[int | None, ...]] = {}  # most row groups are alike
    for index, group in enumerate(raw.groups):
        if not group.rows:
            continue
        doubtful = identity_columns.doubtful(raw.leaves, group, wanted.partition)
        columns = matches.get(doubtful) or matches.setdefault(doubtful, match(raw.leaves, wanted, doubtful))
        patched = frozenset(top for top, column in zip(wanted.tops, columns, strict=True) if column is None)
        chunks = [group.chunks[column] for column in columns if column is not None]
        copy = Copy(
            number=number,
            footer=footer,
            raw=raw,
            group=index,
            columns=columns,
            patched=patched,
            bytes=sum(chunk.length for chunk in chunks),
            absent=absent & patched,
        )
        yield _Group(
            number=number,
            footer=footer,
            index=index,
            rows=group.rows,
            bytes=group.bytes,
            copy=copy,
            kept=whole_file or _judge(copy, group, wanted),
        )


def _absent(leaves: Sequence[parquet_footer.Leaf], wanted: Wanted) -> frozenset[int]:
    """The optional top-level columns that a file lacks and nothing fills."""
    present = {leaf.ids[0] for leaf in leaves}
    return frozenset(
        top
        for top, leaf in zip(wanted.tops, wanted.leaves, strict=True)
        if top not in present and top not in wanted.filled and leaf.layout.repetitions[0] == 1
    )


def match(
    leaves: Sequence[parquet_footer.Leaf], wanted: Wanted, without: Collection[int | None]
) -> tuple[int | None, ...]:
    """The index of the file's leaf of the same field id and layout, for each leaf of the output; None for those of
    `without`. A column that lacks a leaf is encoded as a whole, because its leaves belong together."""
    by_id = {leaf.field_id: index for index, leaf in enumerate(leaves) if leaf.field_id not in without}
    columns = []
    for leaf in wanted.leaves:
        index = None if leaf.field_id is None else by_id.get(leaf.field_id)
        columns.append(index if index is not None and leaves[index].layout == leaf.layout else None)
    broken = {top for top, index in zip(wanted.tops, columns, strict=True) if index is None}
    return tuple(None if top in broken else index for top, index in zip(wanted.tops, columns, strict=True))


def _judge(copy: Copy, group: parquet_footer.Group, wanted: Wanted) -> Kept | None:
    copied = {index for index in copy.columns if index is not None}
    patched = sum(
        chunk.uncompressed
        for leaf, chunk in zip(copy.raw.leaves, group.chunks, strict=True)
        if _top(leaf) in copy.patched
    )
    total = sum(chunk.uncompressed for chunk in group.chunks)
    if not copied or patched > min(_PATCHED_BYTES, _PATCHED_SHARE * total):
        return Kept.COLUMNS
    if copy.bytes > wanted.most:
        return Kept.TOO_LARGE
    if wanted.mode is CopyMode.ALWAYS:
        return None
    other_codec = sum(chunk.length for index in copied if (chunk := group.chunks[index]).codec not in wanted.codecs)
    if other_codec > _OTHER_CODEC * copy.bytes:
        return Kept.CODEC
    return Kept.SMALL if copy.bytes < wanted.least else None


def _top(leaf: parquet_footer.Leaf) -> int | None:
    return leaf.ids[0] if leaf.ids else leaf.field_id


def _with_deletes(groups: Sequence[_Group], deletes: apply_deletes.DeleteFilter) -> Iterator[_Group]:
    """The row groups that have rows left, those that deletes touch marked as such. Keys are looked up beforehand only
    in files with row groups that may be copied or joined."""
    for number, same_file in itertools.groupby(groups, key=lambda group: group.number):
        of_file = list(same_file)
        counts = of_file[0].footer.group_rows
        starts = [0, *itertools.accumulate(counts)]
        if any(group.kept in _MOVABLE for group in of_file):
            with read_files.translated(of_file[0].footer.path):
                deletes.look_up(number, {group.index: _extents(group, deletes) for group in of_file})
        for group in of_file:
            dead = deletes.dead_rows(number, starts[group.index], counts[group.index])
            if dead == counts[group.index]:
                deletes.pass_over(dead)
            elif dead or deletes.is_open(number):
                yield _thinned(group, dead, is_known=not deletes.is_open(number))
            else:
                yield group


def _thinned(group: _Group, dead: int, *, is_known: bool) -> _Group:
    """A row group that loses rows, so many by what is known so far."""
    kept = Kept.DELETED if group.kept in _MOVABLE else group.kept
    joins = is_known and dead <= copy_plan.MOST_DELETED * group.rows
    copy = replace(group.copy, deleted=dead) if group.copy is not None and joins else None
    return replace(group, rows=group.rows - dead, kept=kept, copy=copy)


def _extents(group: _Group, deletes: apply_deletes.DeleteFilter) -> dict[int, untouched_row_groups.Extent]:
    copy = group.copy
    return {} if copy is None else extents.of_group(deletes.io, copy.raw, copy.group, copy.columns)


def _without_undersized(groups: Sequence[_Group], least: int) -> list[_Group]:
    """The row groups, of which some more are encoded: rows that are encoded between two copies take in neighbours until
    they are large enough, so that no undersized row group comes out."""
    merged = list(groups)
    for order in (range(len(merged)), range(len(merged) - 1, -1, -1)):
        weight = 0
        for index in order:
            group = merged[index]
            if group.kept is None and not 0 < weight < least:
                weight = 0
                continue
            if group.kept is None:
                merged[index] = replace(group, kept=Kept.NEIGHBOUR)
            weight += group.weight
    return merged


def _way(group: _Group, wanted: Wanted) -> type:
    """How a row group moves; whether joining pays off is seen with its neighbours."""
    if group.kept is None:
        return Copy
    joins = group.kept in (Kept.SMALL, Kept.NEIGHBOUR, Kept.DELETED) and group.copy is not None
    return Join if joins and wanted.mode is CopyMode.AUTO else Encode


def _join_or_encode(
    run: Sequence[_Group], wanted: Wanted, *, is_alone: bool
) -> list[tuple[Join | Encode, Sequence[_Group]]]:
    """The steps of row groups that may be joined, and the row groups of each. Where it does not pay off to leave rows
    out, only the others are joined."""
    copies = tuple(group.copy for group in run if group.copy is not None)
    if join_choice.worth_joining(copies, wanted, unfolds=is_alone):
        return [(Join(sources=copies), run)]
    losses = {copy.deleted > 0 for copy in copies}
    if len(losses) == 1:
        return [(_encode(run), run)]
    steps: list[tuple[Join | Encode, Sequence[_Group]]] = []
    for loses_rows, same in itertools.groupby(run, key=lambda group: group.copy is not None and group.copy.deleted > 0):
        part = list(same)
        steps += [(_encode(part), part)] if loses_rows else _join_or_encode(part, wanted, is_alone=False)
    return steps


def _encode(run: Sequence[_Group]) -> Encode:
    files = [list(same) for _, same in itertools.groupby(run, key=lambda group: group.number)]
    return Encode(
        parts=tuple(_part(of_file) for of_file in files),
        rows=sum(group.rows for group in run),
        bytes=sum(group.bytes for group in run),
        groups=len(run),
    )


def _part(of_file: Sequence[_Group]) -> read_files.FilePart:
    footer = of_file[0].footer
    chosen = tuple(group.index for group in of_file)
    filled = tuple(group for group, rows in enumerate(footer.group_rows) if rows)
    return read_files.FilePart(footer, None if chosen == filled else chosen)
