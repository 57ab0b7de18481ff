"""Sketches of distinct values: hashes as MurmurHash3 defines them, a form that Apache DataSketches reads, and Puffin
files that come back as they were written."""

from __future__ import annotations

import random
import struct

import datasketches
import numpy as np
import pyarrow as pa
import pytest
from tests.factories import murmur

from iceberg_compaction import errors
from iceberg_compaction.formats import murmur3, puffin, theta_hashes


def hashed(value: bytes) -> int:
    return murmur.first_word(value, theta_hashes.SEED)


def test_values_of_any_length_are_hashed_as_murmur3_defines() -> None:
    chance = random.Random(3)
    values = [chance.randbytes(length) for length in [*range(1, 70), 255, 256, 1000] for _ in range(2)]
    array = pa.array([b"left out", *values], pa.binary()).slice(1)
    assert murmur3.first_words(array, theta_hashes.SEED).tolist() == [hashed(value) for value in values]
    texts = ["a", "ü" * 20]  # the package hashes them by itself
    for text in texts:
        other = datasketches.update_theta_sketch()
        other.update(text)
        assert list(other.compact()) == [hashed(text.encode()) >> 1]
    assert murmur3.first_words(pa.array([], pa.binary()), theta_hashes.SEED).tolist() == []


@pytest.mark.parametrize("length", [1, 4, 8])
def test_numbers_are_hashed_as_their_bytes(length: int) -> None:
    numbers = np.array([0, 1, 7, 2 ** (8 * length) - 1], np.uint64)
    expected = [hashed(int(number).to_bytes(length, "little")) for number in numbers]
    assert murmur3.first_words_of_numbers(numbers, length, theta_hashes.SEED).tolist() == expected


def sketch_of(*parts: range) -> bytes:
    kept = theta_hashes.ThetaHashes()
    for part in parts:
        kept.add(murmur3.first_words_of_numbers(np.array(part, np.uint64), 8, theta_hashes.SEED))
    return kept.compact()


@pytest.mark.parametrize("values", [0, 1, 2, 4096, 4097, 200_000])
def test_the_library_reads_what_it_would_have_written(values: int) -> None:
    other = datasketches.update_theta_sketch()
    for number in range(values):
        other.update(number)
    ours = datasketches.compact_theta_sketch.deserialize(sketch_of(range(values // 2), range(values // 3, values)))
    assert ours.is_empty() == (values == 0)
    if values <= theta_hashes.NOMINAL:
        assert list(ours) == list(other.compact())
        assert ours.get_estimate() == values
        assert values < 2 or ours.serialize() == other.compact().serialize()
    else:
        assert ours.num_retained == theta_hashes.NOMINAL
        assert ours.get_lower_bound(3) <= values <= ours.get_upper_bound(3)
        smallest = [each for each in other.compact() if each < ours.theta64]
        assert [each for each in ours if each < other.theta64] == smallest


def test_a_sketch_does_not_depend_on_batches() -> None:
    numbers = list(range(30_000))
    random.Random(1).shuffle(numbers)
    kept = theta_hashes.ThetaHashes()
    for start in range(0, len(numbers), 700):
        some = np.array(numbers[start : start + 900], np.uint64)
        kept.add(murmur3.first_words_of_numbers(some, 8, theta_hashes.SEED))
    found = datasketches.compact_theta_sketch.deserialize(kept.compact())
    assert found.get_lower_bound(3) <= 30_000 <= found.get_upper_bound(3)


BLOBS = [
    puffin.Blob(kind="a", fields=(1,), snapshot_id=7, sequence_number=2, data=b"first", properties={"ndv": "5"}),
    puffin.Blob(kind="b", fields=(2, 3), snapshot_id=7, sequence_number=2, data=b"", codec="zstd"),
]


def test_puffin_files_come_back() -> None:
    content, footer = puffin.write(BLOBS, "test")
    assert puffin.read(content, where="it") == BLOBS
    assert content[-footer:][:4] == b"PFA1"
    assert content[:4] == b"PFA1"


def test_damaged_puffin_files_are_refused() -> None:
    content, _ = puffin.write(BLOBS, "test")
    wrong = [b"", b"PFA1", content[:-1], content[1:], content[:-12] + struct.pack("<iI", -5, 0) + b"PFA1"]
    wrong.append(content.replace(b'"length": 5', b'"length": 5000'))
    for each in wrong:
        with pytest.raises(errors.MetadataError, match="it is damaged"):
            puffin.read(each, where="it")
    with pytest.raises(errors.UnsupportedError, match="compressed footer"):
        puffin.read(content[:-8] + struct.pack("<I", 1) + b"PFA1", where="it")
