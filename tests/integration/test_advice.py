"""`doctor` and the verbs agree: a command that is advised for a table has something to do there, and as much as the
advice says. Tables are metadata alone: no data file exists."""

from __future__ import annotations

import json
import random
import re
import shlex
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from pyiceberg.manifest import DataFileContent
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StringType
from tests.factories import lake as lakes
from tests.factories import manifests
from tests.factories.examples import examples
from typer.testing import CliRunner

from iceberg_compaction import Compactor, Strategy
from iceberg_compaction.interfaces.cli.app import app

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

MIB = 2**20
TARGET = 8 * MIB
CITIES = ("Bern", "Oslo", "Rome")
BY_CITY = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "name"))
SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "name", StringType()))
COMMAND = re.compile(r"iceberg-compact .*")


def call(lake: lakes.Lake, *words: str) -> Any:
    result = CliRunner().invoke(app, [*words, "--catalog-uri", str(lake.settings.uri), "--output", "json"])
    assert result.exit_code in (0, 3), result.output
    return json.loads(result.stdout)


def data_file(table: Table, rng: random.Random, city: str) -> DataFile:
    sizes = (1000, MIB, 5 * MIB, 7 * MIB, TARGET, 14 * MIB, 15 * MIB, 40 * MIB)
    return manifests.fake_data_file(
        table,
        f"{rng.getrandbits(64):x}.parquet",
        partition=Record() if table.spec().is_unpartitioned() else Record(city),
        file_size_in_bytes=rng.choice(sizes),
        record_count=rng.choice((1, 10, 100)),
    )


def delete_file(table: Table, rng: random.Random, city: str) -> DataFile:
    """An equality delete file; what it lists is never read here."""
    return manifests.fake_data_file(
        table,
        f"{rng.getrandbits(64):x}-deletes.parquet",
        partition=Record() if table.spec().is_unpartitioned() else Record(city),
        content=DataFileContent.EQUALITY_DELETES,
        equality_ids=[1],
        record_count=rng.choice((1, 50)),
    )


def random_table(lake: lakes.Lake, seed: int) -> str:
    """A table of a few commits, small and large files, deletes, several specs; sometimes with small manifests."""
    rng, name = random.Random(seed), f"db.t{uuid.uuid4().hex[:8]}"
    properties = {"write.target-file-size-bytes": str(TARGET), "commit.manifest-merge.enabled": "false"}
    if rng.random() < 0.3:
        properties["commit.manifest.target-size-bytes"] = str(64 * 1024)
    spec = BY_CITY if rng.random() < 0.6 else PartitionSpec()
    table = lakes.make_table(lake.catalog, name, SCHEMA, spec=spec, properties=properties)
    for _ in range(rng.randint(0, 8)):
        city = rng.choice(CITIES)
        if rng.random() < 0.2 and table.current_snapshot() is not None:
            table = manifests.add_files(table, [delete_file(table, rng, city)])
            continue
        files = [data_file(table, rng, city) for _ in range(rng.choice((1, 1, 2, 6)))]
        table = manifests.add_files(table, files)
        if rng.random() < 0.15 and not table.spec().is_unpartitioned():
            with table.update_spec() as update:
                update.remove_field("name")
            table = lake.catalog.load_table(name)
    return name


@pytest.fixture(scope="module")
def shared_lake(tmp_path_factory: pytest.TempPathFactory) -> lakes.Lake:
    return lakes.file_lake(tmp_path_factory.mktemp("advice"))


@examples(20, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32))
def test_every_advised_command_has_as_much_to_do_as_the_advice_says(shared_lake: lakes.Lake, seed: int) -> None:
    name = random_table(shared_lake, seed)
    health = call(shared_lake, "doctor", "--table", name)
    advice = health["advice"]
    for number, sentence in enumerate(advice):
        if (match := COMMAND.search(sentence)) is None:
            continue
        verb, *options = shlex.split(match[0])[1:]
        amount = advice[number + 1] if sentence.startswith("Run: ") else sentence
        if verb == "run":
            plan = call(shared_lake, "plan", *options)
            groups = plan.get("groups", [])
            exchanged = sum(each["delete_files"] for each in plan["deletes"])
            assert groups or plan["useless_deletes"] or exchanged, (sentence, plan)
            model = ("--strategy", "delete-files")
            assert (
                model[1] not in options or not groups or not any("It costs least to merge" in each for each in advice)
            )
            assert not exchanged or f"merges or converts {exchanged} delete file" in amount, (amount, exchanged)
            files = sum(group["files"] for group in groups)
            assert re.search(rf"rewrites? (all )?{files} |rewrites no data file", amount), (amount, files)
        elif verb == "deletes":
            assert call(shared_lake, verb, *options, "--dry-run")["steps"]
        else:
            plan = call(shared_lake, verb, *options, "--dry-run")
            replaced = sum(len(group["manifests"]) for group in plan["groups"])
            assert replaced > 0
            assert f"This replaces {replaced} manifest" in amount
    assert health["sick"] == any(one.startswith("Run: iceberg-compact run ") for one in advice)


@pytest.mark.parametrize(
    "options", [{"strategy": Strategy.FULL}, {"strategy": "delete-files"}, {"target_file_size": "1GB"}]
)
def test_the_library_gives_the_score_of_doctor(shared_lake: lakes.Lake, options: dict[str, Any]) -> None:
    for seed in range(3):
        name = random_table(shared_lake, seed)
        health = call(shared_lake, "doctor", "--table", name)
        own = Compactor(shared_lake.catalog, engine="inline", **options).inspect_table(name).model_dump(mode="json")
        compared = ("score", "score_parts", "score_note", "sick", "small_files", "large_files", "target_file_bytes")
        assert {key: own[key] for key in compared} == {key: health[key] for key in compared}


def test_many_small_manifests_lead_to_the_verb_that_joins_them(shared_lake: lakes.Lake) -> None:
    table = lakes.make_table(shared_lake.catalog, "db.manifests")
    for number in range(20):
        file = manifests.fake_data_file(table, f"{number}.parquet", file_size_in_bytes=512 * MIB)
        table = manifests.add_files(table, [file])
    advice = call(shared_lake, "doctor", "--table", "db.manifests")["advice"]
    assert advice[0].startswith("Run: iceberg-compact manifests ")
    assert advice[1].startswith("This replaces 20 manifests of 20 by about 1: 20 manifests are less than half of")


def test_advice_names_the_branch_that_was_looked_at(shared_lake: lakes.Lake) -> None:
    table = lakes.make_table(shared_lake.catalog, "db.branches")
    lakes.append_small_files(table, 1)
    table = shared_lake.catalog.load_table("db.branches")
    snapshot = table.current_snapshot()
    assert snapshot is not None
    table.manage_snapshots().create_branch(snapshot.snapshot_id, "dev").commit()
    for _ in range(6):
        table.append(lakes.rows(table.schema().as_arrow(), 5), branch="dev")
    health = call(shared_lake, "doctor", "--table", "db.branches", "--branch", "dev")
    assert health["advice"][0].endswith(" --table db.branches --strategy small-files --branch dev")


def test_no_file_outside_the_range_is_called_well_sized(shared_lake: lakes.Lake) -> None:
    properties = {"write.target-file-size-bytes": str(4 * MIB)}
    table = lakes.make_table(shared_lake.catalog, "db.sizes", properties=properties)
    sizes = {"small": (MIB * 5 // 2, 10), "fit": (4 * MIB, 10), "huge": (64 * MIB, 1)}
    files = [
        manifests.fake_data_file(table, name, file_size_in_bytes=size, record_count=rows)
        for name, (size, rows) in sizes.items()
    ]
    manifests.add_files(table, files)
    plan = call(shared_lake, "plan", "--table", "db.sizes", "--strategy", "full")
    sentences = {entry["reason"]: entry["sentence"] for entry in plan["left_out"]}
    assert sentences == {
        "well-sized": "1 file (4.0 MiB) is well sized for a range of 3.0 MiB to 7.2 MiB",
        "rest": "1 file (2.5 MiB) is smaller than 3.0 MiB, but at most one in a group: a rewrite would leave such a "
        "rest again",
        "indivisible": "1 file (64.0 MiB) is larger than 7.2 MiB, but of a single row, which cannot be divided",
    }


@pytest.mark.parametrize(("size", "cheaper"), [(512 * MIB, True), (1000, False)])
def test_the_verb_that_tidies_delete_files_is_advised_where_a_plan_would_do_the_same(
    shared_lake: lakes.Lake, size: int, cheaper: bool
) -> None:
    name = f"db.deletes_{size}"
    table = lakes.make_table(shared_lake.catalog, name)
    file = manifests.fake_data_file(table, "large.parquet", file_size_in_bytes=size, record_count=size // 50)
    table = manifests.add_files(table, [file])
    for position in range(12):
        table = manifests.add_position_delete(table, {file.file_path: [position]})
    advice = call(shared_lake, "doctor", "--table", name)["advice"]
    sentences = [each for each in advice if "iceberg-compact deletes " in each]
    assert [each[:47] for each in sentences] == ["It costs least to merge or convert 12 delete fi"] * cheaper
    options = ("--strategy", "delete-files", "--delete-file-threshold", "5")
    assert (not call(shared_lake, "plan", "--table", name, *options).get("groups")) == cheaper
    assert call(shared_lake, "deletes", "--table", name, "--dry-run")["steps"]
