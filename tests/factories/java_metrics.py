"""Metrics of a data file as Iceberg Java tells them, and those that Java's own writer has for the same rows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tests.factories import java_rows

if TYPE_CHECKING:
    from tests.factories.java_deletes import JavaTable

COUNTS = ("valueCounts", "nullValueCounts", "nanValueCounts")
BOUNDS = ("lowerBounds", "upperBounds")
Metrics = dict[str, dict[int, Any]]


def of(java: JavaTable, file: Any) -> Metrics:
    """By Java's names and by field id. Sizes of columns depend on the encoder and are left out."""
    found: Metrics = {}
    for name in COUNTS:
        counts = getattr(file, name)()
        text = "" if counts is None else counts.toString()  # {1=3, 2=3}: one call instead of one for each column
        found[name] = {int(key): int(value) for key, value in re.findall(r"(\d+)=(-?\d+)", text)}
    for name in BOUNDS:
        bounds = getattr(file, name)() or {}
        to_bytes = java.iceberg.util.ByteBuffers.toByteArray
        found[name] = {int(key): bytes(to_bytes(bounds[key])) for key in bounds}
    return found


def written(java: JavaTable) -> list[Any]:
    """The live data files with their metrics."""
    java.table.refresh()
    tasks = java.table.newScan().includeColumnStats().planFiles()
    files = [task.file() for task in java.iceberg.relocated.com.google.common.collect.Lists.newArrayList(tasks)]
    tasks.close()
    return files


def check(java: JavaTable) -> Metrics:
    """The table's one file has the metrics that it would have from Java."""
    (ours,) = written(java)
    (theirs,) = java_rows.data_files(java, java_rows.read(java))
    assert ours.recordCount() == theirs.recordCount()
    expected, found = of(java, theirs), of(java, ours)
    assert found == expected
    return found
