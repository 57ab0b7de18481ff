"""R52: a path is opened, written and removed exactly as it stands in metadata, or refused before writing."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.fsspec import FsspecFileIO
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record
from tests.factories import lake as lakes
from tests.factories import manifests, storage

from iceberg_compaction import Compactor, Kind, errors
from iceberg_compaction.catalog import load_tables
from iceberg_compaction.settings import CatalogSettings
from iceberg_compaction.storage import exact_paths, remove

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table
    from tests.factories import servers

ODD = ["a#b", "a?b", "#", "a%23b", "a%2Fb", "a+b", "a b ", "a;b", "a\nb", "a\\b", "ü", "u\u0308", "a:b@c", "[a]", "~"]


def compact(lake: lakes.Lake, name: str = "t") -> tuple[Kind, str]:
    options = {"rewrite-all": True}
    found = Compactor(lake.settings, "full", engine="inline", options=options).compact_table(lake.name(name))
    return found.kind, found.sentence


def adopt(table: Table, path: str) -> Table:
    """The table with one more file, which was written by somebody who takes paths as they are."""
    rows = lakes.rows(table.schema().as_arrow(), 5, first=100)
    with exact_paths.exact(PyArrowFileIO(table.io.properties)).new_output(path).create() as stream:
        pq.write_table(rows, stream)
        size = stream.tell()
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=5,
        file_size_in_bytes=size,
    )
    file.spec_id = 0
    return manifests.add_files(table, [file])


@pytest.mark.parametrize("name", ODD)
def test_a_file_is_found_and_removed_where_its_path_says_and_never_another(tmp_path: Path, name: str) -> None:
    whole, cut = f"{tmp_path}/{name}", {tmp_path / name.split(mark)[0] for mark in "#?;\n" if name.split(mark)[0]}
    for path in cut:
        path.write_bytes(b"somebody else's")
    io = exact_paths.exact(PyArrowFileIO())
    for location in (f"file://{whole}", f"file:{whole}", whole):
        with io.new_output(location).create(overwrite=True) as stream:
            stream.write(b"ours")
        assert io.new_input(location).open().read() == b"ours"
        assert remove.remove_files(io, [location], remove.RemovalProof.NOT_COMMITTED) == ()
        assert {path.name for path in tmp_path.iterdir()} == {path.name for path in cut} - {name}
    assert all(path.read_bytes() == b"somebody else's" for path in cut if path.name != name)


@pytest.mark.parametrize(
    "name", ["a#b.parquet", "a?b.parquet", "a%2Fb#c\n?d.parquet", "a//b.parquet", "x/../b.parquet"]
)
def test_files_with_odd_paths_are_compacted_as_they_stand(local_lake: lakes.Lake, name: str) -> None:
    table = lakes.append_small_files(lakes.make_table(local_lake.catalog, "db.t"), 2)
    before = storage.row_multiset(table.scan().to_arrow())
    adopted = lakes.rows(table.schema().as_arrow(), 5, first=100)
    (Path(table.location().removeprefix("file://")) / "data" / "x").mkdir()
    adopt(table, f"{table.location()}/data/{name}")

    kind, sentence = compact(local_lake)

    assert kind is Kind.COMPACTED, sentence
    table.refresh()
    assert storage.row_multiset(table.scan().to_arrow()) == before + storage.row_multiset(adopted)


@pytest.mark.server
@pytest.mark.parametrize("name", ["a#b.parquet", "a?b.parquet", "a%2Fb.parquet", "a+b c;d.parquet"])
def test_files_with_odd_paths_in_s3_are_compacted_as_they_stand(s3_lake: lakes.Lake, name: str) -> None:
    table = lakes.append_small_files(lakes.make_table(s3_lake.catalog, s3_lake.name("t")), 2)
    before = storage.row_multiset(table.scan().to_arrow())
    adopted = lakes.rows(table.schema().as_arrow(), 5, first=100)
    adopt(table, f"{table.location()}/data/{name}")

    kind, sentence = compact(s3_lake)

    assert kind is Kind.COMPACTED, sentence
    table.refresh()
    assert storage.row_multiset(table.scan().to_arrow()) == before + storage.row_multiset(adopted)


@pytest.mark.parametrize("form", ["{}/t", "file:{}/t", "FILE://{}//t", "file://{}/x/../t"])
def test_every_way_to_write_a_local_location(local_lake: lakes.Lake, tmp_path: Path, form: str) -> None:
    (tmp_path / "x").mkdir()
    table = local_lake.catalog.create_table("db.t", lakes.NUMBERS, location=form.format(tmp_path))
    before = storage.row_multiset(lakes.append_small_files(table, 2).scan().to_arrow())

    assert compact(local_lake)[0] is Kind.COMPACTED

    table.refresh()
    assert storage.row_multiset(table.scan().to_arrow()) == before
    assert all(path.startswith(form.format(tmp_path)) for path in table.inspect.files()["file_path"].to_pylist())


@pytest.mark.server
def test_a_table_that_has_a_bucket_for_itself_under_several_schemes(
    s3_server: servers.S3Server, tmp_path: Path
) -> None:
    bucket = f"b{uuid.uuid4().hex[:12]}"
    store = pafs.S3FileSystem(
        access_key=s3_server.access_key,
        secret_key=s3_server.secret_key,
        region="us-east-1",
        endpoint_override=s3_server.s3_endpoint,
        allow_bucket_creation=True,
    )
    store.create_dir(bucket)
    uri = f"sqlite:///{tmp_path}/catalog.db"
    settings = CatalogSettings(uri=uri, warehouse=f"s3://{bucket}", properties=s3_server.s3_properties)
    with SqlCatalog("default", uri=uri, warehouse=f"s3://{bucket}", **s3_server.s3_properties) as catalog:
        lake = lakes.Lake(settings=settings, catalog=catalog, namespace="db")
        catalog.create_namespace("db")
        table = catalog.create_table("db.t", lakes.NUMBERS, location=f"s3://{bucket}/")
        lakes.append_small_files(table, 2)
        with table.transaction() as change:
            change.set_properties({"write.data.path": f"s3a://{bucket}/data"})
        before = storage.row_multiset(lakes.append_small_files(table, 2).scan().to_arrow())

        assert compact(lake)[0] is Kind.COMPACTED

        table.refresh()
        assert storage.row_multiset(table.scan().to_arrow()) == before
        (path,) = table.inspect.files()["file_path"].to_pylist()
        assert path.startswith(f"s3a://{bucket}/data/")


@pytest.mark.parametrize("key", ["write.data.path", "write.metadata.path"])
@pytest.mark.parametrize(
    ("folder", "why"),
    [("{}#b", "has '#' in it, where readers that take paths for URIs cut it"), ("data", "is relative")],
)
def test_folders_where_some_reader_would_not_look_are_refused_before_writing(
    local_lake: lakes.Lake, key: str, folder: str, why: str
) -> None:
    table = lakes.append_small_files(lakes.make_table(local_lake.catalog, "db.t"), 2)
    asked = folder.format(table.location())
    before = storage.files_under(table)
    updated = table.metadata.model_copy(update={"properties": {key: asked}})
    Path(table.metadata_location.removeprefix("file://")).write_text(updated.model_dump_json(exclude_none=True))

    kind, sentence = compact(local_lake)

    assert kind is Kind.UNSUPPORTED, sentence
    assert f"New files cannot be placed in '{asked}' ({key}): the path {why}" in sentence
    assert storage.files_under(table) == before


FORBIDDEN = {
    "s3://bucket/a#b": "has '#' in it",
    "s3://bucket/a?b": r"has '\?' in it",
    "file:///a\nb": r"has '\\n' in it",
    "data/a": "is relative",
    "": "is relative",
    " s3://bucket/a": "is relative",
    "file://data/a": "names a host",
    "file:data/a": "names a host",
    "/data/a": "has no scheme",
    "s3://bucket/a/../b": r"has a '\.' or '\.\.' in it",
    "s3://bucket/./b": r"has a '\.' or '\.\.' in it",
    "s3://bucket//b": "has two slashes",
    "s3:///b": "names no bucket",
    "s3:/b": "names no bucket",
    "s3://bucket#/b": "has a bucket or host that is none",
    "s3://bucket/a/": "ends in a slash",
}


@pytest.mark.parametrize("path", FORBIDDEN)
def test_paths_that_no_new_file_gets(path: str) -> None:
    with pytest.raises(errors.UnsupportedError, match=FORBIDDEN[path]):
        exact_paths.check_new(path, "s3://bucket/t")


@pytest.mark.parametrize(
    "path",
    [
        "S3://Bucket/a b+c%23;d",
        "s3a://b/ü~.../x",
        "file:/a//b/../c",
        "hdfs://nn//a",
        "viewfs:///a",
        "gs://b/[a]",
        "dbfs:/a",
    ],
)
def test_paths_that_are_the_same_for_all_readers(path: str) -> None:
    assert exact_paths.check_new(path, "s3://bucket/t") == path
    assert exact_paths.exact(PyArrowFileIO()).parse_location(path) == PyArrowFileIO.parse_location(path)  # type: ignore[attr-defined]


def test_a_table_without_a_scheme_has_files_without_one() -> None:
    assert exact_paths.check_new("/t/data/a", "/t") == "/t/data/a"
    assert exact_paths.exact(PyArrowFileIO({"DEFAULT_SCHEME": "hdfs", "DEFAULT_NETLOC": "nn"})).parse_location(  # type: ignore[attr-defined]
        "/t/a#b", {"DEFAULT_SCHEME": "hdfs", "DEFAULT_NETLOC": "nn"}
    ) == ("hdfs", "nn", "/t/a#b")


def test_a_file_io_that_may_cut_paths_is_not_asked(tmp_path: Path) -> None:
    io: FileIO = exact_paths.exact(exact_paths.exact(FsspecFileIO({})))
    (tmp_path / "a").write_bytes(b"another")
    for use in (io.new_input, io.new_output, io.delete):
        with pytest.raises(errors.UnsupportedError, match="has '#' in it, where FsspecFileIO may cut it"):
            use(f"file://{tmp_path}/a#b")
    with io.new_output(f"{tmp_path}/b c").create() as stream:
        stream.write(b"x")
    io.delete(io.new_input(f"file://{tmp_path}/b c"))
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.server
def test_nothing_is_removed_from_s3_by_a_path_that_leads_elsewhere(s3_lake: lakes.Lake) -> None:
    lakes.append_small_files(lakes.make_table(s3_lake.catalog, s3_lake.name("t")), 1)
    table = load_tables.load_table(s3_lake.catalog, s3_lake.name("t"))
    (path,) = table.inspect.files()["file_path"].to_pylist()
    folder, _, name = path.rpartition("/")
    odd = [f"{folder}/x/../{name}", f"{folder}/./{name}", f"{path}/", f"{path}#x", f"{path}?x", f"{folder}//{name}"]
    left = remove.remove_files(table.io, odd, remove.RemovalProof.NOT_COMMITTED)
    assert set(left) >= {one for one in odd if one[len(path) :] not in ("#x", "?x")}
    assert table.scan().to_arrow().num_rows == 10
