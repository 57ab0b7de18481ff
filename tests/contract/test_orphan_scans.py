"""A scan for orphans finds the same, wherever folders are listed: in this process, by tasks of an engine, and here
again where a task could not (R76)."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.factories import lake as lakes
from tests.factories.examples import examples

from iceberg_compaction import errors
from iceberg_compaction.execute.engines.fake_engine import FakeEngine
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.metadata.reach import known_paths
from iceberg_compaction.metadata.reach.known_paths import KnownPaths
from iceberg_compaction.operations.orphans import scan_folders, spread_scan
from iceberg_compaction.operations.orphans.references import References
from iceberg_compaction.operations.orphans.scan_folders import Scan, ScanRules, Standing
from iceberg_compaction.storage.tree import cut_folders, walk_files
from iceberg_compaction.storage.tree.path_forms import Spellings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyiceberg.table import Table

    from iceberg_compaction.execute.engine_door import Engine

    Scans: TypeAlias = Callable[..., Scan]

NOW, DAY = 1_800_000_000_000, 24 * 3600 * 1000
FOLDERS = st.sampled_from(["data", "x=1", "x=2", "_hidden", "_p=1", "a b%20", "ä", "quarantine", "metadata", "0110"])
FILES = st.sampled_from(
    ["a.parquet", "b.parquet", "c%2Fd", "é.avro", ".dot", "version-hint.text", "run-4f0c9a1b.parquet"]
)
# How the table refers to a file, if it does.
KINDS = st.sampled_from(["content", "metadata", "encoded", "other-scheme", "none", "none", "young", "link"])
TREES = st.dictionaries(
    st.tuples(st.sampled_from(["one", "two"]), st.lists(FOLDERS, max_size=4).map(tuple), FILES),
    st.tuples(KINDS, st.integers(0, 5)),
    min_size=1,
    max_size=25,
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table]:
    lake = lakes.file_lake(tmp_path_factory.mktemp("scans"))
    yield lakes.make_table(lake.catalog, "db.t")
    lake.catalog.close()


@pytest.fixture(params=["fake", pytest.param("spark", marks=pytest.mark.spark)])
def engine(request: pytest.FixtureRequest) -> Engine:
    if request.param == "fake":
        return FakeEngine(cores=2)
    from iceberg_compaction.execute.engines.spark.spark_engine import SparkEngine

    return SparkEngine(request.getfixturevalue("spark"))


def grow(base: Path, tree: dict[Any, Any]) -> References:
    """The files of a tree, and the references of a table that has some of them, and one that is missing."""
    paths: dict[str, list[str]] = {"content": [f"file://{base}/one/gone.parquet"], "metadata": []}
    for (root, folders, name), (kind, size) in tree.items():
        path = base.joinpath(root, *folders, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == "link":
            path.symlink_to(base / "elsewhere")
            continue
        path.write_bytes(b"x" * size)
        age = DAY if kind == "young" else 9 * DAY
        os.utime(path, ns=((NOW - age) * 10**6,) * 2)
        if kind == "content":
            paths["content"].append(f"file://{path}")
        elif kind == "metadata":
            paths["metadata"].append(f"file:{path}".replace("/two/", "//two/"))
        elif kind == "encoded":
            paths["content"].append(f"file://{path}".replace("%", "%25").replace(" ", "%20"))
        elif kind == "other-scheme":
            paths["metadata"].append(f"hdfs://nn{path}")
    return refer(paths["content"], paths["metadata"])


def refer(content: list[str], metadata: list[str]) -> References:
    plain, whole, _ = known_paths.hashes(Spellings(), pa.array([*content, *metadata], pa.string()))
    every, first = np.unique(whole, return_index=True)
    sizes = np.array([3] * len(content) + [0] * len(metadata), dtype=np.int64)[first]
    known = KnownPaths(spellings=Spellings(), whole=every, sizes=sizes)
    return References(hashes=known, paths=np.unique(plain), content=np.unique(whole[: len(content)]))


def rules_of(base: Path, **more: Any) -> ScanRules:
    given: dict[str, Any] = {
        "older_than_ms": 3 * DAY,
        "clock": lambda: NOW,
        "unfinished": ("4f0c9a1b",),
        "quarantines": (("file://", f"{base}/one/quarantine"),),
        "partition_names": ("_p",),
        "most_files": 7,
    }
    return ScanRules(**given | more)


def facts(scan: Scan) -> dict[str, Any]:
    return {
        "counts": dict(scan.counts),
        "bytes": {kind: size for kind, size in scan.bytes.items() if size},
        "orphans": scan.table().to_pylist(),
        "kept": scan.kept_orphans,
        "mismatches": scan.mismatches,
        "content": scan.content_listed,
        "unclaimed": scan.unclaimed,
        "cutoff": scan.cutoff_ms,
    }


@given(tree=TREES, cut=st.integers(1, 40))
@examples(25)
def test_tasks_find_what_one_process_finds(table: Table, tree: dict[Any, Any], cut: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        referred, roots = grow(base, tree), [f"file://{base}/one", f"file://{base}/two"]
        here = scan_folders.scan(table.io, roots, referred, rules_of(base))
        there = spread(table, roots, referred, rules_of(base), FakeEngine(cores=cut))
        assert facts(there) == facts(here)


def spread(table: Table, roots: list[str], referred: References, rules: ScanRules, engine: Engine) -> Scan:
    return spread_scan.scan(table, roots, referred, rules, engine, wiring.new_run())


TREE = {
    ("one", ("data", f"x={number % 7}"), f"{number}.parquet"): (["content", "none", "metadata"][number % 3], number % 4)
    for number in range(60)
} | {("two", ("_hidden",), "a"): ("none", 1), ("two", (), "link"): ("link", 0), ("two", ("a%2Fb",), "f"): ("none", 2)}


def test_every_engine_finds_the_same(table: Table, engine: Engine, tmp_path: Path) -> None:
    referred, roots = (
        grow(tmp_path, TREE),
        [f"file://{tmp_path}/one", f"file://{tmp_path}/two", f"file://{tmp_path}/no"],
    )
    rules = rules_of(tmp_path, most_files=1000)
    here = facts(scan_folders.scan(table.io, roots, referred, rules))
    assert (here["counts"][Standing.ORPHAN], here["content"], here["unclaimed"]) == (21, 20, [roots[1]])
    assert facts(spread(table, roots, referred, rules, engine)) == here


def test_what_a_task_cannot_list_is_listed_here(
    table: Table, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Executors that have no such folder, or too many files for one result, say so instead of finding nothing."""
    referred, roots = grow(tmp_path, TREE), [f"file://{tmp_path}/one"]
    rules = rules_of(tmp_path, most_files=1000)
    here = facts(scan_folders.scan(table.io, roots, referred, rules))
    cut = cut_folders.cut
    monkeypatch.setattr(cut_folders, "cut", lambda *given: [*cut(*given), walk_files.FolderPart(below="/gone")])
    assert facts(spread(table, roots, referred, rules, engine)) == here
    small = KnownPaths.to_value
    monkeypatch.setattr(KnownPaths, "to_value", lambda own: small(own).model_copy(update={"most_strangers": 0}))
    assert facts(spread(table, roots, referred, rules, engine)) == here


def test_a_folder_that_nobody_can_list_stops_everything(table: Table, tmp_path: Path) -> None:
    referred, root = grow(tmp_path, TREE), f"file://{tmp_path}/one/data/x=1/1.parquet"  # a file
    with pytest.raises(errors.CompactionError):
        spread(table, [root], referred, rules_of(tmp_path), FakeEngine(cores=2))


def test_files_of_another_disk_are_not_taken_for_those_of_this_one(table: Table, tmp_path: Path) -> None:
    """An executor elsewhere may have old files where young ones are here, or files that are not here at all."""
    referred, roots = grow(tmp_path, TREE), [f"file://{tmp_path}/one"]
    page = pa.record_batch(
        [[f"{roots[0]}/data/x=1/1.parquet", f"{roots[0]}/data/only-there"], [9, 9], [5, 5], [False, False]],
        schema=walk_files.PAGE,
    )
    (confirmed,) = walk_files.confirmed(table.io, roots[0], page).to_pylist()
    assert confirmed == {"path": page["path"][0].as_py(), "size": 1, "modified_ms": NOW - 9 * DAY, "opaque": False}
    assert referred.hashes.whole.size


@given(tree=TREES, wanted=st.integers(1, 60))
@examples(25)
def test_parts_have_every_file_once(table: Table, tree: dict[Any, Any], wanted: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        grow(Path(folder), tree)
        time = walk_files.StoreTime()
        parts = cut_folders.cut(table.io, f"file://{folder}", wanted)
        pages = [page for part in parts for page in walk_files.walk_part(table.io, f"file://{folder}", part, time)]
        listed = [path for page in pages for path in page["path"].to_pylist()]
        whole = [
            path for page in walk_files.walk(table.io, f"file://{folder}", time) for path in page["path"].to_pylist()
        ]
        assert sorted(listed) == sorted(whole)
        assert len(set(listed)) == len(listed)
