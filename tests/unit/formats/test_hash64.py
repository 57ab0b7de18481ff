"""Hashes in order."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.factories.examples import examples

from iceberg_compaction.formats import hash64


@examples(100)
@given(st.lists(st.integers(0, 8) | st.integers(0, 2**64 - 1), max_size=30))
def test_ordered_digests_are_those_of_numpy(values: list[int]) -> None:
    digests = np.array(values, dtype=np.uint64)
    assert hash64.ordered(digests).tolist() == np.unique(digests).tolist()
