"""The library used wrongly: each time one sentence of our own errors says what is wrong and what to do, and nothing of
Python's fails deep inside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.catalog.sql import SqlCatalog

from iceberg_compaction import Client, Compactor, EmptyPlan, errors, execute_task, load_plan, save_plan, tasks

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SCHEMA = pa.schema([("id", pa.int64())])


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Any:
    catalog = InMemoryCatalog("shop", warehouse=f"file://{tmp_path_factory.mktemp('shop')}")
    catalog.create_namespace("db")
    catalog.create_table("db.t", SCHEMA)
    yield catalog
    catalog.close()


@pytest.fixture
def compactor(catalog: Any) -> Compactor:
    return Compactor(catalog, engine="inline")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (5, "A catalog is needed, not a value of type int: its name in PyIceberg's configuration, its URI, its prop"),
        (None, "A catalog is needed, not a value of type NoneType"),
        ("", "A catalog is needed, not an empty text"),
        (InMemoryCatalog, "A catalog is needed, not a value of type ABCMeta"),
        (b"prod", "A catalog is needed, not a value of type bytes"),
        ({}, "The catalog's properties lack the uri: give where it is, such as {"),
        ({"warehouse": "prod"}, "The catalog's properties lack the uri"),
        ({"uri": 5}, "The catalog's property 'uri' is not text"),
        ({5: "sqlite://"}, "The catalog's property 5 is not text"),
    ],
)
def test_what_is_no_catalog_is_told(given: Any, told: str) -> None:
    with pytest.raises(errors.ConfigError) as caught:
        Compactor(given)
    assert told in str(caught.value)


def test_a_catalog_may_be_given_by_its_properties(tmp_path: Path) -> None:
    properties = {"name": "shop", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}"}
    SqlCatalog(**properties).close()
    compactor = Compactor(properties, engine="inline")
    with compactor.catalog:
        assert (compactor.catalog.name, compactor.list_tables()) == ("shop", [])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"stratgy": "full"}, r"Compactor has no argument stratgy \(did you mean strategy\?\); the arguments are cata"),
        ({"strategy": "best"}, r"'best' is not a strategy; choose one of small-files"),
        ({"strategy": 5}, r"Wrong value for strategy: it must be the name of a strategy"),
        ({"target_file_size": []}, r"target_file_size of Compactor must be a whole number or text, not a value of typ"),
        ({"options": "min-input-files=2"}, r"options of Compactor must be a mapping, not a value of type str\."),
        ({"options": {5: 1}}, r"The name of an option is text, such as min-input-files, not 5\."),
        ({"options": {"min-input-files": "many"}}, r"Wrong value for min-input-files: it must be a whole number\."),
        ({"options": {"min-input-file": 2}}, r"Unknown option min-input-file \(did you mean min-input-files\?\)"),
        ({"write_options": "a=b"}, r"write_options of Compactor must be a mapping"),
        ({"branch": None}, r"branch of Compactor must be text, not a value of type NoneType\."),
        ({"namespace": 5}, r"namespace of Compactor must be text"),
        ({"on_event": 5}, r"on_event of Compactor must be a function"),
        ({"state": 5}, r"state of Compactor must be text or a path"),
        ({"deadline": "soon"}, r"'soon' is not a duration; write it as 90s"),
        ({"deadline": True}, r"deadline of Compactor must be a number or text"),
        ({"progress": "no"}, r"progress of Compactor must be True or False"),
        ({"engine": 5}, r"An engine is one of spark, inline, auto, or an object with cores\(\) and start\(\)"),
        ({"engine": "trino"}, r"'trino' is not an engine; choose one of"),
        ({"spark": 5}, r"A SparkSession is needed, not a value of type int\."),
        ({"policy": 5}, r"A policy is a file, a mapping"),
    ],
)
def test_arguments_of_another_kind_are_told(catalog: Any, arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(errors.ConfigError, match=told):
        Compactor(catalog, **{"engine": "inline", **arguments})


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda c: c.plan_table(5), r"name of plan_table must be text, not a value of type int\."),
        (lambda c: c.compact_table(("db", "t")), r"name of compact_table must be text, not a value of type tuple\."),
        (lambda c: c.inspect_table(None), r"name of inspect_table must be text"),
        (lambda c: c.plan_table(""), r"'' is not a table name"),
        (lambda c: c.plan_table(), r"plan_table cannot be called so: missing a required argument: 'name'"),
        (lambda c: c.plan_table("db.t", 5), r"plan_table cannot be called so: too many positional arguments"),
        (lambda c: c.list_tables(5), r"pattern of list_tables must be text"),
        (lambda c: c.apply("plan.json"), r"A plan of plan_table or load_plan is needed, not a value of type str\."),
        (lambda c: c.tasks({}), r"A plan of plan_table or load_plan is needed"),
        (lambda c: c.commit(c.plan_table("db.t"), 5), r"results of commit must be a list"),
        (lambda c: c.report(5), r"run_id of report must be text"),
        (lambda c: c.history(kind="fine"), r"'fine' is not one of compacted, healthy"),
        (lambda c: c.history(limit="all"), r"limit of history must be a whole number"),
        (lambda c: c.cancel(5), r"run_id of cancel must be text"),
        (lambda c: c.maintain("db.t", 5), r"steps of maintain must be a list or text"),
        (lambda c: c.rewrite_manifests("db.t", spec_id="x"), r"spec_id of rewrite_manifests must be a whole number"),
        (lambda c: c.expire_rows("db.t"), r"expire_rows cannot be called so: missing a required argument: 'column'"),
        (lambda c: c.expire_rows("db.t", column="id", older_than=[]), r"older_than of expire_rows must be a number or"),
        (lambda c: c.expire_snapshots("db.t", older="7d"), r"has no argument older \(did you mean older_than\?\)"),
        (lambda c: c.plan_expire("db.t", deletes="7d"), r"the arguments are older_than,.* deletes_per_second\."),
        (lambda c: c.plan_expire("db.t", deletes_per_second="x"), r"x files each second is no pace"),
        (lambda c: c.plan_expire("db.t", snapshot_ids=["x"]), r"Wrong value for snapshot_ids\.0"),
        (lambda c: c.make_tags("db.t", everey="day"), r"make_tags has no argument everey \(did you mean every\?\)"),
        (lambda c: c.plan_statistics("db.t", column=[]), r"has no argument column \(did you mean columns\?\)"),
        (lambda c: c.repair_table("db.t", shallow=True), r"repair_table has no argument shallow"),
        (lambda c: c.clean_deletes("db.t", where=5), r"where of clean_deletes must be text"),
        (lambda c: c.clean_deletes("db.t", verify="no"), r"'no' is not one of counts, checksum, deep"),
        (lambda c: c.find_orphans("db.t", older_than=[]), r"\[\] is not a duration"),
        (lambda c: c.purge_orphans("db.t", older_than=[]), r"older_than of purge_orphans must be a number or text"),
        (lambda c: Compactor.builder().catlog("x"), r"Compactor has no argument catlog"),
        (lambda c: Compactor.builder().build(), r"A Compactor needs a catalog"),
        (lambda c: Compactor.from_spark(None), r"A SparkSession is needed, such as SparkSession"),
        (lambda c: Compactor.from_spark(5, "lake"), r"A SparkSession is needed, not a value of type int"),
        (lambda c: Compactor.from_spark(object(), 5), r"catalog of from_spark must be text"),
        (lambda c: tasks(5, c.catalog), r"A plan of plan_table or load_plan is needed"),
        (lambda c: execute_task(5), r"A task of tasks\(plan, \.\.\.\) is needed"),
        (lambda c: load_plan(5), r"The name of a plan's file is needed"),
        (lambda c: save_plan(5, "plan.json"), r"save_plan takes a plan and the name of a file"),
        (lambda c: Client(5), r"url of Client must be text"),
    ],
)
def test_calls_that_cannot_be_meant_are_told(compactor: Compactor, call: Callable[[Any], Any], told: str) -> None:
    with pytest.raises(errors.ConfigError, match=told) as caught:
        call(compactor)
    assert str(caught.value).endswith(".")


def test_what_is_almost_right_is_taken(compactor: Compactor) -> None:
    assert isinstance(compactor.plan_table("db.t"), EmptyPlan)
    assert compactor.maintain("db.t", "tags").steps
    assert compactor.commit(compactor.plan_table("db.t"), (each for each in ())).kind.value == "healthy"
    assert not hasattr(Compactor.builder(), "catlog"), "Python asks objects so"


def test_a_closed_catalog_that_forgot_its_tables_is_told(tmp_path: Path) -> None:
    closed = InMemoryCatalog("gone", warehouse=f"file://{tmp_path}")
    closed.close()
    with closed, pytest.raises(errors.CatalogError, match='from the catalog "gone"'):  # asked again, it opens again
        Compactor(closed, engine="inline").list_tables()
