"""Local files whose writing and removing fails as told, to see what becomes of a task."""

from __future__ import annotations

from typing import Any

from pyiceberg.io.pyarrow import PyArrowFileIO

FILE_IO = f"{__name__}.FlakyFileIO"
writes: list[Exception | None] = []  # what comes of the next files: an error in the middle, or nothing
removals: list[Exception | None] = []
created: list[str] = []


def calm() -> None:
    for each in (writes, removals, created):
        each.clear()  # type: ignore[attr-defined]


class FlakyFileIO(PyArrowFileIO):
    """Each file that is created, and each removal, takes the next fault."""

    def new_output(self, location: str) -> Any:
        file = super().new_output(location)
        create = file.create

        def flaky(overwrite: bool = False) -> Any:
            created.append(location)
            stream = create(overwrite)
            error = writes.pop(0) if writes else None
            return stream if error is None else _Breaking(stream, error)

        vars(file)["create"] = flaky
        return file

    def delete(self, location: Any) -> None:
        if removals and (error := removals.pop(0)) is not None:
            raise error
        super().delete(location)


class _Breaking:
    """Takes a few bytes."""

    closed = False

    def __init__(self, real: Any, error: Exception) -> None:
        self._real, self._error = real, error

    def write(self, data: Any) -> int:
        self._real.write(bytes(data)[:2])
        raise self._error

    def tell(self) -> int:
        return int(self._real.tell())

    def flush(self) -> None:
        self._real.flush()

    def close(self) -> None:
        self._real.close()
