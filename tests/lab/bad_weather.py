"""Storage and a catalog in bad weather: of the operations on files 10 % fail in ways that pass, and of the requests to
the catalog 5 %; of a commit, the request or only the answer may get lost."""

from __future__ import annotations

import random
from typing import Any

from pyiceberg.io.pyarrow import PyArrowFileIO

FILE_IO = f"{__name__}.RainyFileIO"
STORAGE, CATALOG = 0.10, 0.05
_dice = random.Random()


def begin(seed: int) -> None:
    """From now on, in this process. Nobody waits for faults to pass."""
    from iceberg_compaction.storage import passing_faults

    _dice.seed(seed)
    passing_faults.USUAL = passing_faults.Patience(sleep=lambda seconds: None)


def _check(rate: float) -> None:
    if _dice.random() < rate:
        raise _dice.choice((ConnectionResetError, TimeoutError))("on purpose")


class RainyFileIO(PyArrowFileIO):
    """Files that cannot be opened, created or removed for a moment."""

    def new_input(self, location: str) -> Any:
        return _rainy(super().new_input(location), "open")

    def new_output(self, location: str) -> Any:
        return _rainy(super().new_output(location), "create")

    def delete(self, location: Any) -> None:
        _check(STORAGE)
        super().delete(location)


def _rainy(file: Any, name: str) -> Any:
    real = getattr(file, name)

    def sometimes(*given: Any, **more: Any) -> Any:
        _check(STORAGE)
        return real(*given, **more)

    vars(file)[name] = sometimes
    return file


def catalog(calm: Any) -> Any:
    """The catalog itself, from now on in bad weather."""

    class Rainy(type(calm)):  # type: ignore[misc]
        def load_table(self, *given: Any) -> Any:
            _check(CATALOG)
            return super().load_table(*given)

        def commit_table(self, *given: Any) -> Any:
            _check(CATALOG / 2)
            answer = super().commit_table(*given)
            _check(CATALOG / 2)
            return answer

    calm.__class__ = Rainy
    return calm
