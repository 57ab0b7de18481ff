"""Compares all files in a table's folders with what the table refers to. Folders, references and rules come in; the
orphans go out, and a count of all others by the reason why they stay. Pages of files are judged as they come, and only
orphans are kept in memory."""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction import errors
from iceberg_compaction.storage import file_names
from iceberg_compaction.storage.tree import walk_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyiceberg.io import FileIO

    from iceberg_compaction.operations.orphans.references import Bools, Judgement, References

VERSION_HINT = "version-hint.text"
_NEVER = -(2**62)


class Standing(str, enum.Enum):
    """What a listed file is. Closed set; the first that fits counts."""

    REFERENCED = "referenced"
    QUARANTINED = "quarantined"
    OPAQUE = "opaque"
    HIDDEN = "hidden"
    UNFINISHED = "unfinished"
    UNTIMED = "untimed"
    YOUNG = "young"
    MISMATCHED = "mismatched"
    ORPHAN = "orphan"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRules:
    """How files are judged that the table does not refer to."""

    older_than_ms: int
    clock: Callable[[], int]
    unfinished: tuple[str, ...] = ()  # ids of runs whose files stay
    quarantines: tuple[tuple[str, str], ...] = ()  # folders, as prefix and plain path
    partition_names: tuple[str, ...] = ()  # partition fields whose folders look hidden, but are not
    most_files: int


@dataclass(slots=True, kw_only=True)
class Scan:
    """The result of a scan."""

    counts: Counter[Standing] = field(default_factory=Counter)
    bytes: Counter[Standing] = field(default_factory=Counter)
    orphans: list[pa.RecordBatch] = field(default_factory=list)  # walk_files.PAGE; at most `most_files`
    kept_orphans: int = 0  # in `orphans`
    mismatches: list[str] = field(default_factory=list)  # a few paths
    content_listed: int = 0  # different data and delete files of the table that were listed
    unclaimed: list[str] = field(default_factory=list)  # folders with orphans, and without any file of the table
    cutoff_ms: int = 0

    @property
    def listed(self) -> int:
        return sum(count for kind, count in self.counts.items() if kind is not Standing.QUARANTINED)

    @property
    def listed_bytes(self) -> int:
        return sum(count for kind, count in self.bytes.items() if kind is not Standing.QUARANTINED)

    def table(self) -> pa.Table:
        """The orphans, by path."""
        return pa.Table.from_batches(self.orphans, walk_files.PAGE).sort_by("path")


def scan(io: FileIO, roots: Sequence[str], references: References, rules: ScanRules) -> Scan:
    """List the folders and judge every file."""
    result, time = Scan(), walk_files.StoreTime()
    content = np.zeros(len(references.content), dtype=np.bool_)
    lookup = _Lookup(references)
    for root in roots:
        before = result.counts.copy()
        for page in walk_files.walk(io, root, time, lookup.knows):
            if not page.num_rows:
                continue
            # Of two clocks, the one that is behind makes files younger.
            now_ms = min(rules.clock(), rules.clock() if time.now_ms is None else time.now_ms)
            result.cutoff_ms = now_ms - rules.older_than_ms
            judgement = lookup.judge(page.column("path"))
            content[judgement.content] = True
            _add(result, page, judgement, _judge(page, root, judgement, rules, result.cutoff_ms), rules.most_files)
        here = result.counts - before
        if here[Standing.ORPHAN] and not here[Standing.REFERENCED]:
            result.unclaimed.append(root)
    result.cutoff_ms = result.cutoff_ms or rules.clock() - rules.older_than_ms
    result.content_listed = int(content.sum())
    return result


class _Lookup:
    """Judges every page once, though two ask."""

    def __init__(self, references: References) -> None:
        self._references = references
        self._last: tuple[pa.Array, Judgement] | None = None

    def judge(self, paths: pa.Array) -> Judgement:
        if self._last is None or not self._last[0].equals(paths):
            self._last = (paths, self._references.look_up(paths))
        return self._last[1]

    def knows(self, paths: pa.Array) -> Bools:
        """Files of the table whose sizes are in its metadata."""
        judgement = self.judge(paths)
        return judgement.referenced & (judgement.sizes > 0)


def _add(
    result: Scan,
    page: pa.RecordBatch,
    judgement: Judgement,
    standings: Iterator[tuple[Standing, Bools]],
    most_files: int,
) -> None:
    left = np.ones(page.num_rows, dtype=np.bool_)
    sizes = pc.coalesce(page.column("size"), pa.array(judgement.sizes)).to_numpy()
    for standing, fits in standings:
        rows = left & fits
        left &= ~rows
        number = int(rows.sum())
        if not number:
            continue
        result.counts[standing] += number
        result.bytes[standing] += int(sizes[rows].sum())
        if standing is Standing.MISMATCHED and len(result.mismatches) < 3:
            result.mismatches += page.column("path").filter(pa.array(rows)).slice(0, 3).to_pylist()
        if standing is Standing.ORPHAN and result.kept_orphans < most_files:
            kept = page.filter(pa.array(rows)).slice(0, most_files - result.kept_orphans)
            result.orphans.append(kept)
            result.kept_orphans += kept.num_rows


def _judge(
    page: pa.RecordBatch, root: str, judgement: Judgement, rules: ScanRules, cutoff_ms: int
) -> Iterator[tuple[Standing, Bools]]:
    paths = page.column("path")
    yield Standing.REFERENCED, judgement.referenced | _numpy(pc.ends_with(paths, f"/{VERSION_HINT}"))
    yield Standing.QUARANTINED, _quarantined(judgement.plain, rules)
    yield Standing.OPAQUE, _numpy(page.column("opaque"))
    yield Standing.HIDDEN, _hidden(paths, root, rules.partition_names)
    yield Standing.MISMATCHED, judgement.mismatched
    yield Standing.UNFINISHED, of_runs(paths, rules.unfinished)
    modified = page.column("modified_ms")
    yield Standing.UNTIMED, _numpy(pc.is_null(modified))
    yield Standing.YOUNG, modified.fill_null(_NEVER).to_numpy() >= cutoff_ms
    yield Standing.ORPHAN, np.ones(page.num_rows, dtype=np.bool_)


def of_runs(paths: pa.Array, run_ids: Sequence[str]) -> Bools:
    """Which files have the id of one of these runs in their names."""
    result = np.zeros(len(paths), dtype=np.bool_)
    for run_id in run_ids:
        for mark in file_names.marks(run_id) if file_names.is_distinct(run_id) else (run_id,):
            result |= _numpy(pc.match_substring(paths, mark))
    return result


def _quarantined(plain: pa.Array, rules: ScanRules) -> Bools:
    result = np.zeros(len(plain), dtype=np.bool_)
    for _, folder in rules.quarantines:
        result |= _numpy(pc.starts_with(plain, f"{folder}/"))
    return result


def _hidden(paths: pa.Array, root: str, partition_names: Sequence[str]) -> Bools:
    """Names that begin with `_` or `.`, anywhere below the folder, are nobody's business, as in Iceberg; folders of a
    partition field with such a name are not hidden."""
    below = pc.utf8_slice_codeunits(paths, len(root.rstrip("/")))
    for name in partition_names:
        below = pc.replace_substring(below, f"/{name}=", "/partition=")
    return _numpy(pc.match_substring_regex(below, r"/[._]"))


def _numpy(values: pa.Array) -> Bools:
    result: Bools = values.to_numpy(zero_copy_only=False)
    return result


def check_mismatches(result: Scan, *, keep: bool) -> None:
    """RefusedError: files fit the table by their paths, but not by scheme or authority."""
    if keep or not result.counts[Standing.MISMATCHED]:
        return
    raise errors.RefusedError(
        f"The table refers to a file with the path of {result.mismatches[0]}, but with another scheme or authority, "
        f"and so it is with {result.counts[Standing.MISMATCHED]:,} listed files. If both mean the same store, say so "
        "with --equal-schemes or --equal-authorities; if they do not, --keep-mismatches leaves these files alone."
    )
