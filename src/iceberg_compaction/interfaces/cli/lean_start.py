"""A command that reads metadata of a few tables spends most of its time on imports. These steps save half of it: few
searches for garbage, none at the end, and no pandas for commands that hand no pandas object to pyarrow."""

from __future__ import annotations

import atexit
import gc
import sys
from typing import Any

_OBJECTS = 400_000  # new objects between two searches for garbage; imports make about 250,000, and all of them stay


def search_garbage_rarely() -> None:
    """Python searches for cycles after every 700 new objects, also while modules are loaded, which leave none. At its
    end it looks through all objects once more, just before the system takes back the memory of the process."""
    gc.set_threshold(_OBJECTS, *gc.get_threshold()[1:])
    atexit.register(gc.freeze)  # frozen objects are not looked at; those that nobody refers to are still closed


def spare_pandas() -> None:
    """pyarrow looks for pandas once, at its first array, and imports all of it just to recognise its objects. Here the
    look ends with "not installed", as it does without the extra `spark`. Whoever imports pandas later still gets it,
    and pyarrow uses it then for `to_pandas`."""
    if "pandas" in sys.modules:
        return
    hidden = _HiddenPandas()
    sys.meta_path.insert(0, hidden)
    try:
        import pyarrow as pa

        pa.array([None])
    finally:
        sys.meta_path.remove(hidden)


class _HiddenPandas:
    """A finder that comes before all others and knows of no pandas."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
