"""The filters that hold for every strategy: partition, age, changes, spec and sequence number, from metadata alone. A
request comes in; out come masks over the files of its view that are left alone, each with its reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from iceberg_compaction import errors
from iceberg_compaction.model import durations, moments, partition_filter, table_view
from iceberg_compaction.model.rewrite_plan import LeftOutReason

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

    from iceberg_compaction.model.table_view import TableView
    from iceberg_compaction.plan.plan_request import PlanRequest

    Mask = NDArray[np.bool_]

UNKNOWN = np.iinfo(np.int64).max


def excluded(request: PlanRequest) -> Iterator[tuple[LeftOutReason, Mask]]:
    """The masks of files that the policy's filters rule out. ConfigError: a filter names what the table has not.
    UnsupportedError: the table's metadata cannot answer it."""
    view, policy = request.view, request.policy
    if policy.partition:
        yield LeftOutReason.OTHER_PARTITION, ~_in_partitions(view, policy.partition)
    if policy.only_old_spec and view.pin is not None:
        yield LeftOutReason.CURRENT_SPEC, view.files["spec_id"].to_numpy() == view.pin.spec_id
    if policy.changed_since is not None:
        yield LeftOutReason.UNCHANGED, ~_changed(view, policy.changed_since)
    if policy.min_file_age is not None:
        cutoff = view.now_ms - round(durations.parse_seconds(policy.min_file_age) * 1000)
        yield LeftOutReason.TOO_YOUNG, _dated(view, "min-file-age") > cutoff
    if policy.max_file_sequence_number is not None:
        numbers = view.files["file_sequence_number"].to_numpy()
        yield LeftOutReason.LATER_SEQUENCE, numbers > policy.max_file_sequence_number
    if view.cold is not None:
        yield LeftOutReason.COLD, view.cold.to_numpy(zero_copy_only=False)


def added_ms(view: TableView) -> NDArray[np.int64]:
    """When each file was added, at the latest: the time of the snapshot of its file sequence number or, if that is
    expired, of the next one that the table still has. The largest number where nothing is known."""
    numbers = view.files["file_sequence_number"].to_numpy()
    if view.commits is None or not view.commits.num_rows:
        return np.full(len(numbers), UNKNOWN)
    times = np.append(view.commits["timestamp_ms"].to_numpy(), UNKNOWN)
    latest: NDArray[np.int64] = times[np.searchsorted(view.commits["sequence_number"].to_numpy(), numbers)]
    return latest


def _in_partitions(view: TableView, filters: tuple[str, ...]) -> Mask:
    column = view.files["partition"].unify_dictionaries()
    if not len(column):
        return np.zeros(0, np.bool_)
    codes = np.concatenate([chunk.indices.to_numpy(zero_copy_only=False) for chunk in column.chunks])
    used = np.unique(codes[view.files["content"].to_numpy() == table_view.DATA])
    texts = column.chunk(0).dictionary
    try:
        matches = partition_filter.matching(filters, [texts[int(code)].as_py() for code in used])
    except ValueError as error:
        raise errors.ConfigError(f"The option partition cannot be used for table {view.table}: {error}.") from None
    return np.isin(codes, used[np.array(matches, np.bool_)])


def _changed(view: TableView, since: str) -> Mask:
    """The mask of files in partitions that data or deletes were added to later. Rewrites add the same rows again, so
    they do not count. A delete of an unpartitioned spec may concern every partition."""
    numbers = view.files["file_sequence_number"].to_numpy()
    _dated(view, "changed-since")
    if view.commits is None:
        return np.ones(len(numbers), np.bool_)  # there are no files
    rewrites = view.commits["sequence_number"].to_numpy()[view.commits["rewrites"].to_numpy(zero_copy_only=False)]
    later = (numbers > _sequence_number(view.commits, view, since)) & ~np.isin(numbers, rewrites)
    texts = view.files["partition"].cast("string")
    is_delete = view.files["content"].to_numpy() != table_view.DATA
    if (later & is_delete & pc.equal(texts, "{}").to_numpy(zero_copy_only=False)).any():
        return np.ones(len(numbers), np.bool_)
    codes = texts.combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    specs = view.files["spec_id"].to_numpy().astype(np.int64)
    partitions = specs * (int(codes.max(initial=0)) + 1) + codes
    return np.isin(partitions, partitions[later])


def _sequence_number(commits: pa.Table, view: TableView, since: str) -> int:
    """The sequence number after which a change counts."""
    numbers = commits["sequence_number"].to_numpy()
    if since.isascii() and since.isdigit():
        named = np.flatnonzero(commits["snapshot_id"].to_numpy() == int(since))
        if not len(named):
            raise errors.ConfigError(
                f"Table {view.table} has no snapshot {since}, which changed-since names; it may have expired. Give a "
                "moment such as 2026-01-31 or 7d."
            )
        return int(numbers[named[0]])
    before = numbers[commits["timestamp_ms"].to_numpy() <= moments.parse_ms(since, view.now_ms)]
    # Without a snapshot of that time the files of expired ones may be later, and count.
    return int(before.max()) if len(before) else -1


def _dated(view: TableView, option: str) -> NDArray[np.int64]:
    """As `added_ms`. UnsupportedError: format version 1 has no sequence numbers, so files have no known age."""
    if view.files.num_rows and (view.commits is None or not view.commits.num_rows):
        raise errors.UnsupportedError(
            f"The option {option} cannot be used for table {view.table}: its snapshots have no sequence numbers, as in "
            "format version 1."
        )
    return added_ms(view)
