"""Writes output files: batches come in, Parquet files of the wanted size go out. Row groups and files are cut by the
bytes that rows have really taken so far, memory stays bounded, rows keep their order, and the last few rows never
become a file of their own."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from iceberg_compaction.execute.worker.output import forecast, output_file, row_buffer, row_profile, used_values
from iceberg_compaction.model import sizing
from iceberg_compaction.storage import remove, task_cores, task_progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.io import FileIO

    from iceberg_compaction.execute.worker.copy import copied_row_groups
    from iceberg_compaction.execute.worker.output import locations, parquet_options
    from iceberg_compaction.execute.worker.proof import measure
    from iceberg_compaction.model import policies

_GROUP_SHARE = 0.85  # of the buffer that a row group is planned to have, so that a little more leaves no small rest
_CLOSE_ENOUGH = 0.1  # of a size; no row group is opened for less
_FULL = 0.03  # of the target; a file that lacks no more than this is full
_DOUBTFUL = 0.5  # the part of a file's room that is filled first where the forecast may miss by more than that
_WORTH_IT = 0.2  # of the target; a row group that is cut for this is no smaller
_BELOW_MAX = 0.95  # of the maximum size, above which no file is meant to be: a forecast may be a little low
_SURELY = 4  # times as large as it must be; no forecast is so wrong
_TRIAL_BYTES = 8 * 2**20  # Arrow bytes of which a few rows are encoded for trial


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest:
    """The files to be written. `bytes_per_row` are those of the inputs, a first guess at those of the outputs."""

    columns: pa.Schema
    options: parquet_options.WriteOptions
    locations: locations.OutputLocations
    sizes: policies.Sizes
    partition: str  # canonical JSON
    rows: int | None  # that will come, at most; None: unknown
    bytes_per_row: float
    buffer_bytes: int  # Arrow bytes held back at most; a row group may come out smaller for it
    least_group: int = 0  # bytes of a row group; nothing smaller is cut off where row groups come as bytes, too
    profile: row_profile.Profile = row_profile.EVEN  # of the bytes of the inputs, in the order in which rows come
    cores: task_cores.TaskCores = field(default_factory=task_cores.TaskCores)


class Measures(Protocol):
    """A meter that rows pass on their way into the Parquet encoder."""

    def add_all(self, batches: Sequence[pa.RecordBatch], cores: task_cores.TaskCores) -> None: ...


class RollingWriter:
    """Writes one attempt's files. The meter stands where rows enter the Parquet encoder, so it sees whatever happens to
    them before, in here too."""

    def __init__(self, io: FileIO, request: WriteRequest, meter: Measures) -> None:
        self._io = io
        self._request = request
        self._meter = meter
        self._forecast = forecast.Forecast(request.columns, request.options, request.bytes_per_row)
        self._trial_bytes = min(_TRIAL_BYTES, request.sizes.target // 10)
        self._buffer = row_buffer.RowBuffer(self._forecast, self._trial_bytes)
        self._written_rows = 0
        self._recent = (0.0, 0.0)  # the part of the input and the bytes written, those of earlier files fading out
        self._footer = 0  # bytes that the last file took after its rows
        self._expected_rows = request.rows
        self._aimed: int | None = None  # files that there should be, the open one included
        self._alone = sizing.alone_size(request.sizes)
        self._run_rows: int | None = None  # that are still to be encoded before a row group comes as bytes
        self._file: output_file.MixedFile | None = None
        self.finished: list[output_file.WrittenFile] = []
        self.paths: list[str] = []  # everything that this attempt has put on storage

    def write(self, batch: pa.RecordBatch) -> None:
        """Takes a batch and encodes whole row groups. The last row group of a run waits for more rows."""
        self._buffer.append(batch)
        while (rows := self._group_rows()) and rows != self._run_rows:
            self._write_group(rows)

    def expect(self, rows: int) -> None:
        """Says how many rows will come in all, by the latest estimate."""
        self._expected_rows = rows

    @property
    def buffered_bytes(self) -> int:
        return self._buffer.nbytes

    def begin_run(self, rows: int) -> None:
        """Says how many rows come next before a row group as bytes, or before the end."""
        self._run_rows = self._buffer.rows + rows

    @property
    def leaves_undersized_row_group(self) -> bool:
        """Whether the buffered rows may make an undersized row group, if one comes as bytes next."""
        least = self._request.least_group
        if not self._buffer.rows or self._buffer.size >= _SURELY * least:
            return False
        return self._buffer.size < self._least() if self._forecast.learned else self._buffer.weight < least

    def takes(self, size: int) -> bool:
        """Whether a row group of so many bytes may be copied next. If not, it has to be split over two files, because
        the open one would be called small without it and large with it."""
        held = int(self._buffer.size) + (0 if self._file is None else self._file.position)
        return not held or held >= self._request.sizes.min or self._fits(held, size)

    def copy(
        self, step: copied_row_groups.Copy, patch: pa.Table | None, meter: measure.Meter | None, *, digest: bool
    ) -> None:
        """Copies a row group as bytes. `patch` holds the columns that are encoded, which the meter sees."""
        self.flush()
        if self._file is not None and self._ends_before(step.bytes):
            self._finish_file()
        if self._file is None:
            self._file = self._open_file()
        self._measure(patch, meter)
        self._count(step.footer.group_rows[step.group], self._file.copy(step, patch, digest=digest))

    def next_joined_bytes(self, to_come: int) -> int:
        """Bytes that the next joined row group should have, so that row groups and files come out even. `to_come`:
        bytes that can be joined before other rows come."""
        self.flush()
        if self._file is not None and not self._held():
            self._finish_file()
        held = 0 if self._file is None else self._file.position
        room, takes_all = self._room(held)
        return int(_even(min(to_come, room) if not takes_all else to_come, self._request.options.row_group_bytes))

    def join(
        self, joined: output_file.JoinedRows, patch: pa.Table | None, meter: measure.Meter | None, *, digest: bool
    ) -> None:
        """Writes joined row groups as one. `patch` holds the columns that are encoded, which the meter sees."""
        if self._file is not None and self._ends_before(joined.bytes):
            self._finish_file()
        if self._file is None:
            self._file = self._open_file()
        self._measure(patch, meter)
        self._count(joined.rows, self._file.join(joined, patch, digest=digest))

    def _measure(self, patch: pa.Table | None, meter: measure.Meter | None) -> None:
        if patch is not None and meter is not None:
            for batch in patch.to_batches():
                meter.add(batch)

    def flush(self) -> None:
        """Encodes the buffered rows, to free their memory."""
        if self._run_rows is not None:
            self._run_rows = self._buffer.rows  # fewer than announced, if some turned out to be deleted
        while self._buffer.rows:
            self._write_group(self._group_rows() or self._buffer.rows)

    def close(self) -> list[output_file.WrittenFile]:
        """Encodes the rest and finishes the last file."""
        self._expected_rows = self._written_rows + self._buffer.rows
        self.flush()
        if self._file is not None:
            self._finish_file()
        return self.finished

    def abort(self) -> tuple[str, ...]:
        """Gives up: closes the open file and removes all files. Returns the paths that could not be removed."""
        if self._file is not None:
            self._file.abandon()
            self._file = None
        return remove.remove_files(self._io, self.paths, remove.RemovalProof.NEVER_SENT)

    # Where to cut

    def _held(self) -> int:
        """Bytes of the file that the next rows go to: the open one, unless that is full. A full one stays open until
        there are rows for another, since the last few may still go into it."""
        held = 0 if self._file is None else self._file.position
        room, takes_all = self._room(held)
        sizes = self._request.sizes
        is_large = held >= sizing.LEAST_MARGIN * sizes.min
        full = _CLOSE_ENOUGH if is_large else max(_FULL, min(self._least() / sizes.target, _CLOSE_ENOUGH))
        return 0 if not takes_all and room <= full * sizes.target else held

    def _ends_before(self, size: int) -> bool:
        """Whether the open file comes closer to its wanted size without a row group of so many bytes."""
        assert self._file is not None
        held = self._file.position
        if not self._fits(held, size):
            return True
        room, takes_all = self._room(held)
        return not takes_all and held >= self._request.sizes.min and 2 * room < size

    def _fits(self, held: int, size: int) -> bool:
        """Whether a file with `held` bytes may take a row group of so many: up to the size at which files are closed,
        or beyond it if the file takes all rows that are to come."""
        sizes = self._request.sizes
        if held + size <= sizes.write_max:
            return True
        return held + size <= _BELOW_MAX * sizes.max and self._room(held)[1]

    def _to_come(self) -> int:
        """Bytes of rows that are not written yet, buffered or still to be read."""
        buffered, arrived = self._buffer.size, self._part(self._written_rows + self._buffer.rows)
        part, size = self._recent
        seen = part + arrived - self._part(self._written_rows)
        if seen > 0:
            return int(buffered + (1 - arrived) * (size + buffered) / seen)
        # Nothing is written or buffered: the inputs are the only guess, and a good one for what comes as bytes.
        return int(max(buffered, (self._expected_rows or 0) * self._request.bytes_per_row))

    def _part(self, rows: int) -> float:
        """The part of the input's bytes that so many rows have, the first ones."""
        return self._request.profile.part(min(1.0, rows / max(1, self._expected_rows or rows)))

    def _room(self, held: int) -> tuple[int, bool]:
        """Bytes that a file with so many should still take, and whether it takes all rows that are to come."""
        held += self._footer
        if self._expected_rows is None:
            return self._request.sizes.target - held, False
        rest, aimed = self._to_come(), self._files(held)
        if sizing.takes_all(held, rest, self._request.sizes, aimed):
            return rest, True
        room = sizing.roll_size(held + rest, self._request.sizes, held, aimed) - held
        return room, rest - room <= _CLOSE_ENOUGH * self._request.sizes.target

    def _files(self, held: int) -> int:
        """Files that there should be, from the one with so many bytes on."""
        is_next = self._file is not None and not held  # the open one is full
        aimed = None if self._aimed is None else self._aimed - is_next
        count = sizing.file_count(held + self._to_come(), self._request.sizes, aimed)
        if not is_next and self._written_rows:  # before, it is a mere guess
            self._aimed = count
        return count

    def _group_bytes(self) -> float:
        """Bytes that the next row group should take."""
        held = self._held()
        room, takes_all = self._room(held)
        group = self._even_group() if self._run_rows is not None else self._even(max(0, room))
        if room > (1 + _CLOSE_ENOUGH) * group:
            return group
        if takes_all or self._run_fits(held, room):
            return math.inf
        # The end of a file must hit its size. The larger part comes first, and its real size corrects the rest.
        doubtful = self._forecast.doubt * room > _FULL * self._request.sizes.target
        least = max(self._least(), _WORTH_IT * self._request.sizes.target)
        return room * _DOUBTFUL if doubtful and room * (1 - _DOUBTFUL) >= least else room

    def _least(self) -> float:
        """Bytes that rows must be expected to take, so that they surely make a row group that is large enough."""
        return self._request.least_group / (1 - self._forecast.doubt)

    def _even_group(self) -> float:
        """Bytes of a row group by the table's settings; less, if the rows up to the next copy then fill equal ones."""
        group = self._request.options.row_group_bytes
        if not self._buffer.rows:
            return group
        return self._even(self._run_size())

    def _even(self, total: float) -> float:
        """Bytes of each of the equal row groups that so many bytes make, by the table's settings and in memory."""
        group, width = self._request.options.row_group_bytes, self._buffer.nbytes / max(1.0, self._buffer.size)
        return _even(total, group, math.ceil(total * width / (_GROUP_SHARE * self._request.buffer_bytes)))

    def _run_size(self) -> float:
        return (self._run_rows or 0) * self._buffer.size / max(1, self._buffer.rows)

    def _run_fits(self, held: int, room: int) -> bool:
        """Whether all rows up to the next copy go into the open file, since the rest would be an undersized row
        group."""
        if self._run_rows is None:
            return False
        total = self._run_size()
        return total - room < self._least() and held + total <= self._request.sizes.write_max

    def _group_rows(self) -> int:
        """Rows of the next row group; 0 means: wait for more."""
        wanted, before = self._group_bytes(), self._buffer.rows_before(self._alone)
        if before is not None and before <= self._buffer.rows_within(wanted):
            return before or 1
        if self._buffer.rows and self._buffer.size >= wanted:
            return self._spared(self._buffer.rows_within(wanted))
        return self._buffer.rows if self._buffer.nbytes >= self._request.buffer_bytes else 0

    def _spared(self, rows: int) -> int:
        """So many rows, or others if the rest of the run would be an undersized row group: all of the run, if its rows
        are here and go into one file, else fewer."""
        if self._run_rows is None or rows >= self._run_rows:
            return rows
        each = self._buffer.size / self._buffer.rows
        least = self._least()
        if (self._run_rows - rows) * each >= least:
            return rows
        held = 0 if self._file is None else self._file.position
        if self._buffer.rows >= self._run_rows and held + self._run_rows * each <= self._request.sizes.write_max:
            return self._run_rows
        return max(1, min(rows, self._run_rows - math.ceil(least / each)))

    # Encoding

    def _write_group(self, rows: int) -> None:
        (guessed, exact), alone = self._buffer.forecast(rows), self._buffer.rows_before(self._alone) == 0
        expected = self._forecast.corrected(guessed) + exact
        if self._file is not None and (alone or not self._held() or self._is_too_much(expected)):
            self._finish_file()
        table = used_values.unified(pa.Table.from_batches(self._take(rows), schema=self._request.columns))
        if self._file is None:
            self._file = self._open_file()
        self._meter.add_all(table.to_batches(), self._request.cores)
        size = self._file.write(table)
        enough = min(self._trial_bytes, self._request.options.row_group_bytes) / 2  # a few rows teach little
        if guessed >= max(exact, enough):
            self._forecast.learn(guessed, max(1, size - int(exact)))
        if self._run_rows is not None:
            self._run_rows = max(0, self._run_rows - rows)
        self._count(rows, size)
        if alone:
            self._finish_file()

    def _is_too_much(self, size: float) -> bool:
        """Whether so many bytes would make the open file larger than the maximum."""
        assert self._file is not None
        return self._file.position + size > _BELOW_MAX * self._request.sizes.max

    def _count(self, rows: int, size: int) -> None:
        part = self._part(self._written_rows + rows) - self._part(self._written_rows)
        self._written_rows += rows
        task_progress.current().wrote_rows(rows)
        fading = 0.5 ** (size / self._request.sizes.target)
        self._recent = (self._recent[0] * fading + part, self._recent[1] * fading + size)

    def _open_file(self) -> output_file.MixedFile:
        request, path = self._request, self._request.locations.path(len(self.paths))
        opened = output_file.MixedFile(self._io, path, request.columns, request.options, request.cores)
        self.paths.append(path)  # not earlier: a file that was there before is not ours to delete
        return opened

    def _take(self, rows: int) -> list[pa.RecordBatch]:
        return self._buffer.take(rows)

    def _finish_file(self) -> None:
        assert self._file is not None
        position = self._file.position
        try:
            self.finished.append(self._file.finish(self._request.partition))
        except FileExistsError:  # object stores notice it at the end
            self.paths.pop()  # a file that was there before is not ours to delete
            raise
        self._footer = self.finished[-1].size - position
        self._aimed = None if self._aimed is None else self._aimed - 1
        self._file = None


def _even(total: float, group: int, least: int = 1) -> float:
    """Bytes of each of the equal row groups that so many bytes fill, at least so many of them."""
    return total / max(math.ceil(total / ((1 + _CLOSE_ENOUGH) * group)), least, 1)
