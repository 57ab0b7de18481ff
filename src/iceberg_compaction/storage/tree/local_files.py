"""All files below a folder of this machine, page by page, as its kernel lists them. Names come first, and a file is
looked at only if its name is not known: of a large table that is one file in a hundred."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from iceberg_compaction import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from iceberg_compaction.model.listing_task import FolderPart

PAGE = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("size", pa.int64()),  # null: nobody asked for it
        pa.field("modified_ms", pa.int64()),  # by the clock of the store; null: it does not say, or nobody asked
        pa.field("opaque", pa.bool_(), nullable=False),  # a link, or a name that is no text: not to be judged
    ]
)
_ROWS = 8192  # of a page, at least
Knows: TypeAlias = "Callable[[pa.Array], npt.NDArray[np.bool_]]"


def walk(folder: str, root: str, part: FolderPart, knows: Knows | None) -> Iterator[pa.RecordBatch]:
    """Pages of the files below `root`, which is called `folder`. Links are not followed: they may lead out of the
    folder, or back into it."""
    waiting, paths = [folder + part.below], list[str]()
    while waiting:
        shown = waiting.pop()
        try:
            with os.scandir(root + shown[len(folder) :]) as entries:
                for entry in entries:
                    # A folder is none of the table's files, even if it has the path of one.
                    below = waiting if entry.is_dir(follow_symlinks=False) else paths
                    if part.deep or below is paths:
                        below.append(f"{shown}/{entry.name}")
        except FileNotFoundError:
            pass  # it left meanwhile, or there never was such a folder
        except NotADirectoryError:
            raise errors.UnsupportedError(f"{shown} is no folder.") from None
        if len(paths) >= _ROWS:
            yield _look(paths, folder, root, knows)
            paths = []
    yield _look(paths, folder, root, knows)


def _look(paths: list[str], folder: str, root: str, knows: Knows | None) -> pa.RecordBatch:
    """The files, with sizes and times of those that are not known. What left meanwhile is not among them."""
    texts, is_text = _texts(paths)
    spared = np.zeros(len(paths), dtype=np.bool_) if knows is None else knows(texts)
    sizes, modified = (np.zeros(len(paths), dtype=np.int64) for _ in range(2))
    unasked, gone, opaque = spared.copy(), np.zeros(len(paths), dtype=np.bool_), ~is_text
    for row in np.flatnonzero(~spared).tolist():
        try:
            status = os.stat(root + paths[row][len(folder) :], follow_symlinks=False)
        except FileNotFoundError:
            gone[row] = True
            continue
        if opaque[row] or not stat.S_ISREG(status.st_mode):
            unasked[row] = opaque[row] = True
        else:
            sizes[row], modified[row] = status.st_size, status.st_mtime_ns // 1_000_000
    columns = [texts, pa.array(sizes, mask=unasked), pa.array(modified, mask=unasked), pa.array(opaque)]
    page = pa.record_batch(columns, schema=PAGE)
    return page.filter(pa.array(~gone)) if gone.any() else page


def _texts(paths: list[str]) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """The paths as texts, and which of them are: a name on a disk may be any bytes."""
    try:
        return pa.array(paths, pa.string()), np.ones(len(paths), dtype=np.bool_)
    except UnicodeEncodeError:
        texts = [path.encode(errors="replace").decode() for path in paths]
        return pa.array(texts, pa.string()), np.array([text == path for text, path in zip(texts, paths, strict=True)])
