"""Local files that count how often each is opened to be read."""

from __future__ import annotations

from collections import Counter
from typing import Any

from pyiceberg.io.pyarrow import PyArrowFileIO

FILE_IO = f"{__name__}.CountingFileIO"
opened: Counter[str] = Counter()  # by location


class CountingFileIO(PyArrowFileIO):
    """Counts the input files that are asked for."""

    def new_input(self, location: str) -> Any:
        opened[location] += 1
        return super().new_input(location)
