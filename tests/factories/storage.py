"""What lies in storage, whatever the storage: to see that nothing was lost and nothing was left behind."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

import pyarrow.fs as pafs
from pyiceberg.io.pyarrow import PyArrowFileIO

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table


def files_under(table: Table, folder: str = "") -> set[str]:
    """Every file below the table's location, as storage lists them."""
    location = urlparse(table.location())
    assert isinstance(table.io, PyArrowFileIO)
    files = table.io.fs_by_scheme(location.scheme or "file", location.netloc)
    selector = pafs.FileSelector(f"{location.netloc}{location.path}/{folder}".rstrip("/"), True, True)
    return {info.path for info in files.get_file_info(selector) if info.type == pafs.FileType.File}


def referenced_data_files(table: Table) -> set[str]:
    """The data files of all snapshots, as paths of the kind that `files_under` gives."""
    found = set()
    for path in table.inspect.all_data_files()["file_path"].to_pylist():
        parsed = urlparse(path)
        found.add(f"{parsed.netloc}{parsed.path}")
    return found


def row_multiset(data: pa.Table) -> Counter[str]:
    """Rows with their number of occurrences; floats by their bits, so that NaN equals NaN and -0.0 is not 0.0."""
    return Counter(repr(_exact(row)) for row in data.to_pylist())


def _exact(value: Any) -> Any:
    match value:
        case float():
            return value.hex() if value == value else "nan"
        case dict():
            return {key: _exact(item) for key, item in value.items()}
        case list() | tuple():
            return [_exact(item) for item in value]
        case _:
            return value
