"""Metrics as a file for the textfile collector of node_exporter. Counters go on from those of the file, because the
collector sees one file, however many runs write it. Runs of one machine may write it at the same time."""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

from iceberg_compaction.observe.metrics import metric_values, prometheus_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from iceberg_compaction.observe.metrics.metric_values import Snapshot


class Textfile:
    """The file, as this process writes it again and again."""

    def __init__(self, path: Path, tables: int) -> None:
        self._path = path
        self._tables = tables  # that have series of their own, of all commands together
        self._entered: Snapshot = {}  # of ours, in the file

    def write(self, now: Snapshot) -> None:
        """Add what is new. Raises OSError if it cannot be written, ValueError if the file holds something else."""
        with _locked(self._path.parent):
            earlier = self._read()
            tables = metric_values.named_tables(earlier, now, limit=self._tables)
            ours, entered = metric_values.fold(now, tables), metric_values.fold(self._entered, tables)
            merged = metric_values.merge(earlier, ours, entered)
            draft = self._path.parent / f".{self._path.name}.{os.getpid()}"  # the collector looks at *.prom alone
            try:
                draft.write_bytes(prometheus_text.text(merged))
                draft.replace(self._path)
            finally:
                draft.unlink(missing_ok=True)
        self._entered = now

    def _read(self) -> Snapshot:
        try:
            content = self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return {}
        earlier = prometheus_text.parse(content)
        if content.strip() and not earlier:
            raise ValueError("it holds something else than metrics of this program")
        return earlier


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One process at a time; the folder itself is locked, so that no further file is left in it."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
