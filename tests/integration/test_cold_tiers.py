"""Files in cold tiers of S3: left out of plans for a request or two, and a task that meets one says so; and lifecycle
rules that would move or delete files of a table."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from rich.console import Console
from tests.factories import lake as lakes
from tests.factories import manifests, moto_store, storage, work

from iceberg_compaction.catalog import load_tables
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.interfaces.cli.screens import health_story
from iceberg_compaction.interfaces.html import sections
from iceberg_compaction.model.outcome import Kind
from iceberg_compaction.model.policies import Policy
from iceberg_compaction.model.rewrite_plan import EmptyPlan, LeftOutReason
from iceberg_compaction.operations.deletes import choose_deletes
from iceberg_compaction.operations.deletes.delete_upkeep import CleanDeletes
from iceberg_compaction.operations.rewrite_files.file_rewrite import RewriteFiles
from iceberg_compaction.operations.rewrite_files.planning import cold_files
from iceberg_compaction.storage.s3 import bucket_rules
from iceberg_compaction.workflow import diagnose, operate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from iceberg_compaction.model.table_health import TableHealth

pytestmark = pytest.mark.server

POLICY = Policy(min_input_files=2)
DAYS_MS = 2 * 24 * 3600 * 1000


@pytest.fixture(scope="module")
def store() -> Iterator[moto_store.MotoStore]:
    with moto_store.moto_store() as running:
        yield running


@pytest.fixture
def lake(store: moto_store.MotoStore, tmp_path: Path) -> Iterator[tuple[Catalog, str]]:
    catalog, bucket = store.make_lake(tmp_path)
    yield catalog, bucket
    catalog.close()


@pytest.fixture
def table(lake: tuple[Catalog, str]) -> Table:
    lakes.append_small_files(lakes.make_table(lake[0], "db.t"), 6)
    return load_tables.load_table(lake[0], "db.t")


def later() -> Any:
    """A run two days from now, when rules may have moved files of today."""
    return replace(wiring.new_run(), clock=lambda: wiring.now_ms() + DAYS_MS)


def plan(table: Table, policy: Policy, run: Any) -> Any:
    house = operate.House(catalog=table.catalog, engines=wiring.engine_factory("inline"))
    return operate.plan_only(RewriteFiles(table="db.t", policy=policy), house, run)


def compact(table: Table, policy: Policy, run: Any) -> Any:
    return work.compact_table(table.catalog, "db.t", policy, wiring.engine_factory("inline"), run)


@pytest.mark.parametrize("tier", ["GLACIER", "DEEP_ARCHIVE", "GLACIER_IR"])
def test_cold_files_are_left_out_of_a_plan(store: moto_store.MotoStore, table: Table, tier: str) -> None:
    oldest = moto_store.data_paths(table)
    by_age = [task.file.file_path for task in reversed(list(table.scan().plan_files()))]
    for path in by_age[:2] if tier == "GLACIER" else by_age[:1]:
        store.move(path, tier)
    made = plan(table, POLICY, later())
    (left,) = [each for each in made.left_out if each.reason is LeftOutReason.COLD]
    cold = 2 if tier == "GLACIER" else 1
    assert (left.files, made.input_files) == (cold, 6 - cold)
    assert "in a cold tier of the store, and rewrite-cold-tiers is off" in left.sentence
    told = plan(table, POLICY.model_copy(update={"rewrite_cold_tiers": True}), later())
    assert told.input_files == len(oldest)


def test_a_table_that_is_cold_as_a_whole_has_nothing_to_do(store: moto_store.MotoStore, table: Table) -> None:
    for path in moto_store.data_paths(table):
        store.move(path, "DEEP_ARCHIVE")
    made = plan(table, POLICY, later())
    assert isinstance(made, EmptyPlan)
    assert [left.reason for left in made.left_out] == [LeftOutReason.COLD]


def test_a_plan_of_young_files_asks_nothing_and_one_of_old_files_little(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    of_samples = cold_files.cold_objects.of_samples
    monkeypatch.setattr(
        cold_files.cold_objects, "of_samples", lambda io, paths: asked.extend(paths) or of_samples(io, paths)
    )
    assert plan(table, POLICY, wiring.new_run()).input_files == 6
    assert asked == []
    assert plan(table, POLICY, later()).input_files == 6
    assert len(asked) <= 2


def test_a_task_that_meets_an_archived_file_says_so_and_the_others_are_compacted(
    store: moto_store.MotoStore, table: Table
) -> None:
    """Today, when nobody expects cold files: the store refuses to read one."""
    before = storage.row_multiset(table.scan().to_arrow())
    archived = moto_store.data_paths(table)[3]
    store.move(archived, "GLACIER")
    outcome = compact(table, POLICY, wiring.new_run())
    assert outcome.kind is Kind.COMPACTED, outcome.sentence
    (failed,) = [end for end in outcome.group_outcomes if end.file_path is not None]
    assert failed.file_path == archived
    assert f"Data file {archived} is in an archive tier of its store" in str(failed)
    after = moto_store.data_paths(table)
    assert (len(after), archived in after) == (2, True)
    store.restore(archived)
    assert storage.row_multiset(table.refresh().scan().to_arrow()) == before


def test_restored_files_are_rewritten_on_explicit_word(store: moto_store.MotoStore, table: Table) -> None:
    for path in moto_store.data_paths(table):
        store.move(path, "GLACIER")
        store.restore(path)
    assert isinstance(plan(table, POLICY, later()), EmptyPlan)
    outcome = compact(table, POLICY.model_copy(update={"rewrite_cold_tiers": True}), later())
    assert outcome.kind is Kind.COMPACTED, outcome.sentence
    assert len(moto_store.data_paths(table)) == 1


def test_deletes_of_cold_files_are_not_converted(store: moto_store.MotoStore, table: Table) -> None:
    """Conversion reads the data files, too: archived ones cost money or cannot be read."""
    paths = moto_store.data_paths(table)
    manifests.add_equality_delete(table, pa.table({"id": pa.array([1, 11], pa.int64())}))
    converting = Policy(strategy="delete-files", delete_action="convert")
    assert [each.way.value for each in plan(table, converting, later()).deletes] == ["convert"]
    for path in paths:
        store.move(path, "GLACIER")

    made = plan(table, converting, later())

    assert isinstance(made, EmptyPlan)
    assert [left.reason for left in made.left_out] == [LeftOutReason.COLD]
    told = plan(table, converting.model_copy(update={"rewrite_cold_tiers": True}), later())
    assert [each.way.value for each in told.deletes] == ["convert"]
    house = operate.House(catalog=table.catalog, engines=wiring.engine_factory("inline"))
    upkeep = operate.plan_only(CleanDeletes(table="db.t"), house, later())
    assert (upkeep.empty, upkeep.converted) == (True, ())
    assert "--rewrite-cold-tiers" in upkeep.notes[-1]
    goal = choose_deletes.goal_of(rewrite_cold_tiers=True)
    assert len(operate.plan_only(CleanDeletes(table="db.t", goal=goal), house, later()).converted) == 1


RULES = """
<Rule><ID>old</ID><Status>Enabled</Status><Filter><Prefix/></Filter><Expiration><Days>30</Days></Expiration></Rule>
<Rule><ID>cold</ID><Status>Enabled</Status>
  <Filter><And><Prefix>db/t/metadata/</Prefix><Tag><Key>k</Key><Value>v</Value></Tag></And></Filter>
  <Transition><Days>90</Days><StorageClass>GLACIER</StorageClass></Transition></Rule>
<Rule><ID>cool</ID><Status>Enabled</Status><Filter><Prefix>db/t/</Prefix></Filter>
  <Transition><Days>60</Days><StorageClass>STANDARD_IA</StorageClass></Transition></Rule>
<Rule><ID>parts</ID><Status>Enabled</Status><Filter><Prefix>db/</Prefix></Filter>
  <AbortIncompleteMultipartUpload><DaysAfterInitiation>7</DaysAfterInitiation></AbortIncompleteMultipartUpload></Rule>
<Rule><ID>asleep</ID><Status>Disabled</Status><Filter><Prefix/></Filter><Expiration><Days>1</Days></Expiration></Rule>
<Rule><ID>elsewhere</ID><Status>Enabled</Status><Filter><Prefix>db/other/</Prefix></Filter>
  <Expiration><Days>1</Days></Expiration></Rule>
"""


def health_of(table: Table, rules: bucket_rules.BucketRules) -> TableHealth:
    return diagnose.diagnose(table.catalog, "db.t", Policy(), diagnose.HealthLook(rules=rules))


def test_rules_of_the_bucket_are_told(store: moto_store.MotoStore, lake: tuple[Catalog, str], table: Table) -> None:
    bucket = lake[1]
    store.set_rules(bucket, RULES)
    rules = bucket_rules.BucketRules()
    health = health_of(table, rules)
    assert [(note.kind, note.rule) for note in health.lifecycle] == [
        ("deletes", "old"),
        ("archives", "cold"),
        ("cools", "cool"),
        ("aborts-uploads", "parts"),
    ]
    old, cold, _, parts = health.lifecycle
    assert old.sentence == (
        f'The lifecycle rule "old" of the bucket {bucket} deletes objects below s3://{bucket}/db/t after 30 days, also '
        "files that the table needs; limit the rule to other prefixes, and have `expire` and `orphans` remove what "
        "nobody needs."
    )
    assert f"moves objects with certain tags or sizes below s3://{bucket}/db/t/metadata to GLACIER" in cold.sentence
    assert parts.is_good
    screen = Console(width=400, file=StringIO(), record=True)
    screen.print(*health_story.details(health))
    shown = screen.export_text()
    assert all(note.sentence in shown for note in health.lifecycle)
    page = sections.section(health, "t", opened=True, command=lambda *words: "")
    assert "lifecycle rule &quot;old&quot; of the bucket" in page
    store.ask("DELETE", f"{bucket}?lifecycle")
    assert health_of(table, rules).lifecycle == health.lifecycle  # a bucket is asked once in a command
    assert health_of(table, bucket_rules.BucketRules()).lifecycle == ()


def test_whoever_may_not_ask_for_rules_gets_none(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(bucket: object) -> list[Any]:
        raise OSError("AWS Error AccessDenied (HTTP status 403) during GetBucketLifecycleConfiguration operation")

    monkeypatch.setattr(bucket_rules.bucket_requests, "lifecycle", refuse)
    assert health_of(table, bucket_rules.BucketRules()).lifecycle == ()
