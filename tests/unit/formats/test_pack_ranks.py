"""Ranks whose bits are put together here: what pyarrow decodes of them, and what their index says."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.factories.examples import examples

from iceberg_compaction.formats.parquet import page_headers
from iceberg_compaction.formats.parquet.join import forged_file, page_bytes
from iceberg_compaction.formats.parquet.join.ranks import encode_ranks, pack_ranks

ENTRIES = st.sampled_from([1, 2, 3, 4, 5, 9, 17, 50, 100, 200, 256, 257, 500, 1000, 2526, 5000, 10_000, 20_000, 65_536])


def arguments(codec: str = "zstd", rows: int = 104, version: str = "1.0") -> dict[str, object]:
    return {
        "compression": codec,
        "compression_level": None,
        "max_rows_per_page": rows,
        "data_page_size": 2**20,
        "data_page_version": version,
        "write_page_index": True,
    }


def ranks_of(seed: int, entries: int, rows: int, nulls: float) -> pa.ChunkedArray:
    random = np.random.default_rng(seed)
    values = pa.array(random.integers(0, entries, rows, dtype=np.int32), mask=random.random(rows) < nulls)
    return pa.chunked_array([values.slice(0, rows // 3), values.slice(rows // 3)])


@examples(150)
@given(
    st.integers(0, 2**31),
    ENTRIES.filter(lambda entries: entries > 2),
    st.integers(1, 700),
    st.sampled_from([0.0, 0.0, 0.3, 0.97, 1.0]),
    st.sampled_from(["zstd", "snappy", "gzip"]),
)
def test_packed_ranks_are_decoded_and_bounded_as_they_were(
    seed: int, entries: int, rows: int, nulls: float, codec: str
) -> None:
    ranks = ranks_of(seed, entries, rows, nulls)
    repetitions = (1,) if ranks.null_count or seed % 2 else (0,)
    packed = pack_ranks.pack(ranks, entries, repetitions, arguments(codec))
    if packed is None:
        assert nulls  # hardly anything else: a run
        return
    assert packed.locations is not None
    assert packed.index is not None
    raw = np.arange(entries, dtype="<i4").tobytes()
    dictionary = page_bytes.compose(
        page_headers.DICTIONARY, entries, page_bytes.compressed(raw, packed.codec), len(raw)
    )
    chunk = forged_file.ForgedChunk(rows=rows, values=rows, dictionary=dictionary, pages=packed.pieces)
    decoded = forged_file.read("INT32", 0, repetitions, packed.codec, [chunk])
    assert decoded.column(0).to_pylist() == ranks.to_pylist()
    firsts = [location.first_row for location in packed.locations]
    pages = [ranks.slice(at, end - at).to_pylist() for at, end in zip(firsts, [*firsts[1:], rows], strict=True)]
    values = [[rank for rank in page if rank is not None] for page in pages]
    lists = {number: packed.index[number][1][1] for number in (1, 2, 3, 5)}
    assert lists[1] == [not page for page in values]
    for number, bound in ((2, min), (3, max)):
        assert lists[number] == [bound(page).to_bytes(4, "little") if page else b"" for page in values]
    assert lists[5] == [page.count(None) for page in pages]
    offset = 0
    for location, piece in zip(packed.locations, packed.pieces, strict=True):
        assert (location.offset, location.size) == (offset, len(piece))
        offset += len(piece)


def test_what_is_not_for_here() -> None:
    ranks = ranks_of(1, 50, 500, 0.0)
    assert pack_ranks.pack(ranks, 50, (0,), arguments()) is not None
    assert pack_ranks.pack(ranks, 2**16 + 1, (0,), arguments()) is None
    assert pack_ranks.pack(ranks, 0, (0,), arguments()) is None
    assert pack_ranks.pack(ranks, 50, (1, 2, 1), arguments()) is None
    assert pack_ranks.pack(ranks, 50, (0,), arguments(version="2.0")) is None
    assert pack_ranks.pack(ranks, 50, (0,), arguments("none")) is None
    runs = pa.chunked_array([pa.array(np.repeat(np.arange(50, dtype=np.int32), 10))])
    assert pack_ranks.pack(runs, 50, (0,), arguments()) is None


def test_pages_that_do_not_hold_the_ranks_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = ranks_of(1, 50, 500, 0.0)
    pack_bits = pack_ranks._pack_bits
    monkeypatch.setattr(pack_ranks, "_pack_bits", lambda values, width: pack_bits(values[::-1].copy(), width))
    with pytest.raises(ValueError, match="have changed"):
        pack_ranks.pack(ranks, 50, (0,), arguments())


def test_pyarrow_encodes_what_is_not_packed() -> None:
    runs = pa.table({"v": pa.array(np.repeat(np.arange(50, dtype=np.int32), 10))})
    encoded = encode_ranks.encode(runs, (1,), arguments())
    assert encoded.order is not None
    assert encoded.order.tolist() == list(range(50))
    assert encoded.values == 500
