"""Whether row groups are better copied as bytes or encoded anew. A planning request and rates come in; out go the size
from which on a row group is worth copying, and the expectation for each group of a plan. Pure.

Encoding a row group of g bytes takes g / encoding rate, copying it g / copying rate. But encoding makes row groups of
the table's own size T, and each row group beyond those costs every later scan something. So copying pays where
  g x (1 / encoding - 1 / copying) > SCANS x SCAN_SECONDS x (1 - g / T);  docs/adr/0011 has the measurements.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction.model import byte_size, writer_options
from iceberg_compaction.model.copy_plan import MOST_DELETED, Copying, Rates, Way
from iceberg_compaction.model.output_layout import RowOrder
from iceberg_compaction.model.policies import NO_LIMIT, CopyMode
from iceberg_compaction.plan import slice_sums

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from iceberg_compaction.model.table_view import TableView
    from iceberg_compaction.plan.plan_request import PlanRequest

    Ints = NDArray[np.int64]

SCAN_SECONDS = 0.004  # cost of one more row group for one scan
SCANS = 50  # expected scans of a file
# Bytes of a column in a row group from which on its pages are probably large enough to be joined as they are. Manifests
# know neither pages nor encodings, so workers decide by the footers.
JOINED_CHUNK = 10 * 2**10
DEFAULT_ROW_GROUP = 128 * 2**20  # Iceberg's own default of write.parquet.row-group-size-bytes
_WAYS = tuple(Way)
JOINING = [way.value for way in _WAYS if way.joins]
_DIGITS = len(str(byte_size.LARGEST))
_ROW_GROUP, _CODEC, _DEFAULT_CODEC = "write.parquet.row-group-size-bytes", writer_options.CODEC, "zstd"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupInputs:
    """The files of all groups, group after group, as parallel columns."""

    first: Ints  # of each group
    bytes: Ints
    row_groups: Ints  # 0: the manifest has no number
    deleted_rows: Ints | None  # None: the table has no deletes
    rows: Ints  # deleted ones among them
    columns: int = 0  # of each file; 0: unknown


def weigh(request: PlanRequest, rates: Rates) -> Copying:
    """The size from which on row groups of the table are copied."""
    policy, properties = request.policy, request.view.properties
    row_group = row_group_size(properties)
    even, least = break_even(rates, row_group), policy.min_row_group_size_bytes
    match policy.copies:
        case CopyMode.AUTO:
            least = max(least, even)
        case CopyMode.ALWAYS:
            least = 1
        case CopyMode.NEVER:
            pass
    return Copying(
        mode=policy.copies,
        break_even=even,
        least=least,
        encoded_row_group=row_group,
        codec=properties.get(_CODEC),
        rates=rates,
    )


def encoded_row_group(request: PlanRequest) -> int:
    """The size of the row groups that encoding makes."""
    return row_group_size(request.view.properties)


def break_even(rates: Rates, row_group: int) -> int:
    """The size of row groups at which copying and encoding cost the same; at most the size that encoding makes."""
    saved = 1 / rates.encoding.bytes_per_second - 1 / rates.copying.bytes_per_second  # seconds for each byte
    later = SCANS * SCAN_SECONDS  # seconds for each row group that encoding would spare
    even = int(np.ceil(later / (max(saved, 0.0) + later / row_group)))
    return min(even, row_group)  # where nothing is saved they are equal, and rounding may add a byte


def expect(request: PlanRequest, weighed: Copying, rows: Ints, first: Ints) -> dict[str, Any]:
    """The columns of PLAN_GROUPS about copying. Groups are slices of `rows` of the view's files; each begins at its
    `first`."""
    view = request.view
    current = None if view.pin is None or request.layout.keep_spec else view.pin.spec_id
    moves = np.zeros(len(rows), np.bool_) if current is None else view.files["spec_id"].to_numpy()[rows] != current
    return judge(_inputs(view, rows, first), weighed, _forbidden(request, slice_sums.sums(moves, first) > 0))


def _inputs(view: TableView, rows: Ints, first: Ints) -> GroupInputs:
    files, deleted = view.files, view.deleted_rows
    return GroupInputs(
        first=first,
        bytes=files["file_size_in_bytes"].to_numpy()[rows],
        row_groups=pc.fill_null(files["row_groups"], 0).to_numpy()[rows],
        deleted_rows=None if deleted is None else deleted.to_numpy()[rows],
        rows=files["record_count"].to_numpy()[rows],
        columns=view.columns,
    )


def judge(files: GroupInputs, weighed: Copying, forbidden: dict[Way, NDArray[np.bool_]]) -> dict[str, Any]:
    """As `expect`. `forbidden`: masks of groups in which nothing can be copied, by cause; the first cause counts."""
    first, counted = files.first, files.row_groups > 0
    row_groups = files.row_groups
    if not counted.all():
        row_groups = np.where(counted, row_groups, np.maximum(1, -(-files.bytes // weighed.encoded_row_group)))
    small = files.bytes / row_groups < weighed.least
    large = np.where(small, 0, files.bytes)
    by_size = copied = slice_sums.sums(large, first)
    total = joinable = slice_sums.sums(files.bytes, first)
    if files.deleted_rows is not None:
        # If deleted rows are spread at random, this share of a file's row groups has none of them.
        untouched = (1 - 1 / row_groups) ** files.deleted_rows
        copied = slice_sums.sums((large * untouched).astype(np.int64), first)
        thinned = np.where(files.deleted_rows <= MOST_DELETED * files.rows, files.bytes, 0)
        joinable = slice_sums.sums(thinned, first)
    ways = _ways(weighed, total, by_size, copied)
    if weighed.mode is CopyMode.AUTO and files.columns:
        joined = (total >= JOINED_CHUNK * files.columns * slice_sums.sums(row_groups, first)) & (2 * joinable >= total)
        for way, instead in ((Way.SMALL, Way.JOINED), (Way.DELETES, Way.JOINED_DELETES)):
            ways[(ways == _WAYS.index(way)) & joined] = _WAYS.index(instead)
    for way, groups in reversed(forbidden.items()):
        ways[groups], copied[groups] = _WAYS.index(way), 0
    return {
        "row_groups": slice_sums.sums(row_groups, first),
        "untold_files": slice_sums.sums(~counted, first),
        "small_row_group_files": slice_sums.sums(small, first),
        "copied_bytes": copied,
        "copying": pa.array([way.value for way in _WAYS]).take(pa.array(ways)),
    }


def _forbidden(request: PlanRequest, moves: NDArray[np.bool_]) -> dict[Way, NDArray[np.bool_]]:
    """The masks of groups that cannot be copied at all. `moves`: the groups with rows that leave their spec."""
    every = np.ones(len(moves), np.bool_)
    row_order = request.layout.row_order
    is_sorted = row_order is RowOrder.GIVEN or (request.view.sorts_rows and row_order is RowOrder.TABLE)
    return {
        Way.SORTED: every & is_sorted,
        Way.RESPEC: moves,
        Way.CODEC: every & _changes_codec(request),
        # Last: tasks are cut by the others, whether somebody asks for copying or not.
        Way.NEVER: every & (request.policy.copies is CopyMode.NEVER),
    }


def _changes_codec(request: PlanRequest) -> bool:
    """Whether the run has another codec than the files probably have: that of the table."""
    wanted = writer_options.pairs(request.policy.write_options).get(writer_options.CODEC)
    return wanted is not None and wanted.lower() != (request.table_codec or _DEFAULT_CODEC).lower()


def _ways(weighed: Copying, total: Ints, by_size: Ints, copied: Ints) -> Ints:
    """The way of most of each group's bytes, as positions in _WAYS."""
    small, deletes = _WAYS.index(Way.SMALL), _WAYS.index(Way.DELETES)
    others = _WAYS.index(Way.ASKED if weighed.mode is CopyMode.ALWAYS else Way.LARGE)
    return np.select([2 * by_size < total, 2 * copied < total], [small, deletes], others)


def row_group_size(properties: Mapping[str, str]) -> int:
    """The size in a table property; the default for a text that is no size, which the worker rejects."""
    text = properties.get(_ROW_GROUP)
    is_size = text is not None and text.isascii() and text.isdigit() and len(text) <= _DIGITS
    return min(int(text) if is_size and text else 0, NO_LIMIT) or DEFAULT_ROW_GROUP
