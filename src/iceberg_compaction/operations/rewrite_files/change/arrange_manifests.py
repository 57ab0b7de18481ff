"""Arranges the manifests of the next snapshot, of data files or of deletes: first those of added files, then those of
the head, rewritten where they lose files or where several become one. Rewritten manifests are kept from attempt to
attempt and used again where they still hold, so that a lost race costs no more than the winner's changes."""

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
class ManifestTask:
    """The manifests of one content to arrange, the files that leave them, and how to write and merge them."""

    manifest_files: Sequence[ManifestFile]  # of the head, those with live files
    added: Sequence[written_manifests.NewManifest] = ()
    removed: pa.Array  # paths of files that leave
    may_hold: Callable[[ManifestFile], bool]  # whether a manifest may have such files
    writing: written_manifests.Writing
    merging: Merging
    layout: Callable[[int], entry_fields.ManifestLayout | None]  # by spec id; None: its manifests are not merged


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrangedManifests:
    """The manifests of one content, in order."""

    items: Sequence[_Item]

    @property
    def made(self) -> list[written_manifests.NewManifest]:
        """Those that this commit wrote."""
        return [item.made for item in self.items if item.made is not None]

    @property
    def kept(self) -> list[ManifestFile]:
        """Those that the head has, too."""
        return [item.manifest_file for item in self.items if item.made is None]

    @property
    def rewritten(self) -> list[RewrittenManifest]:
        return [item.output for item in self.items if item.output is not None]

    @property
    def replaced(self) -> int:
        """The number of manifests of the head that the next snapshot does not have."""
        return sum(len(item.sources) - item.new_sources for item in self.items if item.output is not None)

    @property
    def removed(self) -> list[str]:
        """The paths of all files that left the manifests."""
        return [path for output in self.rewritten for path in output.removed]

    def removed_after(self, sequence_number: int) -> list[str]:
        """Of these, the files that came into the table later than that."""
        pairs = (zip(output.removed, output.removed_numbers, strict=True) for output in self.rewritten)
        return [path for output in pairs for path, number in output if number > sequence_number]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Item:
    """A manifest, and those of the head or of added files that it stands for."""

    manifest_file: ManifestFile
    sources: tuple[str, ...]
    length: int  # of the sources, so that bins are the same whether they are written already or not
    new_sources: int = 0  # how many of the sources hold added files
    made: written_manifests.NewManifest | None = None  # None: the manifest was there before
    output: RewrittenManifest | None = None  # None: it was not rewritten

    @property
    def path(self) -> str:
        return self.manifest_file.manifest_path

    @property
    def spec_id(self) -> int:
        return self.manifest_file.partition_spec_id

    @property
    def is_new(self) -> bool:
        return self.new_sources > 0


@dataclass(slots=True)
class Rewrites:
    """The manifests rewritten so far. All tasks must agree on the files that leave, except that fewer may leave after a
    call of `forget`."""

    _outputs: list[RewrittenManifest] = field(default_factory=list)
    _unchanged: set[str] = field(default_factory=set)  # manifests without a file that leaves
    _unfit: set[tuple[str, ...]] = field(default_factory=set)  # manifests that cannot be merged

    def forget(self, leaving: Collection[str]) -> None:
        """Only these files leave from now on."""
        self._outputs = [output for output in self._outputs if all(path in leaving for path in output.removed)]

    def arrange(self, task: ManifestTask) -> ArrangedManifests:
        """Merges and rewrites where no earlier attempt has done so."""
        removed = rewrite_entries.Removed(task.removed)
        items = list(self._items(task))
        merged: dict[int, list[_Item]] = {}
        bins = task.merging.bins(items)
        for number, members in enumerate(bins):  # one at a time: memory holds one bin
            if task.merging.joins(members, items[0]):
                merged[number] = self._merge(task, members, removed)
        alone = [item for number, members in enumerate(bins) if number not in merged for item in members]
        rewritten = iter(self._rewrite(task, alone, removed))
        arranged = [
            merged[number] if number in merged else [next(rewritten) for _ in members]
            for number, members in enumerate(bins)
        ]
        return ArrangedManifests(items=[item for members in arranged for item in members])

    def _items(self, task: ManifestTask) -> Iterator[_Item]:
        """The manifests, with those rewritten before in the position of their sources."""
        by_path = {made.path: made.to_manifest_file() for made in task.added} | {
            manifest.manifest_path: manifest for manifest in task.manifest_files
        }
        if len(by_path) != len(task.added) + len(task.manifest_files):
            raise errors.MetadataError("The manifest list names a manifest twice; nothing was committed.")
        new = {made.path: made for made in task.added}
        by_source: dict[str, RewrittenManifest] = {}
        for output in reversed(self._outputs):  # the last one stands for most
            if all(path in by_path and path not in by_source for path in output.sources):
                by_source |= dict.fromkeys(output.sources, output)
        yielded = set()
        for path, manifest in by_path.items():
            rewritten = by_source.get(path)
            if rewritten is None:
                yield _Item(
                    manifest_file=manifest,
                    sources=(path,),
                    length=manifest.manifest_length,
                    new_sources=int(path in new),
                    made=new.get(path),
                )
            elif rewritten.manifest.path not in yielded:
                yielded.add(rewritten.manifest.path)
                yield _rewritten_item(rewritten, [by_path[source] for source in rewritten.sources], new)

    def _merge(self, task: ManifestTask, members: list[_Item], removed: rewrite_entries.Removed) -> list[_Item]:
        """The members as one manifest. Merging keeps a table tidy and is worth no failure."""
        layout, key = task.layout(members[0].spec_id), tuple(item.path for item in members)
        if layout is None or key in self._unfit:
            return self._rewrite(task, members, removed)
        try:
            output = rewrite_entries.merge_manifests(
                task.writing, [item.manifest_file for item in members], removed, layout
            )
        except (errors.UnsupportedError, errors.MetadataError) as error:
            _log.warning("%d manifests are left unmerged: %s", len(members), error)
            self._unfit.add(key)
            return self._rewrite(task, members, removed)
        output = dataclasses.replace(output, sources=tuple(path for item in members for path in item.sources))
        self._outputs.append(output)
        return [
            _Item(
                manifest_file=output.manifest.to_manifest_file(),
                sources=output.sources,
                length=sum(item.length for item in members),
                new_sources=sum(item.new_sources for item in members),
                made=output.manifest,
                output=output,
            )
        ]

    def _rewrite(self, task: ManifestTask, items: list[_Item], removed: rewrite_entries.Removed) -> list[_Item]:
        """The items, with new manifests for those of the head that lose files."""
        doubtful = [
            item
            for item in items
            if item.made is None and item.path not in self._unchanged and task.may_hold(item.manifest_file)
        ]
        rewritten: dict[str, _Item] = {}
        for item, output in _outputs(task, doubtful, removed):
            if output is None:
                self._unchanged.add(item.path)
            else:
                self._outputs.append(output)
                rewritten[item.path] = _rewritten_item(output, [item.manifest_file], {})
        return [rewritten.get(item.path, item) for item in items]


def _outputs(
    task: ManifestTask, items: Sequence[_Item], removed: rewrite_entries.Removed
) -> Iterator[tuple[_Item, RewrittenManifest | None]]:
    """Each item with its new manifest; None: it loses no file. Small ones are rewritten many at a time."""
    small = [item for item in items if item.manifest_file.manifest_length <= small_manifests.SMALL]
    large = [item for item in items if item.manifest_file.manifest_length > small_manifests.SMALL]
    for start in range(0, len(small), small_manifests.TOGETHER):
        batch = small[start : start + small_manifests.TOGETHER]
        sources = [item.manifest_file for item in batch]
        yield from zip(batch, rewrite_entries.rewrite_small_manifests(task.writing, sources, removed), strict=True)
    threads = _FEWER_THREADS if any(item.manifest_file.manifest_length > _LARGE for item in large) else _THREADS
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        outputs = pool.map(
            lambda item: rewrite_entries.rewrite_manifest(task.writing, item.manifest_file, removed), large
        )
        yield from zip(large, outputs, strict=True)


def _rewritten_item(output: RewrittenManifest, sources: Sequence[ManifestFile], new: Collection[str]) -> _Item:
    return _Item(
        manifest_file=output.manifest.to_manifest_file(),
        sources=output.sources,
        length=sum(source.manifest_length for source in sources),
        new_sources=sum(path in new for path in output.sources),
        made=output.manifest,
        output=output,
    )
