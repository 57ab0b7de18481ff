"""When the partitions of a table were rewritten last, as its metadata or the run store say. Made beside a view of the
table; triggers and the partition score read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class RewritePast:
    """The last rewrites, by anybody, seen from one moment."""

    now_ms: int
    partition_ms: pa.Int64Array | None = None  # of each row of the view: its partition's last rewrite; null: none kept
    table_ms: int | None = None  # the last rewrite where partitions are not told apart; None: none
    commits: int | None = None  # to the table since its last rewrite; None: not looked up


# As if nothing had ever been rewritten: every trigger of time or commits asks for every partition.
LONG_AGO = RewritePast(now_ms=0, commits=2**53)
