"""Finds delete files that apply to nothing (R17, R18), from metadata alone. Delete files and facts about the data files
beside them come in, a mask over the delete files goes out. A delete file counts as useful in doubt."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction.model import table_view

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iceberg_compaction.metadata.deletes.delete_index import DeleteIndex

    Mask = NDArray[np.bool_]

ENDLESS = 2**63 - 1  # the number of the oldest file where there is no file


class Kinds:
    """Masks of delete files by the rule that decides about their use; deletion vectors are in none of them."""

    def __init__(self, deletes: pa.Table, global_specs: frozenset[int]) -> None:
        self.sequence_numbers = deletes["sequence_number"].to_numpy()
        self.equality: Mask = deletes["content"].to_numpy() == table_view.EQUALITY_DELETES
        self.is_global: Mask = self.equality & np.isin(deletes["spec_id"].to_numpy(), list(global_specs))
        vector = pc.equal(deletes["file_format"].cast(pa.string()), "PUFFIN").to_numpy()
        named = deletes["referenced_data_file"].is_valid().to_numpy()
        self.named: Mask = ~self.equality & ~vector & named
        self.shared: Mask = ~self.equality & ~vector & ~named
        self.local: Mask = self.shared | (self.equality & ~self.is_global)  # apply to data files of their partition
        # Some writers mean a global delete, but state a partitioned spec and then no value at all (16668). It is one
        # of a partition to every reader; it goes only when it could not apply as a global one either.
        self.doubtful: Mask = self.equality & ~self.is_global & _all_null(deletes)

    def useless(self, *, unmet: Mask, oldest: int, dead: Mask) -> Mask:
        """Which apply to nothing. `unmet`: local ones without a data file in their partition that is old enough;
        `oldest`: the lowest sequence number of all data files; `dead`: those that name a data file which is not
        there."""
        newer_than_none = self.sequence_numbers <= oldest
        free = (self.local & unmet) | (self.is_global & newer_than_none)
        free &= ~self.doubtful | newer_than_none
        useless: Mask = free | (self.named & dead)
        return useless


def of_snapshot(files: pa.Table, index: DeleteIndex, global_specs: frozenset[int]) -> int:
    """The number of delete files of a snapshot that apply to nothing and may be dropped."""
    return int(mask_of_snapshot(files, index, global_specs).sum())


def mask_of_snapshot(files: pa.Table, index: DeleteIndex, global_specs: frozenset[int]) -> Mask:
    """Which delete files of a snapshot, of which these are all live files, apply to nothing and may be dropped; a mask
    over the delete files alone."""
    data = files["content"].to_numpy() == table_view.DATA
    deletes = files.filter(pa.array(~data))
    numbers = files["sequence_number"].to_numpy()[data]
    unmet = index.live_targets()["in_scope"].to_numpy() == 0
    paths = files["file_path"].filter(pa.array(data))
    dead = ~pc.is_in(deletes["referenced_data_file"], value_set=paths.combine_chunks(), skip_nulls=True).to_numpy()
    oldest = int(numbers.min()) if len(numbers) else ENDLESS
    return Kinds(deletes, global_specs).useless(unmet=unmet, oldest=oldest, dead=dead)


def _all_null(files: pa.Table) -> Mask:
    texts = files["partition"].cast(pa.string()).to_pylist()
    null = {text: all(value is None for value in json.loads(text).values()) for text in set(texts)}
    return np.fromiter((null[text] for text in texts), np.bool_, len(texts))
