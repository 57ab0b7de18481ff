"""Listed files against references: schemes, authorities and ages (R76)."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from iceberg_compaction import errors
from iceberg_compaction.metadata.reach import known_paths
from iceberg_compaction.metadata.reach.known_paths import KnownPaths
from iceberg_compaction.operations.orphans import scan_folders
from iceberg_compaction.operations.orphans.references import References
from iceberg_compaction.operations.orphans.scan_folders import Scan, ScanRules, Standing
from iceberg_compaction.storage.tree import walk_files
from iceberg_compaction.storage.tree.path_forms import Spellings

if TYPE_CHECKING:
    from pathlib import Path

NOW = 1_800_000_000_000
DAY = 24 * 3600 * 1000


def refer(paths: list[str], spellings: Spellings | None = None) -> References:
    """References to these paths."""
    spellings = spellings or Spellings()
    plain, whole, _ = known_paths.hashes(spellings, pa.array(paths, pa.string()))
    sizes = np.zeros(len(np.unique(whole)), dtype=np.int64)
    known = KnownPaths(spellings=spellings, whole=np.unique(whole), sizes=sizes)
    return References(hashes=known, paths=np.unique(plain), content=np.zeros(0, dtype=np.uint64))


def look(folder: Path, referred: References, **rules: object) -> Scan:
    given = {"older_than_ms": 3 * DAY, "clock": lambda: NOW, "most_files": 100, **rules}
    return scan_folders.scan(PyArrowFileIO(), [f"file://{folder}"], referred, ScanRules(**given))  # type: ignore[arg-type]


def lay(folder: Path, name: str, *, modified_ms: int = NOW - 4 * DAY) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    os.utime(path, ns=(modified_ms * 10**6, modified_ms * 10**6))
    return str(path)


def test_4652_another_scheme_or_authority_stops_everything(tmp_path: Path) -> None:
    path = lay(tmp_path, "data/f.parquet")
    scan = look(tmp_path, refer([f"hdfs://nn:8020{path}"]))
    assert scan.counts == Counter({Standing.MISMATCHED: 1})
    with pytest.raises(errors.RefusedError, match="--equal-schemes"):
        scan_folders.check_mismatches(scan, keep=False)
    scan_folders.check_mismatches(scan, keep=True)
    assert not scan.orphans


def test_10334_equal_schemes_and_authorities_count(tmp_path: Path) -> None:
    path = lay(tmp_path, "data/f.parquet")
    spellings = Spellings(schemes={"hdfs": "file"}, authorities={"nn:8020": ""})
    assert look(tmp_path, refer([f"hdfs://nn:8020{path}"], spellings)).counts == Counter({Standing.REFERENCED: 1})


def test_5795_spellings_of_one_path_are_one_file(tmp_path: Path) -> None:
    path = lay(tmp_path, "data/a b/f.parquet")
    for spelling in (f"file:{path}", f"file://{path}".replace("data", "/data"), f"file://{path}".replace(" ", "%20")):
        assert look(tmp_path, refer([spelling])).counts == Counter({Standing.REFERENCED: 1}), spelling


def test_ages_are_exact(tmp_path: Path) -> None:
    lay(tmp_path, "data/at.parquet", modified_ms=NOW - 3 * DAY)
    lay(tmp_path, "data/before.parquet", modified_ms=NOW - 3 * DAY - 1)
    lay(tmp_path, "data/future.parquet", modified_ms=NOW + DAY)
    scan = look(tmp_path, refer([]))
    assert scan.counts == Counter({Standing.YOUNG: 2, Standing.ORPHAN: 1})
    assert scan.table()["path"].to_pylist() == [f"file://{tmp_path}/data/before.parquet"]


def test_the_clock_that_is_behind_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose clock is ahead must not find young files old."""
    lay(tmp_path, "data/f.parquet", modified_ms=NOW - 4 * DAY)
    walk = walk_files.walk

    def behind(io: object, folder: str, time: walk_files.StoreTime, knows: object) -> object:
        time.notice("Sun, 10 Jan 2027 08:00:00 GMT")
        return walk(io, folder, time)  # type: ignore[arg-type]

    monkeypatch.setattr(walk_files, "walk", behind)
    assert look(tmp_path, refer([])).counts == Counter({Standing.YOUNG: 1})


def test_files_without_a_time_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = pa.record_batch([["/t/f"], [1], pa.array([None], pa.int64()), [False]], schema=walk_files.PAGE)
    monkeypatch.setattr(walk_files, "walk", lambda io, folder, time, knows: iter([page]))
    assert look(tmp_path, refer([])).counts == Counter({Standing.UNTIMED: 1})


def test_a_version_hint_stays_wherever_it_is(tmp_path: Path) -> None:
    lay(tmp_path, "metadata/version-hint.text")
    assert look(tmp_path, refer([])).counts == Counter({Standing.REFERENCED: 1})
