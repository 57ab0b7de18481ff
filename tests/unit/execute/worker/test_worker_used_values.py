"""Dictionaries keep no value that no row has, and rows stay as they are."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from tests.factories.examples import examples

from iceberg_compaction.execute.worker.output import used_values

TEXTS = st.one_of(st.none(), st.sampled_from(["", "a", "b", "long " * 9, "ü"]))


@given(st.lists(st.lists(st.tuples(TEXTS, TEXTS, st.booleans()), max_size=12), min_size=1, max_size=4))
@examples(100)
def test_rows_stay_and_values_that_none_has_go(batches: list[list[Any]]) -> None:
    kept = []
    for rows in batches:
        columns = [pa.array([row[at] for row in rows], pa.string()).dictionary_encode() for at in (0, 1)]
        batch = pa.RecordBatch.from_arrays([*columns, pa.array(range(len(rows)), pa.int64())], names=["a", "b", "id"])
        kept.append(batch.filter(pa.array([row[2] for row in rows], pa.bool_())))
    before = pa.Table.from_batches(kept)
    after = used_values.unified(before)
    assert after.schema == before.schema
    assert after.to_pylist() == before.to_pylist()
    for name in ("a", "b"):
        values = {value for value in before[name].to_pylist() if value is not None}
        for chunk in after[name].chunks:
            assert sorted(chunk.dictionary.to_pylist()) == sorted(values)
