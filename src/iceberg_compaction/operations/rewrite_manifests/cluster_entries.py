"""Rewrites manifests of one partition spec and content: live entries in the order of partitions, in manifests of about
the target size. Entries of the manifest list come in; new manifests and the digest that they must have go out. Entries
are decoded once, wait on local disk as Avro records, and are compressed in their new order, so that memory does not
grow with the table."""

from __future__ import annotations

import itertools
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from iceberg_compaction.formats.avro import avro_encode, container
from iceberg_compaction.metadata import partition_order
from iceberg_compaction.metadata.manifest import entry_spill, snapshot_manifests, written_manifests
from iceberg_compaction.operations.rewrite_manifests import gather_entries, manifest_digest
from iceberg_compaction.storage import look_ahead

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyiceberg.manifest import ManifestFile

    from iceberg_compaction.operations.rewrite_manifests.gather_entries import Gathered, ManifestClustering, Numbers

    Block = tuple[int, bytes]  # the number of its entries, and its framed bytes

_TAIL = 4  # the rest after the last full manifest joins it, if it is less than this part of the target
_BATCH = 16  # blocks that a thread compresses at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class Clustered:
    """The new manifests, and the digest that they must have."""

    manifests: tuple[written_manifests.NewManifest, ...]
    digest: manifest_digest.Digest


def cluster(sources: Sequence[ManifestFile], clustering: ManifestClustering) -> Clustered:
    """Writes the live entries of the sources into new manifests. Sources must state their counts."""
    with entry_spill.Spill() as spill:
        gathered = gather_entries.gather(sources, clustering, spill)
        return Clustered(manifests=tuple(_write(gathered, spill, clustering)), digest=gathered.digest)


def read_back(made: Sequence[written_manifests.NewManifest], clustering: ManifestClustering) -> manifest_digest.Digest:
    """The digest of new manifests as they lie in storage."""
    digests = look_ahead.in_order(
        lambda new: manifest_digest.read_back(clustering.writing.io, new.to_manifest_file(), clustering.layout),
        made,
    )
    return sum(digests, manifest_digest.Digest())


def _write(
    gathered: Gathered, spill: entry_spill.Spill, clustering: ManifestClustering
) -> Iterator[written_manifests.NewManifest]:
    """The new manifests, in order."""
    rows, codes = gathered.entries, gathered.entries.partition.indices.to_numpy()
    texts = rows.partition.dictionary.to_pylist()
    order = np.lexsort((rows.lower, partition_order.ranks(texts, clustering.layout)[codes]))
    sync = secrets.token_bytes(container.SYNC_SIZE)
    head = container.header(_header(gathered, clustering), sync)
    blocks = _blocks(spill, rows.starts[order], rows.sizes[order], clustering, sync)

    def write(output: _FillingManifest) -> written_manifests.NewManifest:
        members = order[output.first : output.last]
        path = clustering.writing.new_path()
        length = written_manifests.write_bytes(clustering.writing.io, path, [head, *output.blocks])
        return written_manifests.NewManifest(
            path=path,
            length=length,
            spec_id=clustering.layout.spec.spec_id,
            snapshot_id=clustering.writing.snapshot_id,
            content=clustering.content,
            existing=written_manifests.Counts(
                files=len(members),
                records=int(rows.record_count[members].sum()),
                bytes=int(rows.file_size[members].sum()),
            ),
            min_sequence_number=int(rows.sequence_number[members].min()),
            summaries=partition_order.summaries([texts[code] for code in np.unique(codes[members])], clustering.layout),
        )

    return look_ahead.in_order(write, _rolled(blocks, clustering.target, len(head)), at_once=2)


def _header(gathered: Gathered, clustering: ManifestClustering) -> dict[str, bytes]:
    """The header of new manifests, with keys of the sources that are not known here."""
    header = written_manifests.header_metadata(clustering.layout, gathered.schema, clustering.writing.codec)
    if clustering.content == snapshot_manifests.DELETES:
        header["content"] = b"deletes"
    foreign = {key: value for metadata in gathered.headers for key, value in metadata.items()}
    return {**{key: value for key, value in foreign.items() if key not in header}, **header}


def _blocks(
    spill: entry_spill.Spill, starts: Numbers, sizes: Numbers, clustering: ManifestClustering, sync: bytes
) -> Iterator[Block]:
    """The entries as blocks, in order."""
    ends = np.cumsum(sizes)
    step = min(avro_encode.BLOCK_BYTES, clustering.target // 2)  # so that no manifest misses half of its target
    cuts = np.searchsorted(ends - sizes, np.arange(0, int(ends[-1]), step))
    spans = list(itertools.pairwise(np.unique(np.append(cuts, len(sizes))).tolist()))
    compress = container.compressor(clustering.writing.codec)

    def block(first: int, last: int) -> Block:
        body = compress(spill.read(starts[first:last], sizes[first:last]))
        return last - first, container.block(last - first, body, sync)

    batches = (spans[at : at + _BATCH] for at in range(0, len(spans), _BATCH))
    return itertools.chain.from_iterable(look_ahead.in_order(lambda batch: [block(*span) for span in batch], batches))


@dataclass(slots=True)
class _FillingManifest:
    """A manifest that is being filled: consecutive entries of the new order."""

    first: int
    last: int
    size: int
    blocks: list[bytes]

    def take(self, count: int, block: bytes) -> None:
        self.last += count
        self.size += len(block)
        self.blocks.append(block)


def _rolled(blocks: Iterable[Block], target: int, header: int) -> Iterator[_FillingManifest]:
    """Blocks as manifests of at most the target size, the last of which may be a quarter larger."""
    full: _FillingManifest | None = None
    filling = _FillingManifest(0, 0, header, [])
    for count, block in blocks:
        if filling.blocks and filling.size + len(block) > target:
            if full is not None:
                yield full
            full, filling = filling, _FillingManifest(filling.last, filling.last, header, [])
        filling.take(count, block)
    if full is not None and (filling.size - header) * _TAIL < target:
        for block in filling.blocks:
            full.take(0, block)
        full.last = filling.last
        yield full
        return
    if full is not None:
        yield full
    yield filling
