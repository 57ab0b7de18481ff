"""Options of the writer and entries of snapshots: which are taken, and why others are not."""

from __future__ import annotations

import pytest

from iceberg_compaction import errors
from iceberg_compaction.execute.worker.output import parquet_options
from iceberg_compaction.interfaces import policy_options
from iceberg_compaction.model import writer_options
from iceberg_compaction.model.policies import CopyMode, Policy

CODEC = "write.parquet.compression-codec"


@pytest.mark.parametrize(
    "given",
    [
        {CODEC: "gzip", "write.parquet.page-size-bytes": 65536},
        [f"{CODEC}=gzip", "write.parquet.page-size-bytes=65536"],
        f"write.parquet.page-size-bytes=65536, {CODEC}=gzip",
    ],
)
def test_options_have_one_form_however_they_are_given(given: object) -> None:
    policy = policy_options.make_policy(None, None, {"write_options": given})
    assert policy.write_options == (f"{CODEC}=gzip", "write.parquet.page-size-bytes=65536")
    assert Policy.model_validate_json(policy.model_dump_json()) == policy


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (f"{CODEC}=lzo", "is 'lzo'; it can be zstd, gzip"),
        ("write.parquet.compresion-codec=zstd", f"did you mean {CODEC}?"),
        ("write.parquet.page-size-bytes=0", "not a whole number from 1 on"),
        ("write.parquet.compression-level=high", "not a whole number"),
        ("write.target-file-size-bytes=1000", "give target-file-size-bytes instead"),
        ("write.data.path=s3://x/y", "new files go where the table says"),
        ("write.format.default=orc", "is 'orc'; it can be parquet"),
        ("write.parquet.bloom-filter-fpp.column.id=2", "not a number between 0 and 1"),
        ("write.parquet.bloom-filter-enabled.column.id=perhaps", "it can be true, false"),
        ("write.metadata.metrics.default=some", "it can be none, counts, truncate(N) or full"),
        ("history.expire.min-snapshots-to-keep=3", "is no parameter of the writer"),
        (CODEC, "is not NAME=VALUE"),
    ],
)
def test_options_that_no_file_can_have_are_refused_with_the_reason(option: str, words: str) -> None:
    with pytest.raises(errors.ConfigError, match=r"Wrong value for write-options: ") as refused:
        policy_options.make_policy(None, None, {"write-options": [option]})
    assert words in str(refused.value)


def test_what_a_footer_does_not_tell_forbids_copying() -> None:
    assert Policy(write_options=[f"{CODEC}=gzip"]).copies is CopyMode.AUTO
    assert Policy(write_options=["write.metadata.metrics.default=full"]).copies is CopyMode.AUTO
    assert Policy(write_options=["write.parquet.page-size-bytes=65536"]).copies is CopyMode.NEVER
    with pytest.raises(ValueError, match="copy-row-groups always keeps row groups as they are"):
        Policy(write_options=[f"{CODEC}=gzip"], copy_row_groups=CopyMode.ALWAYS)


def test_codecs_are_those_of_the_worker() -> None:
    assert set(writer_options.CODECS) == set(parquet_options._CODECS)


@pytest.mark.parametrize(
    "name",
    ["compaction.run-id", "compaction.anything", "engine-name", "operation", "added-data-files", "total-records"],
)
def test_entries_of_snapshots_that_others_read_cannot_be_set(name: str) -> None:
    with pytest.raises(errors.ConfigError, match=f"snapshot-properties: {name} "):
        policy_options.make_policy(None, None, {"snapshot-property": f"{name}=1"})


def test_values_of_entries_may_have_commas_and_equal_signs() -> None:
    policy = policy_options.make_policy(None, None, {"snapshot-properties": ["note=a,b=c", "ticket=OPS-12"]})
    assert policy.snapshot_properties == ("note=a,b=c", "ticket=OPS-12")
