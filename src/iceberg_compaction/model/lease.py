"""Leases of a table. A lease names what one run alone may work on: partitions, or another resource of the table. All
leases of a catalog entry are on one board, so that one change of one entry of the store gives or takes a lease."""

from __future__ import annotations

import base64
import hashlib
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from iceberg_compaction.model.run_record import Process
from iceberg_compaction.model.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iceberg_compaction.model.partition_key import PartitionKey

# Resources of a branch beside its partitions, which have names of 8 characters.
EVERYTHING = "*"
MANIFESTS = "manifests"
DELETES = "useless-deletes"
PROPERTIES = "properties"
SNAPSHOTS = "snapshots"  # which of them the table keeps
STATISTICS = "statistics"

MOST_COMMITTED = 10  # snapshots that a board names
MOST_PARTITIONS = 10_000  # of a lease; a run on more holds everything, lest the board outgrow an entry of the store
_BYTES = 6  # of the hash of a partition; two partitions of one hash only keep runs apart that could work at once


class Lease(Value):
    """What a run holds."""

    run_id: str
    token: int  # larger than those of all leases that the catalog entry had before
    branch: str
    holds: tuple[str, ...]
    process: Process
    since_ms: int

    def excludes(self, other: Lease) -> bool:
        """Whether both leases name the same resource."""
        if self.branch != other.branch:
            return False
        return EVERYTHING in self.holds + other.holds or not set(self.holds).isdisjoint(other.holds)

    @property
    def words(self) -> str:
        """The holder in a sentence."""
        since = datetime.fromtimestamp(self.since_ms / 1000, timezone.utc)
        return f"run {self.run_id} on {self.process.machine}, since {since:%Y-%m-%d %H:%M:%S} UTC"


class LeaseBoard(Value):
    """All leases of a catalog entry. A board without holders stays: its token must not be given twice."""

    token: int = 0  # the last one
    holders: tuple[Lease, ...] = ()
    committed: tuple[int, ...] = ()  # the last snapshots of the last holders, the newest last


def of_partitions(partition_keys: Iterable[PartitionKey]) -> tuple[str, ...]:
    """The resources of a run that rewrites these partitions."""
    names = tuple(sorted({partition_name(*each) for each in partition_keys}))
    return names if len(names) <= MOST_PARTITIONS else (EVERYTHING,)


def partition_name(spec_id: int, partition: str) -> str:
    """A partition as a resource."""
    digest = hashlib.blake2b(f"{spec_id}/{partition}".encode(), digest_size=_BYTES).digest()
    return base64.urlsafe_b64encode(digest).decode()
