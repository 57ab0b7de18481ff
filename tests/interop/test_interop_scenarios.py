"""For each rule a table that Iceberg Java wrote, this product compacts, and Java reads again: the same rows, metadata
that add up, deletes gone that can apply to nothing any more, and no other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.interop.scenarios import equality, evolution, identity, lifetimes, metrics, position, properties, types
from tests.interop.scenarios.scene import DATA, EQUALITY, POSITION, Scenario, Scene

from iceberg_compaction import Kind, Outcome
from iceberg_compaction.catalog import connect
from iceberg_compaction.settings import CatalogSettings

if TYPE_CHECKING:
    from collections import Counter
    from pathlib import Path

    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import ManifestEntry
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop

SCENARIOS: list[Scenario] = [
    *position.SCENARIOS, *equality.SCENARIOS, *lifetimes.SCENARIOS, *evolution.SCENARIOS, *types.SCENARIOS,
    *metrics.SCENARIOS, *properties.SCENARIOS, *identity.SCENARIOS,
]  # fmt: skip


@pytest.fixture(scope="module")
def catalog(java: SparkSession, java_lake: Path) -> Catalog:
    return connect.connect(
        CatalogSettings(name="lake", uri=f"sqlite:///{java_lake}/catalog.db", warehouse=f"file://{java_lake}")
    )


def test_every_scenario_has_a_name_of_its_own() -> None:
    names = [scenario.name for scenario in SCENARIOS]
    assert len(names) == len(set(names))
    assert len(names) >= 80


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_scenario(java: SparkSession, catalog: Catalog, scenario: Scenario) -> None:
    perform(Scene(session=java, catalog=catalog, name=f"db.{scenario.name.lower()}", scenario=scenario))


# What copying must get right: deletes, evolution and types. Writer settings and metrics modes are for what is encoded.
# Every third of them, because the random test copies too.
COPIED = [
    scenario
    for scenario in (*position.SCENARIOS, *equality.SCENARIOS, *evolution.SCENARIOS, *types.SCENARIOS)[::3]
    if scenario.kind is Kind.COMPACTED
] + identity.SCENARIOS[:5]


@pytest.mark.parametrize("scenario", COPIED, ids=lambda scenario: scenario.name)
def test_scenario_with_row_groups_as_bytes(java: SparkSession, catalog: Catalog, scenario: Scenario) -> None:
    """Java's files are small, so that nothing would be copied unless it was asked for."""
    name = f"db.{scenario.name.lower()}_copied"
    perform(Scene(session=java, catalog=catalog, name=name, scenario=scenario, copies=True))


def perform(scene: Scene) -> None:
    """Write, compact, check what holds for every compaction, then what the scenario says itself."""
    scenario = scene.scenario
    scene.create()
    play = scenario.play(scene)
    next(play)
    before = scene.seen() if scenario.generic else None
    by_spark = scene.seen_by_spark() if scenario.spark else None
    old = {entry.data_file.file_path: entry for entry in scene.entries() if entry.status != 2}

    outcome = scene.compact()

    assert outcome.kind is scenario.kind, outcome.sentence
    if before is not None:
        assert scene.seen() == before
    if by_spark is not None:
        assert scene.seen_by_spark() == by_spark
    if outcome.kind is Kind.COMPACTED:
        check(scene, outcome, old)
    if scene.copies and scenario in types.SCENARIOS:
        return  # what these ask further are metrics of every type, and floats that came as bytes may lack bounds
    with pytest.raises(StopIteration):
        play.send(outcome)
    if scenario.again and before is not None:
        compact_by_java(scene, before)


def check(scene: Scene, outcome: Outcome, old: dict[str, ManifestEntry]) -> None:
    entries = scene.entries()
    live = [entry for entry in entries if entry.status != 2]
    check_sequence_numbers(scene, entries, old)
    check_summary(scene, outcome, live, old)
    if scene.scenario.left is not None:
        contents = [int(entry.data_file.content) for entry in live]
        assert (contents.count(POSITION), contents.count(EQUALITY)) == scene.scenario.left
    assert outcome.proof is not None
    assert not outcome.proof.failures
    if scene.scenario.settled:
        options = {key: value for key, value in scene.scenario.options.items() if key != "rewrite-all"}
        plan = scene.plan("small-files", **(options or {"min-input-files": 2}))
        assert plan.empty, plan.sentence


def check_sequence_numbers(scene: Scene, entries: list[ManifestEntry], old: dict[str, ManifestEntry]) -> None:
    """R1, R10: new files are as old as the snapshot that was planned on; all others keep their numbers."""
    table = scene.loaded()
    head = table.metadata.snapshot_by_name(scene.scenario.branch)
    assert head is not None
    start = table.metadata.snapshot_by_id(head.parent_snapshot_id or 0)
    assert start is not None
    for entry in entries:
        numbers = (entry.sequence_number, entry.file_sequence_number)
        known = old.get(entry.data_file.file_path)
        if known is None:
            assert entry.status == 1
            assert numbers == (start.sequence_number or 0, head.sequence_number or 0)
        else:
            assert numbers == (known.sequence_number, known.file_sequence_number)
    gone = {entry.data_file.file_path for entry in entries if entry.status == 2}
    now = {entry.data_file.file_path for entry in entries if entry.status != 2}
    assert gone | now >= old.keys()
    assert not gone & now


def check_summary(scene: Scene, outcome: Outcome, live: list[ManifestEntry], old: dict[str, ManifestEntry]) -> None:
    """R8, R13: what the snapshot says of itself is what the manifests hold."""
    summary = scene.summary()
    files = {content: [e.data_file for e in live if int(e.data_file.content) == content] for content in range(3)}
    paths = {entry.data_file.file_path for entry in live}
    gone = [entry.data_file for path, entry in old.items() if path not in paths]
    gone_data = [file for file in gone if int(file.content) == DATA]
    added = [entry.data_file for entry in live if entry.data_file.file_path not in old]
    figures = {
        "operation": "replace",
        "total-data-files": len(files[DATA]),
        "total-delete-files": len(files[POSITION]) + len(files[EQUALITY]),
        "total-records": sum(file.record_count for file in files[DATA]),
        "total-files-size": sum(entry.data_file.file_size_in_bytes for entry in live),
        "total-position-deletes": sum(file.record_count for file in files[POSITION]),
        "total-equality-deletes": sum(file.record_count for file in files[EQUALITY]),
        "added-data-files": len(added),
        "added-records": sum(file.record_count for file in added),
        "added-files-size": sum(file.file_size_in_bytes for file in added),
        "deleted-data-files": len(gone_data),
        "deleted-records": sum(file.record_count for file in gone_data),
        "removed-files-size": sum(file.file_size_in_bytes for file in gone),
        "removed-delete-files": len(gone) - len(gone_data),
        "removed-position-deletes": sum(file.record_count for file in gone if int(file.content) == POSITION),
        "removed-equality-deletes": sum(file.record_count for file in gone if int(file.content) == EQUALITY),
    }
    told = {name: (summary.get(name, "0"), str(value)) for name, value in figures.items()}
    if not sizes_are_known(scene, old):
        del told["total-files-size"]
    assert not {name: pair for name, pair in told.items() if pair[0] != pair[1]}
    assert (outcome.files_added, outcome.files_removed) == (len(added), len(gone_data))


def sizes_are_known(scene: Scene, old: dict[str, ManifestEntry]) -> bool:
    """Java's `add_files` leaves the bytes of its files out of the total, and every later total inherits that."""
    table = scene.loaded()
    head = table.metadata.snapshot_by_name(scene.scenario.branch)
    assert head is not None
    before = table.metadata.snapshot_by_id(head.parent_snapshot_id or 0)
    assert before is not None
    assert before.summary is not None
    size = sum(entry.data_file.file_size_in_bytes for entry in old.values())
    return before.summary.additional_properties["total-files-size"] == str(size)


def compact_by_java(scene: Scene, before: Counter[str]) -> None:
    scene.sql(
        "call lake.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))",
        "call lake.system.rewrite_manifests('{name}')",
    )
    assert scene.seen() == before
