"""Names of files keep their form, and lead back to the run that wrote them."""

from __future__ import annotations

import re
import uuid

import pytest

from iceberg_compaction.storage import file_names

RUN = "0123456789abcdef0123456789abcdef"
PART = file_names.DataFileNames(task_id=3, attempt="7-0-ab", run_id=RUN)
METADATA = "s3://b/t/metadata/00003-9f1b2c3d-0000-4000-8000-1234567890ab.metadata.json"
NAMES = [
    (PART.name(2), f"00003-7-0-ab-{RUN}-00002.parquet"),
    (
        file_names.DataFileNames(task_id=3, attempt="7", run_id=RUN, partition_number=12).name(0),
        f"00003-7-{RUN}-p00012-00000.parquet",
    ),
    (file_names.manifest(RUN, 4), f"{RUN}-m4.avro"),
    (file_names.manifest(RUN, 4, snapshot_id=99), f"{RUN}-99-m4.avro"),
    (file_names.manifest_list(RUN, 1, snapshot_id=99), f"snap-99-1-{RUN}.avro"),
]


@pytest.mark.parametrize(("name", "form"), NAMES, ids=[form for _, form in NAMES])
def test_names_keep_their_form_and_belong_to_their_run(name: str, form: str) -> None:
    assert name == form
    assert file_names.is_of_run(f"s3://b/t/{name}", RUN)
    assert not file_names.is_of_run(f"s3://b/t/{name}", uuid.uuid4().hex)
    assert not file_names.is_table_metadata(name)


def test_table_metadata_has_the_run_in_its_uuid_and_differs_between_attempts() -> None:
    first, second = (file_names.table_metadata(METADATA, RUN) for _ in range(2))
    form = r"s3://b/t/metadata/00003-01234567-89ab-cdef-0123-4567[0-9a-f]{8}\.metadata\.json"
    assert re.fullmatch(form, first)
    assert first != second
    assert file_names.is_of_run(first, RUN)
    assert not file_names.is_of_run(METADATA, RUN)


@pytest.mark.parametrize("name", ["v3.metadata.json", "v3.gz.metadata.json", "v3.metadata.json.gz"])
def test_table_metadata_is_known_by_its_name(name: str) -> None:
    assert file_names.is_table_metadata(f"s3://b/t/{name}")
    assert not file_names.is_table_metadata(f"s3://b/{name}/data.parquet")


def test_folders_say_nothing_about_the_run() -> None:
    assert not file_names.is_of_run(f"s3://b/{RUN}/data/other.parquet", RUN)


def test_only_an_id_that_nobody_else_has_is_distinct() -> None:
    assert file_names.is_distinct(uuid.uuid4().hex)
    assert not file_names.is_distinct("run-1")
    assert not file_names.is_distinct(str(uuid.uuid4()))
