"""Merges the dictionaries of a column's chunks into one. In: dictionary pages. Out: the values in Parquet's order, and
for each chunk the ranks of its entries among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction.formats.parquet import page_headers
from iceberg_compaction.formats.parquet.join import forged_file, page_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from iceberg_compaction.formats.parquet import page_layout

    Ranks = npt.NDArray[np.int32]

_REQUIRED = (0,)
_FLOATS = {"FLOAT": pa.float32(), "DOUBLE": pa.float64()}
_FEW, _WORTH_A_LOOK = 4, 4 * 2**20  # dictionaries, and bytes of all of them
_BITS = {"FLOAT": pa.int32(), "DOUBLE": pa.int64()}  # floats are told apart by their bits: NaNs, and zeros with a sign


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedDictionary:
    """The values of all dictionaries, once each, and the ranks of the entries of each."""

    values: pa.Array
    ranks: tuple[Ranks, ...]
    ordered: bool  # whether ranks have the order of values


def least_bytes(pages: Sequence[bytes], codec: str, layout: page_layout.Layout) -> int:
    """What the values of all dictionaries take at least, about, by a look at a few of them: keys that grow are others
    in each, and it takes long to find that out of all."""
    few = [pages[number] for number in range(0, len(pages), max(1, len(pages) // _FEW))]
    sizes = [page_headers.header(page, 0).uncompressed for page in pages]
    if len(few) == len(pages) or sum(sizes) < _WORTH_A_LOOK:
        return 0
    values = decoded(few, [page_headers.header(page, 0) for page in few], codec, layout)
    different = values.unique().nbytes / max(1, values.nbytes)
    # Values that only some of the others have make the share smaller, the more of them are looked at.
    return int(sum(sizes) * max(0.0, 2 * different - 1))


def merge(pages: Sequence[bytes], codec: str, layout: page_layout.Layout) -> MergedDictionary:
    """All dictionaries as one. ValueError: the pages are no dictionaries."""
    headers = [page_headers.header(page, 0) for page in pages]
    if any(each.kind != page_headers.DICTIONARY for each in headers):
        raise ValueError("a column has no dictionary where its footer says so")
    counts = [each.values for each in headers]
    values = decoded(pages, headers, codec, layout)
    encoded = values.dictionary_encode()
    order, ordered = _order(encoded.dictionary, layout)
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    merged, ranks = encoded.dictionary.take(pa.array(order)), rank[encoded.indices.to_numpy()]
    if not merged.take(pa.array(ranks)).equals(values):
        raise ValueError("the merged dictionary has other values than its parts")
    return MergedDictionary(values=merged, ranks=tuple(np.split(ranks, np.cumsum(counts)[:-1])), ordered=ordered)


def decoded(
    pages: Sequence[bytes], headers: Sequence[page_headers.PageHeader], codec: str, layout: page_layout.Layout
) -> pa.Array:
    """The entries of all dictionaries. A dictionary page holds plain values, as a data page of a required column does,
    so all of them are decoded as one such column. pyarrow takes a page without values for the end of a column."""
    data = [
        page_bytes.compose(
            page_headers.DATA, head.values, page[head.body : head.body + head.compressed], head.uncompressed
        )
        for page, head in zip(pages, headers, strict=True)
        if head.values
    ]
    total = sum(head.values for head in headers)
    if not total:
        return pa.array([], _BITS.get(layout.physical, pa.int32()))
    chunk = forged_file.ForgedChunk(rows=total, values=total, dictionary=None, pages=data)
    column = forged_file.read(layout.physical, layout.length, _REQUIRED, codec, [chunk]).column(0)
    values = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    bits = _BITS.get(layout.physical)
    return values.view(bits) if bits is not None else values


def _order(values: pa.Array, layout: page_layout.Layout) -> tuple[npt.NDArray[Any], bool]:
    """Indexes that sort the values, and whether that is the order of bounds. NaNs have no location in it."""
    sortable = _sortable(values, layout)
    if sortable is None:
        return np.arange(len(values)), False
    return pc.sort_indices(sortable).to_numpy(), True


def _sortable(values: pa.Array, layout: page_layout.Layout) -> pa.Array | None:
    """Values that Arrow sorts as Parquet does."""
    kind = layout.annotation[0] if layout.annotation else None
    if layout.physical in _BITS:
        floats = values.view(_FLOATS[layout.physical])
        return None if pc.any(pc.is_nan(floats)).as_py() else floats
    if kind == "DECIMAL" and layout.physical == "FIXED_LEN_BYTE_ARRAY":
        raw = np.frombuffer(plain(values), np.uint8).reshape(-1, layout.length).copy()
        raw[:, 0] ^= 0x80  # two's complement in the order of plain bytes
        return pa.FixedSizeBinaryArray.from_buffers(pa.binary(layout.length), len(raw), [None, pa.py_buffer(raw)])
    is_unsigned = kind == "INT" and not layout.annotation[2]
    return None if is_unsigned or (kind == "DECIMAL" and layout.physical == "BYTE_ARRAY") else values


def plain(values: pa.Array) -> bytes:
    """The values in plain encoding."""
    if pa.types.is_binary(values.type):
        return b"".join(len(value).to_bytes(4, "little") + value for value in values.to_pylist())
    width = values.type.bit_width // 8
    return bytes(memoryview(values.buffers()[1])[values.offset * width : (values.offset + len(values)) * width])


def plain_value(values: pa.Array, index: int) -> bytes:
    """A value as bounds hold it: plain, without the length of a text."""
    return plain(values.slice(index, 1))[4 if pa.types.is_binary(values.type) else 0 :]
