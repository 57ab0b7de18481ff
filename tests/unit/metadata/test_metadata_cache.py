"""The cache gives back what was stored or nothing, whatever happens to its folder."""

from __future__ import annotations

import errno
import logging
import os
import random
import stat
import struct
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from iceberg_compaction import errors, settings
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.metadata.cache import arrow_cache

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROWS = pa.table({"path": [f"s3://lake/{number}.parquet" for number in range(1000)], "size": range(1000)})


@pytest.fixture
def cache(tmp_path: Path) -> arrow_cache.ArrowCache:
    return arrow_cache.ArrowCache(tmp_path / "cache")


def only_file(cache: arrow_cache.ArrowCache) -> Path:
    assert cache.directory is not None
    (path,) = cache.directory.iterdir()
    return path


def test_what_is_stored_is_loaded(cache: arrow_cache.ArrowCache) -> None:
    assert cache.load("a") is None
    cache.store("a", ROWS.replace_schema_metadata({"key": "value"}))
    found = cache.load("a")
    assert found is not None
    assert found.equals(ROWS)
    assert found.schema.metadata == {b"key": b"value"}
    assert arrow_cache.ArrowCache(cache.directory).load("b") is None


def test_a_loaded_table_is_mapped_and_outlives_its_entry(cache: arrow_cache.ArrowCache) -> None:
    cache.store("a", ROWS)
    before = pa.total_allocated_bytes()
    found = cache.load("a")
    assert found is not None
    assert pa.total_allocated_bytes() - before < ROWS.nbytes / 10
    cache.clear()
    cache.store("a", ROWS.slice(0, 1))
    assert found.equals(ROWS)


LARGE = pa.table({"number": pa.array(range(3 << 20), pa.int64())})


def test_a_large_table_is_written_while_others_use_it(cache: arrow_cache.ArrowCache) -> None:
    cache.store("a", LARGE)
    assert cache.load("a") == LARGE  # from memory or from disk
    assert cache.figures().entries == 1
    assert cache.load("a") == LARGE
    cache.store("b", LARGE)
    cache.remove(["b"])
    assert cache.load("b") is None


def test_what_an_entry_stands_for_goes_once_it_is_there(cache: arrow_cache.ArrowCache) -> None:
    for table in (ROWS, LARGE):
        for name in ("old", "older"):
            cache.store(name, ROWS)
        cache.store("new", table, instead_of=["old", "older"])
        assert cache.figures().entries == 1
        assert cache.load("new") == table
    small = arrow_cache.ArrowCache(cache.directory, capacity=1000)
    cache.store("old", ROWS)
    small.store("newer", LARGE, instead_of=["old"])
    assert small.figures().entries == 2
    assert cache.load("old") == ROWS


def test_a_process_ends_when_all_is_written(tmp_path: Path) -> None:
    code = (
        "import pathlib, sys, pyarrow as pa\n"
        "from iceberg_compaction.metadata.cache import arrow_cache\n"
        "table = pa.table({'number': pa.array(range(3 << 20), pa.int64())})\n"
        "arrow_cache.ArrowCache(pathlib.Path(sys.argv[1])).store('a', table)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    assert arrow_cache.ArrowCache(tmp_path).load("a") == LARGE


def test_only_the_user_may_read_it(cache: arrow_cache.ArrowCache) -> None:
    cache.store("a", ROWS)
    path = only_file(cache)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def _exchanged(data: bytes, words: tuple[int, ...]) -> bytes:
    return data.replace(struct.pack("<5q", *range(5)), struct.pack("<5q", *words), 1)


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda data: data[:-1],
    "cut at a word": lambda data: data[:8192] + data[8200:],
    "hole": lambda data: data[:8192] + bytes(512) + data[8704:],
    "flipped bit": lambda data: data[:8192] + bytes([data[8192] ^ 16]) + data[8193:],
    "bits flipped that cancel": lambda data: _exchanged(data, (0, 3, 0, 3, 4)),  # 1 and 2 before, of the same sum
    "words exchanged": lambda data: _exchanged(data, (0, 2, 1, 3, 4)),
    "blocks exchanged": lambda data: data[4096:8192] + data[:4096] + data[8192:],
    "empty": lambda data: b"",
    "foreign": lambda data: b"PAR1" * 1000,
    "longer": lambda data: data + b"x",
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
@pytest.mark.parametrize("looks", [0, 2])
def test_a_damaged_entry_is_no_entry(
    cache: arrow_cache.ArrowCache, damage: Callable[[bytes], bytes], looks: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Also if it was in order when this process looked before."""
    cache.store("a", ROWS)
    for _ in range(looks):
        assert cache.load("a") == ROWS
    path = only_file(cache)
    before = path.read_bytes()
    path.write_bytes(damage(before))
    assert path.read_bytes() != before
    with caplog.at_level(logging.WARNING):
        assert cache.load("a") is None
    assert str(path) in caplog.text
    assert not path.exists()
    cache.store("a", ROWS)
    assert cache.load("a") == ROWS


def test_an_entry_that_takes_the_place_of_a_checked_one_is_checked(
    cache: arrow_cache.ArrowCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the very moment at which this process has looked through the other."""
    cache.store("a", ROWS)
    path, utime = only_file(cache), os.utime
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 16
    (tmp_path / "damaged").write_bytes(damaged)

    def replacing(file: int) -> None:
        utime(file)
        if (tmp_path / "damaged").exists():
            (tmp_path / "damaged").replace(path)

    monkeypatch.setattr(os, "utime", replacing)
    monkeypatch.setattr(os, "supports_fd", {*os.supports_fd, replacing})
    assert cache.load("a") == ROWS
    assert cache.load("a") is None


def test_a_read_only_folder_still_serves(cache: arrow_cache.ArrowCache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.store("a", ROWS)

    def refused(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "utime", refused)
    assert [cache.load("a") for _ in range(2)] == [ROWS, ROWS]


def test_what_is_no_entry_of_ours_is_left_alone(
    cache: arrow_cache.ArrowCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.store("a", ROWS)
    path = only_file(cache)
    kept = tmp_path / "kept"
    path.rename(kept)
    path.symlink_to(kept)
    assert cache.load("a") == ROWS
    kept.write_text("of somebody else")
    assert cache.load("a") is None
    assert kept.exists()
    cache.store("a", ROWS)  # in the place of the link, and not through it
    assert kept.read_text() == "of somebody else"
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    assert cache.load("a") is None
    path.unlink()
    os.mkfifo(path)  # whoever opens that waits, unless it takes care
    assert cache.load("a") is None
    path.unlink()
    path.mkdir()
    assert cache.load("a") is None
    cache.store("a", ROWS)
    assert cache.load("a") is None


def test_a_full_disk_leaves_no_entry(tmp_path: Path) -> None:
    """Wherever in a write it is full; and what was there stays."""
    arrow_cache.ArrowCache(tmp_path).store("old", ROWS)
    code = (
        "import pathlib, resource, sys, pyarrow as pa\n"
        "from iceberg_compaction.metadata.cache import arrow_cache\n"
        "found = arrow_cache.ArrowCache(pathlib.Path(sys.argv[1]))\n"
        "table = pa.table({'number': pa.array(range(10_000), pa.int64())})\n"
        "found.store('a', table)\n"
        "size = pathlib.Path(sys.argv[1], 'a.arrow').stat().st_size\n"
        "found.remove(['a'])\n"
        "for limit in (0, 1, 4096, 50_000, size - 300, size - 17, size - 1):\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))\n"
        "    for name in ('a', 'old'):\n"
        "        found.store(name, table)\n"
        "    assert found.load('a') is None\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    assert [path.name for path in tmp_path.iterdir()] == ["old.arrow"]
    assert arrow_cache.ArrowCache(tmp_path).load("old") == ROWS


def test_the_least_recently_used_make_room(tmp_path: Path) -> None:
    trial = arrow_cache.ArrowCache(tmp_path / "trial")
    trial.store("a", ROWS)
    size = only_file(trial).stat().st_size
    cache = arrow_cache.ArrowCache(tmp_path / "cache", capacity=3 * size)
    assert cache.directory is not None
    for age, name in ((30, "a"), (20, "b"), (10, "c")):
        cache.store(name, ROWS)
        os.utime(cache.directory / f"{name}.arrow", (1_000_000_000 - age,) * 2)
    assert cache.load("a") is not None  # used now
    cache.store("d", ROWS)
    assert [name for name in "abcd" if cache.load(name) is not None] == ["a", "c", "d"]
    assert cache.figures().bytes == 3 * size


def test_what_is_larger_than_the_cache_is_not_kept(tmp_path: Path) -> None:
    cache = arrow_cache.ArrowCache(tmp_path / "cache", capacity=1000)
    cache.store("a", ROWS)
    assert list((tmp_path / "cache").iterdir()) == []
    cache.store("b", ROWS.slice(0, 1).select(["size"]))
    assert cache.load("b") is not None


def test_a_folder_that_cannot_be_used_is_done_without(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("not a folder")
    cache = arrow_cache.ArrowCache(tmp_path / "file" / "cache")
    with caplog.at_level(logging.WARNING):
        cache.store("a", ROWS)
    assert cache.load("a") is None
    assert "Nothing can be cached" in caplog.text
    assert cache.load("a") is None
    assert cache.figures().entries == 0
    cache.clear()
    cache.remove(["a"])


def test_without_a_folder_nothing_is_kept() -> None:
    cache = arrow_cache.ArrowCache(None)
    assert not cache.store("a", ROWS)
    assert cache.load("a") is None
    assert cache.clear().path is None


def test_files_of_dead_processes_go_and_those_of_living_ones_stay(cache: arrow_cache.ArrowCache) -> None:
    cache.store("a", ROWS)
    assert cache.directory is not None
    dead, alive = cache.directory / "x-1-aa.tmp", cache.directory / "y-2-bb.tmp"
    dead.touch()
    alive.touch()
    os.utime(dead, (1_000_000_000, 1_000_000_000))
    cache.store("b", ROWS)
    assert (dead.exists(), alive.exists()) == (False, True)


def test_clearing_says_what_was_there(cache: arrow_cache.ArrowCache) -> None:
    cache.store("a", ROWS)
    cache.store("b", ROWS)
    assert cache.directory is not None
    (cache.directory / "notes.txt").write_text("not ours")
    found = cache.clear()
    assert (found.entries, found.path) == (2, str(cache.directory))
    assert found.bytes > 2 * ROWS.nbytes * 0.9
    assert cache.figures().entries == 0
    assert [path.name for path in cache.directory.iterdir()] == ["notes.txt"]


def test_several_writers_and_readers_share_a_folder(tmp_path: Path) -> None:
    """Each sees whole entries only, while all of them store, load, make room and clear."""
    cache = arrow_cache.ArrowCache(tmp_path / "cache", capacity=200_000)
    tables = {str(name): ROWS.slice(0, 100 * name) for name in range(1, 8)}
    wrong: list[str] = []

    def work(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(60):
            name = chance.choice(list(tables))
            found = cache.load(name)
            if found is None:
                cache.store(name, tables[name])
            elif not found.equals(tables[name]):
                wrong.append(name)
            if chance.random() < 0.02:
                cache.clear()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert cache.figures().bytes <= 200_000


def test_several_processes_share_a_folder(tmp_path: Path) -> None:
    """Likewise, and each goes on with what it has mapped when others have removed it."""
    code = (
        "import pathlib, random, sys, pyarrow as pa\n"
        "from iceberg_compaction.metadata.cache import arrow_cache\n"
        "found = arrow_cache.ArrowCache(pathlib.Path(sys.argv[1]), capacity=60_000)\n"
        "tables = {str(n): pa.table({'number': pa.array(range(1000 * n), pa.int64())}) for n in range(1, 5)}\n"
        "chance, held = random.Random(sys.argv[2]), []\n"
        "for _ in range(150):\n"
        "    name = chance.choice(list(tables))\n"
        "    if (table := found.load(name)) is None:\n"
        "        found.store(name, tables[name])\n"
        "    else:\n"
        "        held.append((name, table))\n"
        "    if chance.random() < 0.1:\n"
        "        found.clear()\n"
        "assert held and all(table.equals(tables[name]) for name, table in held)\n"
    )
    works = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), str(seed)]) for seed in range(3)]
    assert [work.wait() for work in works] == [0, 0, 0]


@pytest.mark.parametrize(
    ("environ", "directory"),
    [
        ({"ICEBERG_COMPACTION_CACHE": "/c"}, "/c"),
        ({"ICEBERG_COMPACTION_CACHE": "off", "HOME": "/h"}, None),
        ({"ICEBERG_COMPACTION_CACHE": "OFF"}, None),
        ({"ICEBERG_COMPACTION_CACHE": "", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/iceberg-compaction"),
        ({"HOME": "/h"}, "/h/.cache/iceberg-compaction"),
        ({}, None),
    ],
)
def test_where_the_cache_is(environ: dict[str, str], directory: str | None) -> None:
    found = wiring.manifest_cache(environ)
    assert (None if found.directory is None else str(found.directory)) == directory
    assert found.capacity == settings.CACHE_BYTES


def test_how_large_the_cache_may_be() -> None:
    assert wiring.manifest_cache({"ICEBERG_COMPACTION_CACHE_SIZE": "512MB"}).capacity == 512_000_000
    with pytest.raises(errors.ConfigError, match="ICEBERG_COMPACTION_CACHE_SIZE: 'much' is not a size"):
        wiring.manifest_cache({"ICEBERG_COMPACTION_CACHE_SIZE": "much"})
