"""Policies as text: printed and read again, described for editors, compared, begun."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tests.factories.examples import examples
from tests.factories.policies import SPELLINGS, policy_of

from iceberg_compaction.model.policies import Policy
from iceberg_compaction.model.table_health import BrokenTable
from iceberg_compaction.model.table_policy import TablePolicy
from iceberg_compaction.policy import draft_policy, json_schema, policy_keys, render_policy, review

SCHEMA = Path(__file__).parents[3] / "docs" / "reference" / "policy.schema.json"

VALUES = {
    "strategy": st.sampled_from(["small-files", "full", "delete-files"]),
    "target-file-size-bytes": st.integers(2**20, 2**40),
    "min-input-files": st.integers(1, 1000),
    "delete-ratio-threshold": st.floats(0.01, 1, allow_nan=False),
    "rewrite-all": st.booleans(),
    "where": st.text(min_size=1, max_size=20).filter(str.strip),
    "owner": st.sampled_from(["off", "null", "12", "a: b", "# no", "data team", "é", "1e3", "-"]),
    "schedule.cron": st.just("0 2 * * *"),
    "quiet-hours": st.just(["mon,tue 22:00-06:00 Europe/Berlin"]),
    "maintenance.expire.max-snapshot-age": st.integers(1, 10**7),
    "maintenance.orphans.enabled": st.booleans(),
    "max-cost": st.floats(0.01, 1000, allow_nan=False),
    "triggers.max-delete-ratio": st.floats(0, 1, allow_nan=False),
    "triggers.preset": st.sampled_from(["guide", "amoro", "strategy"]),
}


@given(st.fixed_dictionaries({}, optional=VALUES))
@examples(80)
def test_what_is_printed_is_read_as_the_same_policy(values: dict[str, object]) -> None:
    effective = policy_of(json.dumps(values))
    printed = render_policy.text(effective)
    assert policy_of(printed).policy == effective.policy
    assert policy_of(effective.policy.model_dump_json(by_alias=True, exclude_unset=True)).policy == effective.policy


def test_equal_policies_have_equal_digests() -> None:
    one, other = policy_of("target_file_size_mb: 128"), policy_of("tables: {'*': {targetFileSize: 128MiB}}")
    assert one.policy.digest == other.policy.digest
    assert one.policy.digest != policy_of("target_file_size_mb: 129").policy.digest
    assert TablePolicy(rewrite=Policy(min_input_files=5)).digest == TablePolicy().digest, "a default says nothing"


def test_the_schema_in_the_docs_is_the_one_that_is_printed() -> None:
    assert SCHEMA.read_text() == json_schema.text(), "iceberg-compact policy schema > docs/reference/policy.schema.json"


def test_the_schema_has_every_value() -> None:
    properties = json_schema.schema()["properties"]
    for name in policy_keys.all_keys():
        first, *rest = name.split(".")
        part = properties[first]
        for each in rest:
            part = next(option for option in part.get("anyOf", [part]) if "properties" in option)["properties"][each]
        assert isinstance(part, dict)


def test_two_files_are_compared_by_what_they_say(tmp_path: Path) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text("target_file_size: 128MiB\nowner: a\ntables: {a.b: {min_input_files: 3}}")
    new.write_text("profile: guide\ntables:\n  - {name: a.b, minInputFiles: 4}\ntarget_file_size_mb: 128\n")
    differences = review.compare(old, new, SPELLINGS).differences
    assert [(each.section, each.name, each.old, each.new) for each in differences] == [
        ("", "owner", "a", None),
        ("table a.b", "min-input-files", 3, 4),
        ("", "profile", None, "guide"),
    ]
    assert review.compare(old, old, SPELLINGS).differences == ()


def test_a_check_counts_and_finds_contradictions_in_every_environment(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("target_file_size: 64MB\nnamespaces: {a: {owner: x}}\ntables: {'b.*': {owner: y}}\n")
    reviewed = review.check(file, SPELLINGS)
    assert (reviewed.ok, reviewed.values, reviewed.namespaces, reviewed.tables) == (True, 3, 1, 1)
    file.write_text(
        "target_file_size: 64MB\nnamespaces: {a: {owner: x}}\nproduction: {tables: {a.b: {min_file_size: 1GB}}}"
    )
    (problem,) = review.check(file, SPELLINGS).problems
    assert "must be above min-file-size-bytes" in problem
    assert "policy.yaml:3, table a.b, environment production" in problem


def test_a_begun_file_is_a_policy_whatever_the_names() -> None:
    broken = [BrokenTable(table=name, error="it\nis gone") for name in ('db."a.b"', "db.on", "x.y.z", 'db.q"q')]
    text = draft_policy.text(broken)
    for each in broken:
        assert policy_of(text, each.table).policy.enabled is False
    assert policy_of(text, "db.other").policy.enabled
    assert policy_of(draft_policy.text([])).policy.enabled
