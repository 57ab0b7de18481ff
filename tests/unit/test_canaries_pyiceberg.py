"""Canaries for PyIceberg: private methods that are called or replaced, names and texts that decide something."""

from __future__ import annotations

import ast
import inspect
import json
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

import pyiceberg
import pytest
import requests
from pyiceberg import catalog as catalogs
from pyiceberg import expressions, io, transforms, types
from pyiceberg.catalog import hive as pyiceberg_hive
from pyiceberg.catalog import sql
from pyiceberg.catalog.rest import Endpoints, RestCatalog, response
from pyiceberg.io import fsspec
from pyiceberg.io import pyarrow as pyarrow_io
from pyiceberg.table import locations, update
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from tests.factories import canaries
from tests.factories import lake as lakes

from iceberg_compaction.catalog import (
    catalog_identity,
    connect,
    metadata_log,
    publish,
    rest,
    staged_metadata,
    threads,
)
from iceberg_compaction.catalog import sql as own_sql
from iceberg_compaction.catalog.drivers import hive
from iceberg_compaction.execute.worker.output import column_bounds
from iceberg_compaction.execute.worker.output import locations as output_locations
from iceberg_compaction.metadata import target_partitions
from iceberg_compaction.metadata.filter import fit_conditions
from iceberg_compaction.storage import exact_paths, file_io, file_names, listing, s3_client, translate
from iceberg_compaction.storage.clouds import gcs_client
from iceberg_compaction.storage.s3 import object_files

if TYPE_CHECKING:
    from types import ModuleType

HOME = Path(pyiceberg.__file__).parent


def test_every_session_of_the_rest_catalog_passes_config_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    timeouts = []

    def answer(_: object, request: requests.PreparedRequest, timeout: object = None, **more: Any) -> requests.Response:
        timeouts.append(timeout)
        answered = requests.Response()
        answered.status_code, answered.url = 200, request.url or ""
        answered._content = json.dumps({"defaults": {}, "overrides": {"prefix": "p"}, "namespaces": []}).encode()
        return answered

    monkeypatch.setattr("requests.adapters.HTTPAdapter.send", answer)
    catalog = rest.TimedRestCatalog("c", uri="http://nowhere.invalid")
    catalog.list_namespaces()
    canaries.holds(timeouts == [(10.0, 120.0)] * 2, "RestCatalog gives every session to _config_headers first", rest)
    canaries.holds(
        catalog.properties.get("prefix") == "p", "RestCatalog keeps the server's prefix in properties", catalog_identity
    )
    catalog.close()


def test_tokens_come_from_an_address_that_is_known_by_its_end() -> None:
    canaries.holds(
        f"/{Endpoints.get_token}".endswith(rest._NEW_TOKEN), "RestCatalog asks for tokens at oauth/tokens", rest
    )


@pytest.mark.parametrize("status", [403, 409, 500])
def test_errors_of_the_rest_catalog_keep_the_http_status(status: int) -> None:
    answer = requests.Response()
    answer.status_code = status
    with pytest.raises(requests.HTTPError) as caught:
        answer.raise_for_status()
    with pytest.raises(Exception, match=r".") as translated:
        response._handle_non_200_response(caught.value, {})
    canaries.holds(
        translate.http_status(translated.value) == status, "the cause of a REST error is requests.HTTPError", translate
    )


def test_a_sql_catalog_writes_the_metadata_that_was_staged(tmp_path: Path) -> None:
    catalog = lakes.local_catalog(tmp_path)
    table = lakes.make_table(catalog, "db.t")
    run_id, order = "0123456789abcdef" * 2, []
    listener = SimpleNamespace(
        on_staged=lambda base, staged: order.append("staged"), on_stored=lambda: order.append("written")
    )
    named = staged_metadata.naming(catalog, run_id, listener)
    named.commit_table(table, (), (update.SetPropertiesUpdate(updates={"a": "b"}),))
    location = catalog.load_table("db.t").metadata_location
    canaries.holds(
        order == ["staged", "written"] and file_names.is_of_run(location, run_id),
        "SqlCatalog.commit_table writes what _update_and_stage_table returns, with its io, at its location",
        staged_metadata,
    )
    catalog.close()


@pytest.mark.parametrize(("module", "name"), [("hive", "HiveCatalog"), ("glue", "GlueCatalog")])
def test_other_catalogs_write_the_metadata_that_was_staged(module: str, name: str) -> None:
    """Their drivers need not be installed, so their source is read."""
    method = _method(module, name, "commit_table")
    for text in (
        "updated_staged_table = self._update_and_stage_table(current_table,",
        "(metadata=updated_staged_table.metadata, io=updated_staged_table.io,"
        " metadata_path=updated_staged_table.metadata_location)",
    ):
        canaries.holds(text in method, f"{name}.commit_table has: {text}", staged_metadata)


def test_glue_tells_the_account_of_a_table() -> None:
    canaries.holds(
        "def _get_glue_table(self, database_name: str, table_name: str)"
        in _method("glue", "GlueCatalog", "_get_glue_table"),
        "GlueCatalog._get_glue_table takes database and name",
        catalog_identity,
    )
    canaries.holds(
        "self.glue.get_table(" in _method("glue", "GlueCatalog", "_get_glue_table"),
        "GlueCatalog has its client in `glue`",
        catalog_identity,
    )


def _method(module: str, name: str, method: str) -> str:
    """The source of a method of a catalog, in one line each statement."""
    tree = ast.parse((HOME / "catalog" / f"{module}.py").read_text())
    kinds = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
    found = [node for kind in kinds for node in kind.body if isinstance(node, ast.FunctionDef) and node.name == method]
    return ast.unparse(found[0]) if found else ""


@pytest.mark.parametrize("user", [catalog_identity, threads], ids=lambda module: module.__name__)
def test_catalogs_are_known_by_the_names_of_their_classes(user: ModuleType) -> None:
    canaries.holds(sql.SqlCatalog.__module__ == "pyiceberg.catalog.sql", "SqlCatalog is in pyiceberg.catalog.sql", user)
    canaries.holds(RestCatalog.__module__.startswith("pyiceberg.catalog."), "RestCatalog is in pyiceberg.catalog", user)
    for module, name in (("hive", "HiveCatalog"), ("glue", "GlueCatalog")):
        canaries.holds(_method(module, name, "commit_table"), f"{name} is in pyiceberg.catalog.{module}", user)


def test_catalogs_whose_clients_write_metadata_have_a_common_base() -> None:
    reliance = "MetastoreCatalog is the base of catalogs whose clients write metadata, and of no other"
    is_base = issubclass(sql.SqlCatalog, catalogs.MetastoreCatalog)
    canaries.holds(is_base and not issubclass(RestCatalog, catalogs.MetastoreCatalog), reliance, staged_metadata)


def test_a_sql_catalog_creates_no_tables_unless_asked(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    sql.SqlCatalog("c", uri=f"sqlite:///{path}", init_catalog_tables="false").close()
    canaries.holds(
        not path.exists() or not path.stat().st_size, "SqlCatalog knows the property init_catalog_tables", connect
    )


def test_a_snapshot_that_another_branch_outran_is_refused_in_known_words(tmp_path: Path) -> None:
    catalog = lakes.local_catalog(tmp_path)
    table = lakes.append_small_files(lakes.make_table(catalog, "db.t"), 2)
    late = Snapshot(
        snapshot_id=1,
        parent_snapshot_id=table.metadata.current_snapshot_id,
        sequence_number=1,
        manifest_list="file:///none",
        summary=Summary(Operation.APPEND),
        schema_id=0,
    )
    with pytest.raises(ValueError, match=r".") as caught:
        catalog.commit_table(table, (), (update.AddSnapshotUpdate(snapshot=late),))
    canaries.holds(publish._OUTRUN in str(caught.value), f'PyIceberg says "{publish._OUTRUN}"', publish)
    catalog.close()


def test_a_file_of_arrows_file_io_has_its_file_system_and_path(tmp_path: Path) -> None:
    path = str(tmp_path / "a")
    file = pyarrow_io.PyArrowFileIO().new_input(path)
    same = pyarrow_io.PyArrowFile(file.location, file._path, file._filesystem, file._buffer_size)
    same.create().close()
    canaries.holds(
        (file._path, file.exists()) == (path, True),
        "PyArrowFile is made of _path, _filesystem and _buffer_size",
        object_files,
    )


def test_arrow_file_io_asks_parse_location_about_every_path(tmp_path: Path) -> None:
    store = pyarrow_io.PyArrowFileIO()
    asked = []

    def parse(location: str, properties: Any = None) -> tuple[str, str, str]:
        asked.append(location)
        return "file", "", location

    vars(store)["parse_location"] = parse
    path = str(tmp_path / "a#b")
    store.new_output(path).create().close()
    canaries.holds(
        store.new_input(path).exists(), "PyArrowFileIO opens the path that parse_location gives", exact_paths
    )
    store.delete(path)
    canaries.holds(
        asked == [path] * 3 and not list(tmp_path.iterdir()),
        "PyArrowFileIO.new_output, new_input and delete ask self.parse_location",
        exact_paths,
    )
    canaries.holds(
        pyarrow_io.PyArrowFileIO.parse_location(path, {"DEFAULT_SCHEME": "s3", "DEFAULT_NETLOC": "b"})[:2]
        == ("s3", "b"),
        "PyArrowFileIO takes DEFAULT_SCHEME and DEFAULT_NETLOC for paths without a scheme",
        exact_paths,
    )


def test_file_ios_are_known_by_the_names_of_their_classes() -> None:
    for kind in (pyarrow_io.PyArrowFileIO, fsspec.FsspecFileIO):
        name = f"{kind.__module__}.{kind.__name__}"
        known = name in ("pyiceberg.io.pyarrow.PyArrowFileIO", "pyiceberg.io.fsspec.FsspecFileIO")
        canaries.holds(known, "PyArrowFileIO and FsspecFileIO have these names", listing)
    canaries.holds(
        pyarrow_io.PyArrowFileIO().fs_by_scheme("file", None).type_name == "local",
        "PyArrowFileIO.fs_by_scheme gives a file system of Arrow",
        listing,
    )


def test_fsspec_file_io_gives_its_file_system(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    folder = tmp_path.as_uri()
    store = fsspec.FsspecFileIO({})._get_fs_from_uri(urlparse(folder), folder)
    reliance = "FsspecFileIO._get_fs_from_uri gives a file system of fsspec, with _strip_protocol and invalidate_cache"
    store.invalidate_cache()
    canaries.holds(
        list(store.find(store._strip_protocol(folder), detail=True)) == [str(tmp_path / "a")], reliance, listing
    )


def test_arrows_s3_client_gets_our_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr("pyarrow.fs.S3FileSystem", lambda **arguments: given.update(arguments))
    pyarrow_io.PyArrowFileIO({**s3_client.DEFAULTS, "s3.region": "eu-west-1"}).fs_by_scheme("s3", "bucket")
    reliance = "PyArrowFileIO makes its S3 client with the properties s3.*-timeout and s3.retry-strategy-impl"
    canaries.holds(isinstance(given.get("retry_strategy"), s3_client.Retries), reliance, s3_client)
    canaries.holds((given.get("connect_timeout"), given.get("request_timeout")) == (10.0, 30.0), reliance, s3_client)
    canaries.holds(given["retry_strategy"].max_attempts == s3_client.TRIES, "Arrow counts all tries", s3_client)


def test_properties_that_workers_need_have_these_names() -> None:
    names = {io.PY_IO_IMPL, pyarrow_io.BUFFER_SIZE, "DEFAULT_SCHEME", "DEFAULT_NETLOC"}
    canaries.holds(names == file_io._KEYS, "a FileIO without a prefix of its own reads just these properties", file_io)
    stores = ("S3_", "GCS_", "ADLS_", "HDFS_", "HF_", "AWS_")
    keys = [key for name, key in vars(io).items() if name.startswith(stores) and not name.endswith("_DEFAULT")]
    prefixes = {f"{key.partition('.')[0]}." for key in keys}
    canaries.holds(prefixes == set(file_io._PREFIXES), "properties of file stores have these prefixes", file_io)


def test_location_providers_know_their_folder_and_ask_a_partition_for_its_path_only() -> None:
    provider = locations.load_location_provider("s3://b/t", {"write.metadata.path": "s3://b/m/"})
    canaries.holds(provider.metadata_path == "s3://b/m", "location providers have metadata_path", metadata_log)
    partition: Any = output_locations._PartitionPath("day=1")
    for properties in ({}, {"write.object-storage.enabled": "true"}):
        provider = locations.load_location_provider("s3://b/t", properties)
        path = provider.new_data_location("x.parquet", partition)
        canaries.holds(
            path.endswith("/day=1/x.parquet"), "location providers use to_path of a partition only", output_locations
        )


def test_parts_of_expressions_have_these_names() -> None:
    name = expressions.EqualTo("a", 1)
    canaries.holds(
        all(hasattr(expressions.And(name, expressions.IsNull("b")), side) for side in ("left", "right")),
        "conditions hold others in left and right",
        fit_conditions,
    )
    canaries.holds(hasattr(expressions.GreaterThan("a", 1.5), "literal"), "predicates have `literal`", fit_conditions)
    canaries.holds(expressions.And(name, expressions.AlwaysTrue()) is name, "AND with true is the rest", fit_conditions)


def test_parts_of_types_and_transforms_have_these_names() -> None:
    canaries.holds(
        transforms.TruncateTransform(width=3).width == 3 and not hasattr(transforms.BucketTransform(3), "width"),
        "only truncate has a width",
        target_partitions,
    )
    kind = types.StructType(types.NestedField(1, "a", types.LongType(), required=False))
    canaries.holds(len(kind.fields) == 1, "structs have `fields`", column_bounds)


def test_the_client_of_hive_makes_its_connections_by_methods_of_its_own() -> None:
    source = inspect.getsource(pyiceberg_hive._HiveClient)
    parts = ("self._transport = self._init_thrift_transport()", "def _client(self)", "return self._client()")
    canaries.holds(all(part in source for part in parts), "_HiveClient opens what its own methods make", hive)
    updates = "alter_table_with_environment_context" in inspect.getsource(pyiceberg_hive.HiveCatalog)
    canaries.holds(updates, "HiveCatalog commits by alter_table_with_environment_context", hive)


def test_catalogs_open_storage_by_one_method() -> None:
    opened = all("self._load_file_io(" in inspect.getsource(kind) for kind in (RestCatalog, sql.SqlCatalog))
    canaries.holds(opened, "catalogs make the FileIO of a table by _load_file_io", gcs_client)
    made = "self._convert_orm_to_iceberg(" in inspect.getsource(sql.SqlCatalog.load_table)
    canaries.holds(made, "SqlCatalog makes tables by _convert_orm_to_iceberg", own_sql)
    chosen = "self._initialize_gcs_fs(" in inspect.getsource(pyarrow_io.PyArrowFileIO)
    canaries.holds(chosen, "PyArrowFileIO opens Google's store by _initialize_gcs_fs", gcs_client)
