"""No reliance on private names goes without a canary; and the canaries for requests, SQLite, Arrow and DataFusion."""

from __future__ import annotations

import ast
import inspect
import socket
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

import datafusion
import pyarrow as pa
import pytest
import requests
import sqlalchemy
from pyarrow import fs
from tests.factories import canaries

from iceberg_compaction.catalog import publish, rest
from iceberg_compaction.formats.avro import avro_decode
from iceberg_compaction.formats.parquet import byte_ranges
from iceberg_compaction.storage import listing

if TYPE_CHECKING:
    from collections.abc import Iterator

SRC = Path(__file__).resolve().parents[2] / "src"
# Private names of other packages that src uses, each with the canary that watches it.
WATCHED = {
    "_active_spark_context": "test_spark_context_knows_its_jvm",
    "_HiveClient": "test_the_client_of_hive_makes_its_connections_by_methods_of_its_own",
    "_transport": "test_the_client_of_hive_makes_its_connections_by_methods_of_its_own",
    "_convert_orm_to_iceberg": "test_catalogs_open_storage_by_one_method",
    "_load_file_io": "test_catalogs_open_storage_by_one_method",
    "_buffer_size": "test_a_file_of_arrows_file_io_has_its_file_system_and_path",
    "_config_headers": "test_every_session_of_the_rest_catalog_passes_config_headers",
    "_filesystem": "test_a_file_of_arrows_file_io_has_its_file_system_and_path",
    "_find_spark_home": "test_a_jvm_of_ours_is_connected_as_sparks_own_is",
    "_gateway": "test_spark_context_knows_its_jvm",
    "_get_fs_from_uri": "test_fsspec_file_io_gives_its_file_system",
    "_get_glue_table": "test_glue_tells_the_account_of_a_table",
    "_getframe": "test_the_main_function_of_a_worker_has_its_connection_in_infile",
    "_jvm": "test_spark_context_knows_its_jvm",
    "_path": "test_a_file_of_arrows_file_io_has_its_file_system_and_path",
    "_strip_protocol": "test_fsspec_file_io_gives_its_file_system",
    "_update_and_stage_table": "test_a_sql_catalog_writes_the_metadata_that_was_staged",
}
DOCUMENTED = {"_replace"}  # of named tuples
# Names that are set on objects of other packages through `vars`, in place of methods of theirs.
REPLACED = {
    "_answered": "test_every_session_of_the_rest_catalog_passes_config_headers",  # our own
    "_convert_orm_to_iceberg": "test_catalogs_open_storage_by_one_method",
    "_initialize_gcs_fs": "test_catalogs_open_storage_by_one_method",
    "_load_file_io": "test_catalogs_open_storage_by_one_method",
    "alter_table_with_environment_context": "test_the_client_of_hive_makes_its_connections_by_methods_of_its_own",
    "_condition": "test_every_session_of_the_rest_catalog_passes_config_headers",  # our own
    "_update_and_stage_table": "test_a_sql_catalog_writes_the_metadata_that_was_staged",
    "delete": "test_arrow_file_io_asks_parse_location_about_every_path",
    "new_input": "test_arrow_file_io_asks_parse_location_about_every_path",
    "new_output": "test_arrow_file_io_asks_parse_location_about_every_path",
    "object_store": "test_a_file_of_arrows_file_io_has_its_file_system_and_path",  # our own
    "parse_location": "test_arrow_file_io_asks_parse_location_about_every_path",
    "request": "test_every_session_of_the_rest_catalog_passes_config_headers",
}


def _trees() -> Iterator[ast.Module]:
    return (ast.parse(path.read_text()) for path in SRC.rglob("*.py"))


def _private_names(tree: ast.Module) -> set[str]:
    """Private attributes of anything but oneself that the module does not define."""
    nodes = list(ast.walk(tree))
    own = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    used = {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.endswith("__")
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
    }
    return used - own | (used & own & WATCHED.keys())


def _replaced_names(tree: ast.Module) -> set[str]:
    """Constant names that are set through `vars(...)`."""
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(value=ast.Call(func=ast.Name(id="vars")), slice=ast.Constant(value=str(name))):
                found.add(name)
            case ast.Call(
                func=ast.Attribute(value=ast.Call(func=ast.Name(id="vars")), attr="setdefault"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                found.add(name)
    return found


def test_every_private_name_that_the_package_uses_has_a_canary() -> None:
    used = set().union(*map(_private_names, _trees())) - DOCUMENTED
    assert used == WATCHED.keys()


def test_every_method_that_the_package_replaces_has_a_canary() -> None:
    assert set().union(*map(_replaced_names, _trees())) == REPLACED.keys()


def test_the_canaries_exist() -> None:
    pages = [path.read_text() for path in Path(__file__).parent.glob("test_canaries*.py")]
    for name in {*WATCHED.values(), *REPLACED.values()}:
        assert any(f"def {name}(" in page for page in pages), name


def test_requests_tells_why_it_never_connected() -> None:
    with socket.socket() as taken:  # bound and not listening, so that nobody can be reached there
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(requests.ConnectionError) as caught:
            requests.get(f"http://127.0.0.1:{taken.getsockname()[1]}/", timeout=10)
    canaries.holds(
        rest.never_connected(caught.value), "requests.ConnectionError has urllib3's reason in its first argument", rest
    )


def test_all_requests_of_a_session_pass_its_method_request() -> None:
    for name in ("get", "post", "head", "delete"):
        canaries.holds(
            "self.request(" in inspect.getsource(getattr(requests.Session, name)),
            f"requests.Session.{name} calls self.request",
            rest,
        )


def test_sqlite_says_that_it_is_locked_or_read_only(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("create table t (a)")
    engines = {
        "database is locked": sqlalchemy.create_engine(f"sqlite:///{path}", connect_args={"timeout": 0}),
        "readonly database": sqlalchemy.create_engine(f"sqlite:///file:{path}?mode=ro&uri=true"),
    }
    for said, engine in engines.items():
        if said == "database is locked":
            holder.execute("begin exclusive")
        with engine.connect() as connection, pytest.raises(sqlalchemy.exc.DBAPIError) as caught:
            connection.execute(sqlalchemy.text("insert into t values (1)"))
        canaries.holds(said in str(caught.value.orig), f'SQLite says "{said}"', publish)
        engine.dispose()
        if holder.in_transaction:
            holder.execute("rollback")
    holder.close()


def test_fsspec_says_when_a_file_was_written(tmp_path: Path) -> None:
    from pyiceberg.io.fsspec import FsspecFileIO

    (tmp_path / "a").touch()
    (file,) = listing.list_files(FsspecFileIO({}), tmp_path.as_uri(), lambda name: True)
    canaries.holds(file.modified == (tmp_path / "a").stat().st_mtime, "fsspec tells the time as mtime", listing)


def test_arrow_reads_ranges_from_several_threads() -> None:
    canaries.holds(hasattr(pa.NativeFile, "read_at"), "Arrow's files have read_at(length, start)", byte_ranges)
    with pa.BufferReader(b"abcdef") as stream:
        canaries.holds(stream.read_at(2, 3) == b"de", "Arrow's read_at takes length, then start", byte_ranges)


def test_arrow_lists_files_with_their_times(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    (info,) = fs.LocalFileSystem().get_file_info(fs.FileSelector(str(tmp_path)))
    canaries.holds(info.mtime_ns == (tmp_path / "a").stat().st_mtime_ns, "Arrow's FileInfo has mtime_ns", listing)


def test_datafusion_takes_the_settings_that_keep_rows_in_order() -> None:
    source = inspect.getsource(avro_decode)
    for key in ("datafusion.execution.target_partitions", "datafusion.execution.batch_size"):
        assert f'"{key}"' in source
        context = datafusion.SessionContext(datafusion.SessionConfig({key: "7"}).with_information_schema(True))
        (row,) = context.sql(f"show {key}").to_pylist()
        canaries.holds(row["value"] == "7", f"DataFusion knows the setting {key}", avro_decode)
