"""Files in bundles: tiny files are read a few at a time, because to hand each of them to a thread takes longer than to
read it. Files come in, bundles of neighbours go out, in the same order."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iceberg_compaction.execute.worker.input import read_files

T = TypeVar("T")

_FILES, _BYTES = 64, 2 * 2**20  # of a bundle, on storage
_OPENED = 16  # files whose footers are read by a thread at a time
_TINY = 256 * 2**10  # bytes of a file on storage
MOST_DECODED = 4 * 2**20  # bytes of a bundle's rows in memory


def is_tiny(footer: read_files.Footer) -> bool:
    """Whether it takes longer to open a file than to decode it."""
    return footer.rows > 0 and footer.size <= _TINY


def even(files: Sequence[T], threads: int) -> list[Sequence[T]]:
    """Bundles of the same number of files: single files unless there are many for each thread."""
    each = _each(len(files), threads, _OPENED)
    return [files[start : start + each] for start in range(0, len(files), each)]


def _each(files: int, threads: int, most: int) -> int:
    return max(1, min(most, files // (threads * threads)))


def small(parts: Sequence[read_files.FilePart], threads: int) -> list[list[read_files.FilePart]]:
    """Bundles of whole tiny files, if there are many for each thread that fetches; all other parts are alone."""
    each = _each(len(parts), threads, _FILES)
    bundles: list[list[read_files.FilePart]] = []
    stored = decoded = 0
    for part in parts:
        size = part.footer.size if part.groups is None else _BYTES + 1
        memory = part.footer.decoded_bytes
        stored, decoded = stored + size, decoded + memory
        if not bundles or len(bundles[-1]) == each or stored > _BYTES or decoded > MOST_DECODED:
            bundles.append([])
            stored, decoded = size, memory
        bundles[-1].append(part)
    return bundles


class DecodedRows:
    """Rows of a bundle that are in memory before their turn. Footers do not tell how long the texts of a dictionary are
    that all rows may name, so files are decoded before their turn only until these rows are many."""

    def __init__(self) -> None:
        self._sizes: list[int] = []  # threads append to it

    @property
    def are_many(self) -> bool:
        return sum(self._sizes) >= MOST_DECODED

    def add(self, size: int) -> None:
        self._sizes.append(size)
