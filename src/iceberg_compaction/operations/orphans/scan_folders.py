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

    import numpy.typing as npt
    from pyiceberg.io import FileIO

    from iceberg_compaction.metadata.reach.known_paths import Bools, Positions
    from iceberg_compaction.operations.orphans.references import Judgement, References

VERSION_HINT = "version-hint.text"
_NEVER = -(2**62)
_SLACK = 10_000  # orphans that may be in memory beyond those that are kept


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
    orphans: list[pa.RecordBatch] = field(default_factory=list)  # walk_files.PAGE
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

    def trim(self, most_files: int) -> None:
        """Keep the first orphans by path, so that it does not matter in which order they were listed."""
        if self.kept_orphans > most_files:
            self.orphans = self.table().slice(0, most_files).combine_chunks().to_batches()
            self.kept_orphans = most_files


def scan(io: FileIO, roots: Sequence[str], references: References, rules: ScanRules) -> Scan:
    """List the folders and judge every file."""
    tally = Tally(references, rules)
    time = walk_files.StoreTime()
    for root in roots:
        for page in walk_files.walk(io, root, time, tally.knows):
            tally.add(root, page, time.now_ms)
    return tally.scan()


class Tally:
    """Judges pages of files, in whatever order they come."""

    def __init__(self, references: References, rules: ScanRules) -> None:
        self._references = references
        self._rules = rules
        self._result = Scan()
        self._roots: dict[str, Counter[Standing]] = {}
        self._listed = np.zeros(len(references.hashes.whole), dtype=np.bool_)
        self._last: tuple[pa.Array, Judgement] | None = None

    def add(self, root: str, page: pa.RecordBatch, store_ms: int | None) -> None:
        """Judge files of a root, listed when it was this time by the store's clock."""
        if not page.num_rows:
            return
        # Of two clocks, the one that is behind makes files younger.
        now_ms = min(self._rules.clock(), self._rules.clock() if store_ms is None else store_ms)
        self._result.cutoff_ms = now_ms - self._rules.older_than_ms
        judgement = self._look_up(page.column("path"))
        sizes = pc.coalesce(page.column("size"), pa.array(judgement.lookup.sizes)).to_numpy()
        referenced = judgement.referenced
        self.add_referenced(root, int(referenced.sum()), int(sizes[referenced].sum()), judgement.lookup.positions)
        if referenced.all():
            return
        strangers = _Strangers.among(page, judgement, sizes)
        standings = _judge(strangers, root, self._rules, self._result.cutoff_ms)
        here = _add(self._result, strangers, standings, self._rules.most_files)
        self._roots.setdefault(root, Counter()).update(here)

    def add_referenced(self, root: str, count: int, size: int, positions: Positions) -> None:
        """Take files into account that somebody has listed and found among the references."""
        if not count:
            return
        self._listed[positions] = True
        self._result.counts[Standing.REFERENCED] += count
        self._result.bytes[Standing.REFERENCED] += size
        self._roots.setdefault(root, Counter())[Standing.REFERENCED] += count

    def knows(self, paths: pa.Array) -> Bools:
        """Files of the table whose sizes are in its metadata."""
        judgement = self._look_up(paths)
        return judgement.referenced & (judgement.lookup.sizes > 0)

    def scan(self) -> Scan:
        """The result, when all pages have come."""
        result = self._result
        result.cutoff_ms = result.cutoff_ms or self._rules.clock() - self._rules.older_than_ms
        result.content_listed = self._references.count_content(self._listed)
        result.unclaimed = sorted(
            root for root, here in self._roots.items() if here[Standing.ORPHAN] and not here[Standing.REFERENCED]
        )
        result.trim(self._rules.most_files)
        return result

    def _look_up(self, paths: pa.Array) -> Judgement:
        """Every page is judged once, though two ask."""
        if self._last is None or (self._last[0] is not paths and not self._last[0].equals(paths)):
            self._last = (paths, self._references.look_up(paths))
        return self._last[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Strangers:
    """Those files of a page that the table does not refer to: few, so that rules with many texts cost little."""

    page: pa.RecordBatch
    plain: pa.Array
    mismatched: Bools
    sizes: npt.NDArray[np.int64]

    @classmethod
    def among(cls, page: pa.RecordBatch, judgement: Judgement, sizes: npt.NDArray[np.int64]) -> _Strangers:
        rows = ~judgement.referenced
        mask = pa.array(rows)
        plain = judgement.lookup.plain.filter(mask)
        return cls(page=page.filter(mask), plain=plain, mismatched=judgement.mismatched[rows], sizes=sizes[rows])


def _add(
    result: Scan, strangers: _Strangers, standings: Iterator[tuple[Standing, Bools]], most_files: int
) -> Counter[Standing]:
    here: Counter[Standing] = Counter()
    page, sizes = strangers.page, strangers.sizes
    left = np.ones(page.num_rows, dtype=np.bool_)
    for standing, fits in standings:
        rows = left & fits
        left &= ~rows
        number = int(rows.sum())
        if not number:
            continue
        here[standing] = number
        result.bytes[standing] += int(sizes[rows].sum())
        if standing is Standing.MISMATCHED:
            result.mismatches = sorted([*result.mismatches, *page.column("path").filter(pa.array(rows)).to_pylist()])[
                :3
            ]
        if standing is Standing.ORPHAN:
            result.orphans.append(page.filter(pa.array(rows)))
            result.kept_orphans += number
            if result.kept_orphans > 2 * most_files + _SLACK:
                result.trim(most_files)
    result.counts.update(here)
    return here


def _judge(strangers: _Strangers, root: str, rules: ScanRules, cutoff_ms: int) -> Iterator[tuple[Standing, Bools]]:
    page = strangers.page
    paths = page.column("path")
    yield Standing.REFERENCED, _numpy(pc.ends_with(paths, f"/{VERSION_HINT}"))
    yield Standing.QUARANTINED, _quarantined(strangers.plain, rules)
    yield Standing.OPAQUE, _numpy(page.column("opaque"))
    yield Standing.HIDDEN, _hidden(paths, root, rules.partition_names)
    yield Standing.MISMATCHED, strangers.mismatched
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
