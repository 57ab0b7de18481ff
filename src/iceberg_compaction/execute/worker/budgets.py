"""The budgets of one task: cores, memory, look-ahead and limits on rows. A frozen value with defaults that suit an
executor of about one gigabyte per core; it travels down with the prepared task, so a caller can give another one."""

from __future__ import annotations

from dataclasses import dataclass

_MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryShare:
    """The memory of a process that performs tasks, its libraries included."""

    bytes: int | None = None  # None: its share of the container or the machine
    processes: int = 1  # that share the container or the machine
    beside: int = 0  # bytes of others there, such as Spark's JVM


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """Bytes are Arrow bytes in memory unless their comment says otherwise."""

    cores: int = 1  # that a task may keep busy: threads that compute, its own included

    # The forecast
    memory: MemoryShare = MemoryShare()
    task_bytes: int = 640 * _MIB  # at the peak, beside the libraries; a task that would take more has smaller buffers

    # Reading
    batch_bytes: int = 32 * _MIB  # of one decoded batch
    batch_rows: int = 1 << 20
    row_bytes: int = 2**31 - 1  # of the largest row: Arrow's offsets of texts have 31 bits
    page_bytes: int = 2**30  # of the pages of a row group that are open at a time, decompressed
    whole_file_bytes: int = 16 * _MIB  # on storage; smaller files are read in one go
    buffered_row_group_bytes: int = 64 * _MIB  # on storage; larger row groups are streamed through small buffers
    stream_bytes: int = 2**20  # of a buffer of a column of such a row group
    open_bytes: int = 128 * _MIB  # of pages and dictionaries of a row group at a time; else columns are read in turn
    files_ahead: int = 4  # files that are opened before their turn
    ahead_bytes: int = 32 * _MIB  # of decoded batches that wait to be encoded, if a task has cores for both

    # Deletes
    key_bytes: int = 128 * _MIB  # of the keys of equality deletes, and of their index

    # Partitions. Rows of further partitions go to local disk first, so that these partitions come one by one.
    open_partitions: int = 16  # written at the same time
    open_partition_bytes: int = 128 * _MIB  # held back by all open partitions together
    chunk_bytes: int = 16 * _MIB  # rows are parted in chunks, because parts of small batches would be tiny
    chunk_rows: int = 1 << 18

    # Sorting
    run_bytes: int = 128 * _MIB  # sorted at a time; more goes to local disk as sorted runs
    block_bytes: int = _MIB  # read back from a run at a time
    merge_bytes: int = 32 * _MIB  # merged at a time, and about the bytes of a sorted batch
    merge_rows: int = 1 << 20

    # Writing
    buffer_bytes: int = 192 * _MIB  # held back by a writer; a row group may come out smaller for it


DEFAULT = Budgets()
