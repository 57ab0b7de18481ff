"""The request for a commit of delete files: groups to replace, and files that apply to nothing. Groups are independent:
one that is in conflict is left out, and the rest is committed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from iceberg_compaction.model.rewrite_task import StagedFile
    from iceberg_compaction.model.table_view import Pin


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroup:
    """Delete files that leave together, and the position deletes that come for them, or none if they took no row."""

    id: int
    replaced: pa.Array  # paths
    targets: tuple[int, ...]  # of each of these: the data files within its reach
    data: pa.Array  # paths of all these data files
    added: tuple[StagedFile, ...]  # with data sequence numbers of their own

    def is_held_by(self, live: pa.Array, reach: Mapping[str, int]) -> str | None:
        """Why the group cannot be committed any more, given the paths of live data files, and for each live delete file
        the data files within its reach; None: it can."""
        paths = self.replaced.to_pylist()
        if gone := [path for path in paths if path not in reach]:
            return f"The delete file {gone[0]} has left the table since the plan was made; run again."
        alive = pc.is_in(self.data, value_set=live)
        if not pc.all(alive, min_count=0).as_py():
            first = self.data.filter(pc.invert(alive))[0].as_py()
            return (
                f"The data file {first}, whose rows are deleted, has left the table since the plan was made; run again."
            )
        # All that were within reach are there, so that another number means others.
        if more := [path for path, count in zip(paths, self.targets, strict=True) if reach[path] != count]:
            return f"Data files that {more[0]} applies to were rewritten since the plan was made; run again."
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletesRequest:
    """What leaves, what comes, and the state of the table that this was decided on."""

    pin: Pin
    groups: tuple[DeleteGroup, ...]
    live: pa.Table | None = None  # of the planned snapshot, model.table_view.FILES; None: they are read again
    dangling: frozenset[str] = frozenset()  # paths of delete files that leave if they still apply to nothing
    snapshot_properties: Mapping[str, str] = field(default_factory=dict)
