"""Which row groups of a task's inputs are taken over as bytes, and which are encoded anew. Footers, deletes and
what the output is to look like come in; steps in the order of the rows go out, with the reasons for every row group
that is encoded although it exists already."""

from __future__ import annotations

import collections
import itertools
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING

from iceberg_compaction.execute.worker.copy import extents
from iceberg_compaction.execute.worker.input import identity_columns, read_files
from iceberg_compaction.model.policies import CopyMode

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import pyarrow as pa

    from iceberg_compaction.execute.worker.deletes import apply_deletes, untouched_row_groups
    from iceberg_compaction.formats.parquet import parquet_footer

# What is encoded between two copies should be so many times the least row group: encoded together, rows take less.
_SHRINKAGE = 1.25
_OTHER_CODEC = 0.1  # of a row group's bytes that may be compressed in another way
_PATCHED_SHARE = 0.5  # of a row group's bytes; if more must be encoded, all of it is
_PATCHED_BYTES = 128 * 2**20  # uncompressed, since patched columns of a row group are held at once
_DENSE = ("ZSTD", "GZIP", "BROTLI")  # none of them gains much over another


class Kept(str, Enum):
    """Why a row group is encoded. Closed set; people read the words."""

    SMALL = "smaller than the least row group"
    NEIGHBOUR = "merged with smaller neighbours"
    DELETED = "has deleted rows"
    CODEC = "compressed in another way than the table asks for"
    COLUMNS = "most of its columns have changed"
    NO_IDS = "its file has no field ids"
    WRITER = "its file was written in a way that is not copied"
    TOO_LARGE = "does not fit into a file of the target size"


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """One row group as bytes, but for columns that the file lacks or has in another form."""

    number: int  # of the file in the task
    footer: read_files.Footer
    raw: parquet_footer.RawFooter
    group: int
    places: tuple[int | None, ...]  # for each leaf of the output that of the file; None: encoded
    patched: frozenset[int]  # field ids of the top-level columns that are encoded
    bytes: int

    @property
    def part(self) -> read_files.Part:
        return read_files.Part(self.footer, (self.group,))

    def chunks(self) -> dict[int | None, parquet_footer.Chunk]:
        """The columns that are copied, by field id."""
        found = self.raw.groups[self.group].chunks
        return {self.raw.leaves[place].field_id: found[place] for place in self.places if place is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Encode:
    """Rows that are decoded and encoded."""

    parts: tuple[read_files.Part, ...]
    rows: int  # that live, as far as known
    bytes: int
    groups: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The way of all rows. `copies` is False where there is nothing to copy."""

    order: tuple[Copy | Encode, ...]
    kept: dict[str, int] = field(default_factory=dict)  # row groups that are encoded, by reason
    merges: bool = False  # whether a copy becomes part of what is encoded before it, if that turns out to be small

    @property
    def copies(self) -> bool:
        return any(isinstance(step, Copy) for step in self.order)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What row groups must be like in order to be taken over."""

    mode: CopyMode
    leaves: Sequence[parquet_footer.Leaf]  # of the output files
    tops: Sequence[int]  # field id of the top-level column of each leaf
    partition: Mapping[int, pa.Array]  # columns with the value that readers see in all rows (R51)
    codecs: frozenset[str]
    least: int  # bytes
    most: int


def codecs(chosen: str, *, asked_for: bool) -> frozenset[str]:
    """Names in footers of the codecs that are as good as the chosen one, which the Parquet writer calls otherwise.
    Where the table asks for none in particular, any that is as dense as the default will do."""
    name = {"none": "UNCOMPRESSED", "lz4": "LZ4_RAW"}.get(chosen, chosen.upper())
    return frozenset({name}) if asked_for or name not in _DENSE else frozenset(_DENSE)


def encode_all(footers: Sequence[read_files.Footer], deletes: apply_deletes.DeleteFilter | None) -> Steps:
    """No row group is looked at; files of which nothing is left are not even read."""
    alive = []
    for number, footer in enumerate(footers):
        if deletes and deletes.is_gone(number):
            deletes.pass_over(footer.rows)
        else:
            alive.append(footer)
    whole = Encode(
        parts=tuple(read_files.Part(footer) for footer in alive),
        rows=sum(footer.rows for footer in alive),
        bytes=sum(footer.data_bytes for footer in alive),
        groups=sum(len(footer.group_rows) for footer in alive),
    )
    return Steps(order=(whole,))


def choose(footers: Sequence[read_files.Footer], deletes: apply_deletes.DeleteFilter | None, wanted: Wanted) -> Steps:
    """The cheapest right way for every row group."""
    found = [group for number, footer in enumerate(footers) for group in _look(number, footer, wanted)]
    if deletes is not None:
        found = list(_with_deletes(found, deletes))
    merges = wanted.mode is CopyMode.AUTO
    found = _without_crumbs(found, int(_SHRINKAGE * wanted.least) if merges else 0)
    kept = collections.Counter(group.kept.value for group in found if group.kept is not None)
    return Steps(order=tuple(_steps(found)), kept=dict(kept), merges=merges)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """A row group with what was found out about it."""

    number: int  # of the file in the task
    footer: read_files.Footer
    index: int
    rows: int  # alive
    bytes: int
    copy: Copy | None = None  # how it would be copied, if its file was looked at
    kept: Kept | None = None

    @property
    def weight(self) -> int:
        """Bytes of the rows that live."""
        return self.bytes * self.rows // max(1, self.footer.group_rows[self.index])


def _look(number: int, footer: read_files.Footer, wanted: Wanted) -> Iterator[_Group]:
    """Every row group of a file that has rows, and what its footer alone tells about it."""
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
    known: dict[frozenset[int], tuple[int | None, ...]] = {}  # most row groups are alike
    for index, group in enumerate(raw.groups):
        if not group.rows:
            continue
        doubtful = identity_columns.doubtful(raw.leaves, group, wanted.partition)
        places = known.get(doubtful) or known.setdefault(doubtful, match(raw.leaves, wanted, doubtful))
        patched = frozenset(top for top, place in zip(wanted.tops, places, strict=True) if place is None)
        chunks = [group.chunks[place] for place in places if place is not None]
        copy = Copy(
            number=number,
            footer=footer,
            raw=raw,
            group=index,
            places=places,
            patched=patched,
            bytes=sum(chunk.length for chunk in chunks),
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


def match(
    leaves: Sequence[parquet_footer.Leaf], wanted: Wanted, without: Collection[int | None]
) -> tuple[int | None, ...]:
    """For each leaf of the output the file's leaf of the same field id and layout, unless it is among those to do
    `without`. A column of which one leaf is not there is encoded as a whole, because its leaves belong together."""
    by_id = {leaf.field_id: place for place, leaf in enumerate(leaves) if leaf.field_id not in without}
    found = []
    for leaf in wanted.leaves:
        place = None if leaf.field_id is None else by_id.get(leaf.field_id)
        found.append(place if place is not None and leaves[place].layout == leaf.layout else None)
    broken = {top for top, place in zip(wanted.tops, found, strict=True) if place is None}
    return tuple(None if top in broken else place for top, place in zip(wanted.tops, found, strict=True))


def _judge(copy: Copy, group: parquet_footer.Group, wanted: Wanted) -> Kept | None:
    taken = {place for place in copy.places if place is not None}
    patched = sum(
        chunk.uncompressed
        for leaf, chunk in zip(copy.raw.leaves, group.chunks, strict=True)
        if _top(leaf) in copy.patched
    )
    total = sum(chunk.uncompressed for chunk in group.chunks)
    if not taken or patched > min(_PATCHED_BYTES, _PATCHED_SHARE * total):
        return Kept.COLUMNS
    if copy.bytes > wanted.most:
        return Kept.TOO_LARGE
    if wanted.mode is CopyMode.ALWAYS:
        return None
    other = sum(chunk.length for place in taken if (chunk := group.chunks[place]).codec not in wanted.codecs)
    if other > _OTHER_CODEC * copy.bytes:
        return Kept.CODEC
    return Kept.SMALL if copy.bytes < wanted.least else None


def _top(leaf: parquet_footer.Leaf) -> int | None:
    return leaf.ids[0] if leaf.ids else leaf.field_id


def _with_deletes(groups: Sequence[_Group], deletes: apply_deletes.DeleteFilter) -> Iterator[_Group]:
    """Row groups of which something is left, those that deletes touch marked as such. Keys are looked up beforehand
    only where something may be copied."""
    for number, found in itertools.groupby(groups, key=lambda group: group.number):
        of_file = list(found)
        counts = of_file[0].footer.group_rows
        starts = [0, *itertools.accumulate(counts)]
        if any(group.kept is None for group in of_file):
            deletes.settle(number, {group.index: _extents(group, deletes) for group in of_file})
        for group in of_file:
            dead = deletes.dead_rows(number, starts[group.index], counts[group.index])
            if dead == counts[group.index]:
                deletes.pass_over(dead)
            elif dead or deletes.is_open(number):
                yield replace(group, rows=group.rows - dead, kept=group.kept or Kept.DELETED)
            else:
                yield group


def _extents(group: _Group, deletes: apply_deletes.DeleteFilter) -> dict[int, untouched_row_groups.Extent]:
    copy = group.copy
    return {} if copy is None else extents.of_group(deletes.io, copy.raw, copy.group, copy.places)


def _without_crumbs(groups: Sequence[_Group], least: int) -> list[_Group]:
    """So that no small row group comes out between two that are copied, what is encoded takes neighbours in until it is
    large enough."""
    found = list(groups)
    for order in (range(len(found)), range(len(found) - 1, -1, -1)):
        weight = 0
        for place in order:
            group = found[place]
            if group.kept is None and not 0 < weight < least:
                weight = 0
                continue
            if group.kept is None:
                found[place] = replace(group, kept=Kept.NEIGHBOUR)
            weight += group.weight
    return found


def _steps(groups: Sequence[_Group]) -> Iterator[Copy | Encode]:
    for is_copied, found in itertools.groupby(groups, key=lambda group: group.kept is None):
        run = list(found)
        if is_copied:
            yield from (group.copy for group in run if group.copy is not None)
            continue
        files = [list(same) for _, same in itertools.groupby(run, key=lambda group: group.number)]
        yield Encode(
            parts=tuple(_part(of_file) for of_file in files),
            rows=sum(group.rows for group in run),
            bytes=sum(group.bytes for group in run),
            groups=len(run),
        )


def _part(of_file: Sequence[_Group]) -> read_files.Part:
    footer = of_file[0].footer
    chosen = tuple(group.index for group in of_file)
    filled = tuple(group for group, rows in enumerate(footer.group_rows) if rows)
    return read_files.Part(footer, None if chosen == filled else chosen)
