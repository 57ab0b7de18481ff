"""The writers of a table: commits grouped by engine, application and operation, with their cadence and the files they
added. Snapshot history and live files come in. The sequence number of a live file names the commit that added it, so
small files are counted exactly by writer, as long as that commit's snapshot is kept."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from iceberg_compaction.model.snapshot_history import UNKNOWN
from iceberg_compaction.model.table_health import Writer

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from iceberg_compaction.inspect.file_census import Census
    from iceberg_compaction.model.policies import Sizes

    Ints = NDArray[np.int64]

FEW_COMMITS = 3  # an application with fewer is short-lived, and joined with others of its engine
_LARGEST = 1 << 22  # sequence numbers beyond this are counted by sorting
_KINDS = {"flink": "job", "spark": "application"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterCommits:
    """Snapshots as arrays, and the writer of each as a number."""

    columns: dict[str, Ints]  # null counts as 0
    has_partitions: NDArray[np.bool_]  # the snapshot states its changed partitions
    keys: list[tuple[str, str | None, str]]  # engine, app, operation of each writer
    apps: list[int]
    writer: Ints

    def name(self, number: int) -> str:
        """A writer in words."""
        engine, app, operation = self.keys[number]
        shown = "unknown engine" if engine == UNKNOWN else engine
        if app is not None:
            shown = f"{shown} {_KINDS.get(engine, 'app')} {app}"
        elif self.apps[number] > 1:
            shown = f"{shown}, {self.apps[number]} {_KINDS.get(engine, 'app')}s"
        return f"{shown} ({operation})"


def group(snapshots: pa.Table) -> WriterCommits:
    """The commits with their writers, numbered in order of appearance."""
    writer_keys = list(zip(*(snapshots[name].to_pylist() for name in ("engine", "app", "operation")), strict=True))
    commits = Counter(writer_keys)
    numbers: dict[tuple[str, str | None, str], int] = {}
    members: dict[int, set[str | None]] = {}
    writer = np.zeros(len(writer_keys), np.int64)
    for row, (engine, app, operation) in enumerate(writer_keys):
        kept = app if commits[(engine, app, operation)] >= FEW_COMMITS else None
        number = numbers.setdefault((engine, kept, operation), len(numbers))
        members.setdefault(number, set()).add(app)
        writer[row] = number
    names = [field.name for field in snapshots.schema if field.type == "int64"]
    return WriterCommits(
        columns={name: snapshots[name].fill_null(0).to_numpy() for name in names},
        has_partitions=snapshots["changed_partitions"].is_valid().to_numpy(),
        keys=list(numbers),
        apps=[len(members[number]) for number in range(len(numbers))],
        writer=writer,
    )


def writers(commits: WriterCommits, census: Census, sizes: Sizes) -> tuple[Writer, ...]:
    """Every writer that added files, most live small files first."""
    if not commits.columns["added_files"].any():
        return ()
    live, small = _live(commits, census, sizes)
    added = np.bincount(commits.writer, weights=commits.columns["added_files"], minlength=len(commits.keys))
    every_writer = [_writer(commits, number, sizes, live, small) for number in np.flatnonzero(added).tolist()]
    return tuple(
        sorted(every_writer, key=lambda writer: (-(writer.live_small_files or 0), -writer.added_files, writer.name))
    )


def _writer(commits: WriterCommits, number: int, sizes: Sizes, live: Ints | None, small: Ints | None) -> Writer:
    mine = commits.writer == number
    of = {name: column[mine] for name, column in commits.columns.items()}
    engine, app, operation = commits.keys[number]
    files, every = of["added_files"], of["added_files"] + of["added_delete_files"]
    in_small = files[(of["added_bytes"] < sizes.min * every) & (every > 0)]
    at, count, touched = np.sort(of["timestamp_ms"]), len(files), commits.has_partitions[mine]
    return Writer(
        name=commits.name(number),
        engine=engine,
        app=app,
        apps=commits.apps[number],
        operation=operation,
        commits=count,
        first_ms=int(at[0]),
        last_ms=int(at[-1]),
        median_interval_seconds=round(float(np.median(np.diff(at))) / 1000, 3) if count > 1 else None,
        files_per_commit=round(float(files.mean()), 2),
        partitions_per_commit=round(float(of["changed_partitions"][touched].mean()), 2) if touched.any() else None,
        added_files=int(files.sum()),
        added_records=int(of["added_records"].sum()),
        added_bytes=int(of["added_bytes"].sum()),
        mean_file_bytes=int(of["added_bytes"].sum()) // max(1, int(every.sum())),
        small_share=round(int(in_small.sum()) / max(1, int(files.sum())), 4),
        live_files=None if live is None else int(live[mine].sum()),
        live_small_files=None if small is None else int(small[mine].sum()),
    )


def _live(commits: WriterCommits, census: Census, sizes: Sizes) -> tuple[Ints, Ints] | tuple[None, None]:
    """The numbers of live data files, and of small ones, that each snapshot added; unknown in format version 1, where
    all files have sequence number 0."""
    commit_numbers = commits.columns["sequence_number"]
    if not len(census.sizes) or not commit_numbers.any():
        return None, None
    numbers, small = census.data("file_sequence_number"), census.sizes < sizes.min
    last = int(numbers.max())
    if last > _LARGEST:
        return _count(numbers, commit_numbers), _count(numbers[small], commit_numbers)
    # Even cells count other files, odd ones small files: one pass for both.
    cells = numbers * 2
    cells += small
    counts = np.bincount(cells, minlength=2 * (last + 1)).reshape(-1, 2)
    by_commit = np.where((commit_numbers <= last)[:, None], counts[np.minimum(commit_numbers, last)], 0)
    return by_commit.sum(axis=1), by_commit[:, 1]


def _count(numbers: Ints, values: Ints) -> Ints:
    """How often each value occurs among the numbers, however far apart they are."""
    ordered = np.sort(numbers)
    return np.searchsorted(ordered, values, side="right") - np.searchsorted(ordered, values, side="left")
