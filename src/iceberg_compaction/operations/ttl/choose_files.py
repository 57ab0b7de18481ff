"""The files that go. The data files of a snapshot and a mask of those that may hold rows which stay come in; masks, and
lines for people with the reason of each partition, go out. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from iceberg_compaction.model import partition_words, plurals, table_view
from iceberg_compaction.model.ttl_plan import RestRows
from iceberg_compaction.model.upkeep_plan import UpkeepStep

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iceberg_compaction.model.ttl_plan import TtlGoal

_BOTH = "files with rows on both sides"
_MOST_LINES = 50  # partitions that a plan lists one by one


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeMasks:
    """What metadata tells of the rows of each file."""

    may_stay: NDArray[np.bool_]
    may_go: NDArray[np.bool_]
    bounded: NDArray[np.bool_]  # the earliest time in the file is known
    doubtful: NDArray[np.bool_]  # all times are past, and nobody knows whether there are rows without one


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenFiles:
    """The files of a snapshot (model.table_view.FILES), and which of them go or stay."""

    files: pa.Table
    going: NDArray[np.bool_]
    partly: NDArray[np.bool_]  # stay, although some of their rows may be past their time
    held: NDArray[np.bool_]  # stay because of others in their partition, which must go as a whole
    rewritten: NDArray[np.bool_]  # have rows on both sides, and are written anew
    doubtful: NDArray[np.bool_]  # may have no row left once they are written anew

    @property
    def everything(self) -> bool:
        """Whether no row would be left, as far as metadata tells."""
        data = self.files["content"].to_numpy() == table_view.DATA
        return bool(data.any()) and bool((self.going | self.rewritten & self.doubtful)[data].all())


def choose(files: pa.Table, masks: TimeMasks, goal: TtlGoal) -> ChosenFiles:
    """A file goes if surely none of its rows stays. It is written anew only if a bound tells that a row goes: what is
    written has bounds of its own, or none, so that a second run leaves it alone."""
    data = files["content"].to_numpy() == table_view.DATA
    going = data & ~masks.may_stay
    held = np.zeros(len(going), np.bool_)
    if goal.whole_partitions and going.any():
        keys = _partition_numbers(files)
        staying = np.zeros(int(keys.max()) + 1, np.bool_)
        staying[keys[data & masks.may_stay]] = True
        held = going & staying[keys]
        going &= ~held
    partly = data & masks.may_stay & masks.may_go
    rewritten = partly & masks.bounded & (goal.rows is RestRows.REWRITE)
    return ChosenFiles(
        files=files,
        going=going,
        partly=partly & ~rewritten,
        held=held,
        rewritten=rewritten,
        doubtful=masks.doubtful,
    )


def going_lines(chosen: ChosenFiles, column: str, before: str) -> tuple[UpkeepStep, ...]:
    """One line for each partition, the largest first; many small ones share a line."""
    names = [(name, mask) for name, mask in _by_partition(chosen.files, chosen.going)]
    names.sort(key=lambda item: -_bytes(chosen.files, item[1]))
    lines = [
        _line(chosen.files, mask, name, f"{column} is before {before} in {_all_rows(_rows(chosen.files, mask))}")
        for name, mask in names[:_MOST_LINES]
    ]
    if rest := names[_MOST_LINES:]:
        mask = np.logical_or.reduce([mask for _, mask in rest])
        others = plurals.count(len(rest), "other partition")
        lines.append(_line(chosen.files, mask, others, f"the same, {plurals.count(_rows(chosen.files, mask), 'row')}"))
    if chosen.rewritten.any():
        why = f"rows before {before} go; the files are written anew with the others"
        lines.append(_line(chosen.files, chosen.rewritten, _BOTH, why))
    return tuple(lines)


def staying_lines(chosen: ChosenFiles, column: str, before: str) -> tuple[UpkeepStep, ...]:
    """What stays, by reason."""
    data = chosen.files["content"].to_numpy() == table_view.DATA
    newer = data & ~chosen.going & ~chosen.partly & ~chosen.held & ~chosen.rewritten
    reasons = (
        (_BOTH, chosen.partly, f"some rows are before {before}, or {column} may be missing"),
        ("files of other partitions", chosen.held, "their partition has rows that stay, and must go as a whole"),
        ("newer files", newer, f"no row is before {before}"),
    )
    return tuple(_line(chosen.files, mask, name, why) for name, mask, why in reasons if mask.any())


def groups(chosen: ChosenFiles) -> list[tuple[tuple[int, str], pa.Table]]:
    """The files that go, by partition."""
    files = chosen.files.filter(pa.array(chosen.going))
    keys = _partition_numbers(files)
    parts = []
    for number in np.unique(keys):
        part = files.filter(pa.array(keys == number))
        first = part.slice(0, 1)
        key = (int(first["spec_id"][0].as_py()), str(first["partition"].cast(pa.string())[0].as_py()))
        parts.append((key, part))
    return parts


def _by_partition(files: pa.Table, mask: NDArray[np.bool_]) -> list[tuple[str, NDArray[np.bool_]]]:
    keys = _partition_numbers(files)
    texts = files["partition"].cast(pa.string())
    lines = []
    for number in np.unique(keys[mask]):
        here = mask & (keys == number)
        text = partition_words.text(texts[int(np.flatnonzero(here)[0])].as_py())
        lines.append((text or "the table", here))
    return lines


def _partition_numbers(files: pa.Table) -> NDArray[np.int64]:
    """A number for each partition of each spec."""
    column = files["partition"].combine_chunks()
    codes = column.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    _, numbers = np.unique(files["spec_id"].to_numpy() * (len(column.dictionary) + 1) + codes, return_inverse=True)
    return np.asarray(numbers, np.int64)


def _line(files: pa.Table, mask: NDArray[np.bool_], name: str, why: str) -> UpkeepStep:
    return UpkeepStep(name=name, count=int(mask.sum()), bytes=_bytes(files, mask), sentence=why)


def _bytes(files: pa.Table, mask: NDArray[np.bool_]) -> int:
    return int(files["file_size_in_bytes"].to_numpy()[mask].sum())


def _all_rows(number: int) -> str:
    return plurals.form(number, "its only row", f"all {number:,} rows")


def _rows(files: pa.Table, mask: NDArray[np.bool_]) -> int:
    return int(files["record_count"].to_numpy()[mask].sum())
