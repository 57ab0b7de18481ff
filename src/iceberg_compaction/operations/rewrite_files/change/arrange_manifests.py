"""The manifests of the next snapshot, of data files or of deletes: first those of added files, then those of the head,
written anew where files leave them or where several become one. What was written is kept from attempt to attempt and
used again where it still holds, so that a lost race costs no more than what the winner changed."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.metadata.manifest import rewrite_entries, small_manifests

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    import pyarrow as pa
    from pyiceberg.manifest import ManifestFile

    from iceberg_compaction.commit.merge_manifests import Merging
    from iceberg_compaction.metadata.manifest import entry_fields, written_manifests
    from iceberg_compaction.metadata.manifest.rewrite_entries import RewrittenManifest

_log = logging.getLogger(__name__)
_THREADS = 8  # reading and writing manifests is waiting for the store, and decoding them releases the GIL
_LARGE, _FEWER_THREADS = 1 << 20, 4  # one of 8 MB takes 80 MB of memory while it is worked on


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestSizes:
    """What the manifests of the next snapshot must look like."""

    rows: Sequence[ManifestFile]  # of the head, those with live files
    added: Sequence[written_manifests.NewManifest] = ()
    removed: pa.Array  # paths of files that leave
    may_hold: Callable[[ManifestFile], bool]  # whether a manifest may have such files
    writing: written_manifests.Writing
    merging: Merging
    layout: Callable[[int], entry_fields.Layout | None]  # by spec id; None: its manifests are not merged


@dataclass(frozen=True, slots=True, kw_only=True)
class Arranged:
    """The manifests, in order."""

    items: Sequence[_Item]

    @property
    def made(self) -> list[written_manifests.NewManifest]:
        """Those that this commit wrote."""
        return [item.made for item in self.items if item.made is not None]

    @property
    def kept(self) -> list[ManifestFile]:
        return [item.row for item in self.items if item.made is None]

    @property
    def rewritten(self) -> list[RewrittenManifest]:
        return [item.output for item in self.items if item.output is not None]

    @property
    def replaced(self) -> int:
        """How many manifests of the head are not there any more."""
        return sum(len(item.sources) - item.new_sources for item in self.items if item.output is not None)

    @property
    def removed(self) -> list[str]:
        """The paths of the files that were found and left."""
        return [path for output in self.rewritten for path in output.removed]

    def removed_after(self, sequence_number: int) -> list[str]:
        """Of these, the files that came into the table later than that."""
        pairs = (zip(output.removed, output.removed_numbers, strict=True) for output in self.rewritten)
        return [path for output in pairs for path, number in output if number > sequence_number]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Item:
    """A manifest, and those of the head or of added files that it stands for."""

    row: ManifestFile
    sources: tuple[str, ...]
    length: int  # of the sources, so that bins are the same whether they are written already or not
    new_sources: int = 0  # how many of the sources hold added files
    made: written_manifests.NewManifest | None = None  # None: the manifest was there before
    output: RewrittenManifest | None = None  # None: it was not written anew

    @property
    def spec_id(self) -> int:
        return self.row.partition_spec_id

    @property
    def is_new(self) -> bool:
        return self.new_sources > 0


@dataclass(slots=True)
class Rewrites:
    """What was written anew so far. All that is asked of it must agree on what leaves, except that less may leave once
    `forget` was called."""

    _outputs: list[RewrittenManifest] = field(default_factory=list)
    _without: set[str] = field(default_factory=set)  # manifests that hold nothing that leaves
    _unfit: set[tuple[str, ...]] = field(default_factory=set)  # manifests that cannot be merged

    def forget(self, leaving: Collection[str]) -> None:
        """Only these files leave from now on."""
        self._outputs = [output for output in self._outputs if all(path in leaving for path in output.removed)]

    def arrange(self, sizes_wanted: ManifestSizes) -> Arranged:
        """Write what is not written yet."""
        removed = rewrite_entries.Removed(sizes_wanted.removed)
        items = list(self._known(sizes_wanted))
        found: dict[int, list[_Item]] = {}
        bins = sizes_wanted.merging.bins(items)
        for number, members in enumerate(bins):  # one at a time: memory holds one bin
            if sizes_wanted.merging.joins(members, items[0]):
                found[number] = self._merge(sizes_wanted, members, removed)
        alone = [item for number, members in enumerate(bins) if number not in found for item in members]
        anew = iter(self._rewrite(sizes_wanted, alone, removed))
        done = [
            found[number] if number in found else [next(anew) for _ in members] for number, members in enumerate(bins)
        ]
        return Arranged(items=[item for members in done for item in members])

    def _known(self, sizes_wanted: ManifestSizes) -> Iterator[_Item]:
        """The manifests, with what was written before in the place of its sources."""
        rows = {made.path: made.to_row() for made in sizes_wanted.added} | {
            row.manifest_path: row for row in sizes_wanted.rows
        }
        if len(rows) != len(sizes_wanted.added) + len(sizes_wanted.rows):
            raise errors.MetadataError("The manifest list names a manifest twice; nothing was committed.")
        new = {made.path: made for made in sizes_wanted.added}
        by_source: dict[str, RewrittenManifest] = {}
        for output in reversed(self._outputs):  # the last one stands for most
            if all(path in rows and path not in by_source for path in output.sources):
                by_source |= dict.fromkeys(output.sources, output)
        told = set()
        for path, row in rows.items():
            known = by_source.get(path)
            if known is None:
                yield _Item(
                    row=row,
                    sources=(path,),
                    length=row.manifest_length,
                    new_sources=int(path in new),
                    made=new.get(path),
                )
            elif known.manifest.path not in told:
                told.add(known.manifest.path)
                yield _written(known, [rows[source] for source in known.sources], new)

    def _merge(
        self, sizes_wanted: ManifestSizes, members: list[_Item], removed: rewrite_entries.Removed
    ) -> list[_Item]:
        """The members as one manifest. Merging keeps a table tidy and is worth no failure."""
        layout, key = sizes_wanted.layout(members[0].spec_id), tuple(item.row.manifest_path for item in members)
        if layout is None or key in self._unfit:
            return self._rewrite(sizes_wanted, members, removed)
        try:
            output = rewrite_entries.merge_manifests(
                sizes_wanted.writing, [item.row for item in members], removed, layout
            )
        except (errors.UnsupportedError, errors.MetadataError) as error:
            _log.warning("%d manifests are left unmerged: %s", len(members), error)
            self._unfit.add(key)
            return self._rewrite(sizes_wanted, members, removed)
        output = dataclasses.replace(output, sources=tuple(path for item in members for path in item.sources))
        self._outputs.append(output)
        return [
            _Item(
                row=output.manifest.to_row(),
                sources=output.sources,
                length=sum(item.length for item in members),
                new_sources=sum(item.new_sources for item in members),
                made=output.manifest,
                output=output,
            )
        ]

    def _rewrite(
        self, sizes_wanted: ManifestSizes, items: list[_Item], removed: rewrite_entries.Removed
    ) -> list[_Item]:
        """The items, those of the head that lose files written anew."""
        todo = [
            item
            for item in items
            if item.made is None and item.row.manifest_path not in self._without and sizes_wanted.may_hold(item.row)
        ]
        anew: dict[str, _Item] = {}
        for item, output in _rewritten(sizes_wanted, todo, removed):
            if output is None:
                self._without.add(item.row.manifest_path)
            else:
                self._outputs.append(output)
                anew[item.row.manifest_path] = _written(output, [item.row], {})
        return [anew.get(item.row.manifest_path, item) for item in items]


def _rewritten(
    sizes_wanted: ManifestSizes, items: Sequence[_Item], removed: rewrite_entries.Removed
) -> Iterator[tuple[_Item, RewrittenManifest | None]]:
    """Each item written anew; small ones many at a time."""
    small = [item for item in items if item.row.manifest_length <= small_manifests.SMALL]
    large = [item for item in items if item.row.manifest_length > small_manifests.SMALL]
    for start in range(0, len(small), small_manifests.TOGETHER):
        some = small[start : start + small_manifests.TOGETHER]
        rows = [item.row for item in some]
        yield from zip(some, rewrite_entries.rewrite_small_manifests(sizes_wanted.writing, rows, removed), strict=True)
    threads = _FEWER_THREADS if any(item.row.manifest_length > _LARGE for item in large) else _THREADS
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        done = pool.map(lambda item: rewrite_entries.rewrite_manifest(sizes_wanted.writing, item.row, removed), large)
        yield from zip(large, done, strict=True)


def _written(output: RewrittenManifest, sources: Sequence[ManifestFile], new: Collection[str]) -> _Item:
    return _Item(
        row=output.manifest.to_row(),
        sources=output.sources,
        length=sum(row.manifest_length for row in sources),
        new_sources=sum(path in new for path in output.sources),
        made=output.manifest,
        output=output,
    )
