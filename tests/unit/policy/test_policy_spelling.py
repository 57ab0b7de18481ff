"""All spellings of one thing are read, and mean the same."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.factories.examples import examples
from tests.factories.policies import SPELLINGS, policy_of, stated

from iceberg_compaction import errors
from iceberg_compaction.model.policies import Policy
from iceberg_compaction.policy import policy_keys, spelling

MIB = 2**20


def camel(name: str) -> str:
    first, *others = re.split(r"[-.]", name)
    return first + "".join(part.capitalize() for part in others)


FORMS = {
    "kebab": lambda name: name,
    "snake": lambda name: name.replace("-", "_"),
    "camel": camel,
    "dotted": lambda name: name.replace("-", "."),
    "upper": lambda name: name.replace("-", "_").upper(),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_value_has_every_form_of_its_name(form: str) -> None:
    for name, key in policy_keys.all_keys().items():
        meaning = SPELLINGS.meaning(FORMS[form](name))
        assert meaning is not None, (form, name)
        assert meaning.key == key


def test_every_option_of_the_rewrite_is_a_value_of_a_policy() -> None:
    names = {name.replace("_", "-") for name in Policy.model_fields}
    assert names <= {name.partition(".")[0] for name in policy_keys.all_keys()}


@pytest.mark.parametrize(
    "line",
    [
        "target_file_size: 128MiB",
        "targetFileSize: 128Mi",
        "target-file-size: 134217728",
        "target_file_size_mb: 128",
        "targetFileSizeMB: '128'",
        "target_file_size_bytes: 134217728",
        "target_file_size_gb: 0.125",
        "rewrite: {target.file.size.mb: 128}",
        "compaction: {target_file_size_mb: 128}",
        "iceberg: {write: {target_file_size_mb: 128}}",
        "iceberg.write.target_file_size_mb: 128",
        "write.target-file-size-bytes: 134217728",
        "self-optimizing.target-size: 134217728",
        "self.optimizing.target-size: 134217728",
    ],
)
def test_one_size_in_many_words(line: str) -> None:
    assert stated(policy_of(line)) == {"target-file-size-bytes": 128 * MIB}


@pytest.mark.parametrize(
    "line",
    [
        "snapshot_retention_hours: 12",
        "history.expire.max-snapshot-age-ms: 43200000",
        "snapshot.keep.duration: 720min",
        "maintenance: {expire: {max_snapshot_age: 12h}}",
        "maintenance: {expire: {maxSnapshotAgeMinutes: 720}}",
        "max_snapshot_age_days: 0.5",
        "expire_snapshots: null\nmax-snapshot-age: 43200",
    ],
)
def test_one_age_in_many_words(line: str) -> None:
    assert stated(policy_of(line)) == {"maintenance.expire.max-snapshot-age": 43_200}


@pytest.mark.parametrize("text", ["small-files", "small_files", "SmallFiles", "SMALL_FILES", "binpack", "bin-pack"])
def test_one_strategy_in_many_words(text: str) -> None:
    assert policy_of(f"compaction_strategy: {text}").policy.rewrite.strategy.value == "small-files"


@given(
    name=st.sampled_from(["target-file-size-bytes", "min-row-group-size-bytes", "max-bytes-to-rewrite"]),
    mib=st.integers(1, 2**20),
    form=st.sampled_from(sorted(FORMS)),
    unit=st.sampled_from(["", "bytes", "kb", "mb", "mib", "number"]),
)
@examples(60)
def test_a_size_is_the_same_in_every_form_and_unit(name: str, mib: int, form: str, unit: str) -> None:
    base = name.removesuffix("-bytes")
    spelled, value = {
        "": (base, f"{mib}MiB"),
        "bytes": (f"{base}-bytes", str(mib * MIB)),
        "kb": (f"{base}-kb", str(mib * 1024)),
        "mb": (f"{base}-mb", str(mib)),
        "mib": (f"{base}-mib", str(mib)),
        "number": (base, str(mib * MIB)),
    }[unit]
    assert stated(policy_of(f"{FORMS[form](spelled)}: {value}")) == {name: mib * MIB}


@given(st.text(max_size=60))
@examples(100)
def test_any_name_is_known_or_not_and_never_an_error(name: str) -> None:
    meaning = SPELLINGS.meaning(name)
    assert meaning is None or meaning.key.name
    SPELLINGS.nearest(name)
    assert spelling.fold(spelling.fold(name)) == spelling.fold(name)


def test_the_opposite_is_turned_round() -> None:
    assert policy_of("suspend: true").policy.enabled is False


def test_two_spellings_of_one_thing_are_refused_with_both_lines() -> None:
    with pytest.raises(
        errors.ConfigError, match=r"line 3: targetFileSizeMB says the same as target_file_size in line 1"
    ):
        policy_of("target_file_size: 1GB\nowner: me\ntargetFileSizeMB: 5")


@pytest.mark.parametrize(
    ("line", "near"),
    [
        ("target_file_sise: 1GB", "target-file-size-bytes"),
        ("stratgy: full", "strategy"),
        ("maintenance: {expire: {max_snapshot_ages: 5d}}", "maintenance.expire.max-snapshot-age"),
        ("quiethours: 1:00-2:00", "quiet-hours"),
    ],
)
def test_a_name_that_is_not_known_gets_the_nearest_one(line: str, near: str) -> None:
    with pytest.raises(errors.ConfigError, match=f"line 1: .* is not known; did you mean {re.escape(near)}"):
        policy_of(line)
