"""Prices, for an estimate of what runs cost. Seconds of computing and requests to storage come in, dollars go out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from iceberg_compaction import errors
from iceberg_compaction.model.value import Value

if TYPE_CHECKING:
    from iceberg_compaction.model.storage_requests import StorageRequests


class Prices(Value):
    """In dollars. The defaults are list prices of S3 Standard, and about those of a core in a cloud."""

    task_hour: Annotated[float, Field(ge=0)] = 0.05  # of computing, in one task
    thousand_reads: Annotated[float, Field(ge=0)] = 0.0004  # GET and HEAD
    thousand_writes: Annotated[float, Field(ge=0)] = 0.005  # PUT, parts, COPY and LIST; DELETE is free

    def compute(self, seconds: float) -> float:
        return seconds / 3600 * self.task_hour

    def requests(self, requests: StorageRequests) -> float:
        reads = requests.gets + requests.heads
        writes = requests.puts + requests.parts + requests.lists + requests.copies
        return (reads * self.thousand_reads + writes * self.thousand_writes) / 1000


def parse_prices(text: str | None, *, variable: str) -> Prices:
    """Prices such as `task-hour=0.04,thousand-reads=0.0004`; those that are not named have their defaults."""
    names = {name.replace("_", "-"): name for name in Prices.model_fields}
    given: dict[str, float] = {}
    for pair in filter(None, (text or "").replace(" ", "").split(",")):
        name, _, amount = pair.partition("=")
        try:
            given[names[name]] = float(amount)
        except (KeyError, ValueError):
            raise errors.ConfigError(
                f"{variable}: {pair!r} is not a price; write NAME=DOLLARS with one of {', '.join(names)}."
            ) from None
    try:
        return Prices(**given)
    except ValueError:
        raise errors.ConfigError(f"{variable}: a price cannot be negative.") from None
