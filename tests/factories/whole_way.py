"""The whole way of a table through the command line, on any catalog and storage: found, planned, compacted, proved,
remembered, undone, compacted again, expired. A test brings the server and the words that people would type."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.table.update import SetPropertiesUpdate
from tests.factories import lake as lakes
from tests.factories import racing, storage
from typer.testing import CliRunner

from iceberg_compaction import errors
from iceberg_compaction.catalog import connect, load_tables, publish
from iceberg_compaction.interfaces.cli.app import app
from iceberg_compaction.interfaces.cli.fleet import catalog_request

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from typer.testing import Result

    from iceberg_compaction.settings import CatalogSettings

FILES = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """What somebody types, and has in the environment."""

    flags: Sequence[str]
    environment: dict[str, str] = field(default_factory=dict)
    state: Path

    def call(self, *arguments: str) -> Result:
        """One command."""
        verb, *rest = arguments
        catalog = () if verb == "history" else self.flags
        environment = {"NO_COLOR": "1", "COLUMNS": "200", "ICEBERG_COMPACTION_STATE": str(self.state)}
        with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as opened:
            # The end of a command is that of its process, which closes connections. Here none ends.
            real = catalog_request.open_catalog
            patch.setattr(catalog_request, "open_catalog", lambda options: opened.enter_context(real(options)))
            return CliRunner().invoke(app, [verb, *rest, *catalog], env=environment | self.environment)

    def document(self, *arguments: str, code: int = 0) -> Any:
        """The JSON that a command prints."""
        result = self.call(*arguments, "--output", "json")
        assert result.exit_code == code, (arguments, result.exit_code, result.stdout[-3000:], result.stderr[-3000:])
        return json.loads(result.stdout)


def sick_table(catalog: Catalog, name: str) -> Table:
    """A table of a few small files, in a namespace that may be new."""
    catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
    return lakes.append_small_files(lakes.make_table(catalog, name), FILES)


def walk(catalog: Catalog, name: str, typed: Typed, engine: str = "inline") -> None:
    """The whole way; `catalog` is another client of the same tables."""
    table = sick_table(catalog, name)
    before = storage.row_multiset(table.scan().to_arrow())
    assert name in {each["table"] for each in typed.document("doctor")}
    (group,) = typed.document("plan", "--table", name)["groups"]
    assert group["files"] == FILES

    run = _compact(typed, name, engine)
    assert (run["files_removed"], run["files_added"]) == (FILES, 1)
    _same_rows(catalog, name, before, files=1)
    assert typed.document("verify", run["run_id"])["verdict"] == "proved"
    assert [each["run_id"] for each in typed.document("history", "--table", name)] == [run["run_id"]]
    assert typed.document("undo", run["run_id"])["kind"] == "undone"
    _same_rows(catalog, name, before, files=FILES)

    _compact(typed, name, engine)
    old = {task.file.file_path for task in table.scan().plan_files()}
    time.sleep(1.1)  # so long the oldest snapshots are out of date
    expired = typed.document("expire", "--table", name, "--older-than", "1s", "--allow-recent")
    assert expired["kind"] == "maintained", expired
    table = _same_rows(catalog, name, before, files=1)
    assert len(table.snapshots()) == 1
    assert not any(table.io.new_input(path).exists() for path in old)


def race(catalog: Catalog, name: str, typed: Typed, others: Callable[[], object] | None = None) -> None:
    """A run whose commit meets somebody else's, in two places: `others` commit between the client's last look at the
    table and the catalog's compare-and-set, an appender right before. The run lands on the third attempt."""
    table = sick_table(catalog, name)
    appended = lakes.rows(table.schema().as_arrow(), 5, first=1000)
    wanted = storage.row_multiset(table.scan().to_arrow()) + storage.row_multiset(appended)
    with pytest.MonkeyPatch.context() as patch:
        racing.before_publishing(patch, lambda: catalog.load_table(name).append(appended))
        _before_compare_and_set(patch, others or (lambda: set_property(catalog, name, "in-between", "1")))
        run = _compact(typed, name, "inline")
    assert run["attempts"] == 3, run
    assert _same_rows(catalog, name, wanted, files=2).properties["in-between"] == "1"


def no_update_is_lost(
    catalog: Catalog, name: str, settings: CatalogSettings, *, writers: int = 2, times: int = 4
) -> None:
    """Writers that commit at the same time through our own publication, and try again after a conflict: what each of
    them has set is there in the end."""
    sick_table(catalog, name)
    together, failed = threading.Barrier(writers), []

    def write(writer: int) -> None:
        try:
            with connect.connect(settings) as own:
                for number in range(times):
                    together.wait(30)
                    _publish_until_it_lands(own, name, f"writer-{writer}-{number}")
        except Exception as error:  # noqa: BLE001 - shown below, in the thread of the test
            failed.append(error)
            together.abort()

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed
    kept = {key for key in catalog.load_table(name).properties if key.startswith("writer-")}
    assert kept == {f"writer-{writer}-{number}" for writer in range(writers) for number in range(times)}


def _publish_until_it_lands(catalog: Catalog, name: str, key: str) -> None:
    while True:
        table = load_tables.load_table(catalog, name)
        try:
            publish.publish(table, (), (SetPropertiesUpdate(updates={key: "1"}),), _Nobody())
        except errors.ConflictError:
            continue
        return


class _Nobody:
    """A run that remembers nothing."""

    run_id = "nobody"

    def publishing(self, metadata: str | None) -> None: ...
    def left_behind(self, paths: Any) -> None: ...


def _before_compare_and_set(patch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Act once after our new table metadata is in storage, and before the catalog is asked to take it."""
    real = publish._Publication.on_stored

    def racing_on_stored(publication: Any) -> None:
        patch.setattr(publish._Publication, "on_stored", real)
        act()
        real(publication)

    patch.setattr(publish._Publication, "on_stored", racing_on_stored)


def set_property(catalog: Catalog, name: str, key: str, value: str) -> None:
    """A commit of PyIceberg's own."""
    with catalog.load_table(name).transaction() as transaction:
        transaction.set_properties({key: value})


def complaint(typed: Typed, *arguments: str) -> str:
    """The one sentence that a command ends with."""
    began = time.monotonic()
    result = typed.call(*arguments)
    assert time.monotonic() - began < 30
    assert result.exit_code == 1, (result.exit_code, result.stdout, result.stderr)
    (line,) = (line for line in result.stderr.splitlines() if line.startswith("error: "))
    return line


def _compact(typed: Typed, name: str, engine: str) -> Any:
    outcome = typed.document("run", "--table", name, "--engine", engine)
    assert outcome["kind"] == "compacted", outcome
    return outcome


def _same_rows(catalog: Catalog, name: str, before: Any, *, files: int) -> Table:
    table = catalog.load_table(name)
    assert storage.row_multiset(table.scan().to_arrow()) == before
    assert len(list(table.scan().plan_files())) == files
    return table
