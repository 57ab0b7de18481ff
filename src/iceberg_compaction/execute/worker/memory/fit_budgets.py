"""Chooses budgets that a task fits into: as they are, or smaller buffers, batches and row groups. A task that does not
fit even so is refused before it reads a row."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from iceberg_compaction import errors
from iceberg_compaction.execute.worker.memory import peak_forecast
from iceberg_compaction.model import byte_size, plurals

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iceberg_compaction.execute.worker import budgets

_SHARES = (1.0, 0.75, 0.5, 0.25, 0.125, 0.0625)
_SCALED = (
    "batch_bytes",
    "whole_file_bytes",
    "buffered_row_group_bytes",
    "open_bytes",
    "stream_bytes",
    "key_bytes",
    "open_partition_bytes",
    "chunk_bytes",
    "run_bytes",
    "merge_bytes",
    "buffer_bytes",
)
_LEAST = 64 * 1024


def scaled(limits: budgets.Budgets, share: float) -> budgets.Budgets:
    """The same budgets with a share of the memory."""
    smaller: dict[str, Any] = {name: max(_LEAST, int(getattr(limits, name) * share)) for name in _SCALED}
    ahead = max(1, int(limits.files_ahead * share))
    return replace(limits, files_ahead=ahead, open_partitions=max(2, int(limits.open_partitions * share)), **smaller)


def fit(shape: peak_forecast.TaskShape, limits: budgets.Budgets, most: int | None) -> budgets.Budgets:
    """The budgets of a task: the largest that stay below the bytes of a task and below `most`, else the
    smallest if these stay below `most`. Raises UnsupportedError for a task that does not. Buffers do not depend on the
    cores, so that the files do not; a task that is short of memory leaves cores idle first."""
    for share in _SHARES:
        chosen = limits if share == 1.0 else scaled(limits, share)
        if peak_forecast.forecast(shape, replace(chosen, cores=1)).total > limits.task_bytes:
            continue
        for cores in _fewer(limits.cores):
            chosen = replace(chosen, cores=cores)
            forecast = peak_forecast.forecast(shape, chosen)
            if most is None or forecast.total <= most:
                return chosen
    chosen = replace(scaled(limits, _SHARES[-1]), cores=1)
    forecast = peak_forecast.forecast(shape, chosen)
    if most is not None and forecast.total > most:
        files = plurals.count(len(shape.footers), "file")
        raise errors.UnsupportedError(
            f"A task of {files} takes {byte_size.format_size(forecast.total)} of memory, "
            f"{_reason(forecast)}, but tasks have {byte_size.format_size(most)} in this process; give it more memory, "
            "and set ICEBERG_COMPACTION_MEMORY if its limit is not the container's."
        )
    return chosen


def _fewer(cores: int) -> Iterator[int]:
    while cores > 1:
        yield cores
        cores //= 2
    yield 1


def _reason(forecast: peak_forecast.PeakForecast) -> str:
    parts = {
        "for the footers of its files": forecast.footers,
        "for its deletes": forecast.deletes,
        "for its open pages and its widest rows": forecast.reading,
        "for its rows": forecast.holding + forecast.encoding,
    }
    largest = max(parts, key=lambda name: parts[name])
    return f"most of it {largest}, even with the smallest buffers"
