"""Files of others work as they stand: the guide's config.json, the custom resource, Polaris' policies, Amoro's and
Iceberg's properties; and our own, which extend each other."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.factories.policies import AMORO, CUSTOM_RESOURCE, GUIDE, SPELLINGS, policy_of, stated

from iceberg_compaction import errors
from iceberg_compaction.model.policies import Strategy
from iceberg_compaction.policy import profiles
from iceberg_compaction.policy.policy_book import PolicyBook
from iceberg_compaction.policy.sources import load_file

if TYPE_CHECKING:
    from pathlib import Path

MIB = 2**20
OF_GUIDE = {
    "target-file-size-bytes": 128 * MIB,
    "min-file-size-bytes": 64 * MIB,
    "min-input-files": 3,
    "max-files-to-rewrite": 100,
    "enabled": True,
    "check-every-writes": 5,
}


@pytest.mark.parametrize("text", [GUIDE, f"{{{GUIDE}}}", f"// settings\n{{\n{GUIDE}}}", "\ufeff" + GUIDE])
def test_the_guides_config_works_unchanged(text: str, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(text, encoding="utf-8")
    document = load_file.load(file, SPELLINGS)
    effective = PolicyBook(document=document, spellings=SPELLINGS).for_table("db.events", {})
    assert stated(effective) == OF_GUIDE
    ignored = {each.name: each.reason for each in effective.ignored}
    assert "never for compaction" in ignored["iceberg.write.parquet_row_group_size"]
    assert "write.parquet.compression-codec" in ignored["iceberg.write.compression_codec"]


def test_the_guides_config_has_its_environments() -> None:
    plain = json.loads("{" + "\n".join(line.partition("//")[0] for line in GUIDE.splitlines()) + "}")
    staging = {"iceberg": {"compaction": {"opportunistic_check_interval": 75, "min_files_to_compact": 15}}}
    text = json.dumps({**plain, "environments": {"development": {}, "staging": staging}})
    assert policy_of(text, environment="staging").policy.rewrite.min_input_files == 15
    assert policy_of(text, environment="staging").policy.check_every_writes == 75
    assert stated(policy_of(text, environment="development")) == {**OF_GUIDE, "environment": "development"}
    whole = json.dumps({"development": plain, "production": {"compaction": {"min_files_to_compact": 20}}})
    assert policy_of(whole, environment="production").policy.rewrite.min_input_files == 20
    assert policy_of(whole, environment="development").policy.rewrite.min_input_files == 3


def test_the_custom_resource_works_unchanged() -> None:
    if "time-series" not in {each.value for each in Strategy}:
        with pytest.raises(errors.ConfigError, match="line 12: strategy cannot be 'time-series'"):
            policy_of(CUSTOM_RESOURCE, "production.events")
        strategy = "full"
    else:
        strategy = "time-series"
    text = CUSTOM_RESOURCE.replace("time-series", strategy)
    events = policy_of(text, "production.events")
    assert events.policy.rewrite.strategy.value == strategy
    assert events.policy.rewrite.target_file_size_bytes == 512 * MIB
    assert events.policy.schedule.cron == "0 * * * *"
    assert stated(events)[SPELLINGS.meaning("costLimit.hourly").key.name] == 10.0  # type: ignore[union-attr]
    assert policy_of(text, "production.dimensions").policy.rewrite.target_file_size_bytes == 1024 * MIB
    assert policy_of(text, "test.events").policy.rewrite.target_file_size_bytes is None
    assert {each.name for each in events.ignored} == {"catalog.type", "resources.memory", "resources.cpu"}
    spec = text.partition("spec:\n")[2]
    alone = "\n".join(line.removeprefix("  ") for line in spec.splitlines())
    assert policy_of(alone, "production.events").policy == events.policy


def test_another_kind_of_resource_is_refused() -> None:
    with pytest.raises(errors.ConfigError, match="line 2: its kind is 'CronJob', not CompactionPolicy"):
        policy_of("apiVersion: batch/v1\nkind: CronJob\n")


COMPACTION = {
    "version": "2025-02-03",
    "enable": True,
    "config": {
        "target_file_size_bytes": 134217728,
        "compaction_strategy": "bin-pack",
        "max-concurrent-file-group-rewrites": 5,
    },
}
EXPIRY = {"version": "2025-02-03", "enable": True, "config": {"min_snapshot_to_keep": 2, "max_snapshot_age_days": 3}}
ORPHANS = {"version": "2025-02-03", "enable": False, "max_orphan_file_age_in_days": 7}


def test_a_policy_of_polaris() -> None:
    effective = policy_of(json.dumps(COMPACTION, indent=1))
    assert stated(effective) == {
        "strategy": "small-files",
        "target-file-size-bytes": 128 * MIB,
        "enabled": True,
    }
    assert effective.ignored[0].origin.line == 7


@pytest.mark.parametrize(
    ("content", "step", "expected"),
    [
        (EXPIRY, "expire", {"enabled": True, "max_snapshot_age": 259_200.0, "min_snapshots_to_keep": 2}),
        (ORPHANS, "orphans", {"enabled": False, "older_than": 604_800.0}),
    ],
)
def test_upkeep_policies_of_polaris_are_told_by_their_content(
    content: dict[str, object], step: str, expected: dict[str, object]
) -> None:
    part = getattr(policy_of(json.dumps(content)).policy.maintenance, step)
    assert {name: getattr(part, name) for name in expected} == expected


def test_the_applicable_policies_of_polaris_are_one_policy() -> None:
    listed = [
        {"policy-type": "system.data-compaction", "name": "a", "content": json.dumps(COMPACTION)},
        {"policy-type": "system.snapshot-expiry", "name": "b", "content": json.dumps(EXPIRY)},
    ]
    policy = policy_of(json.dumps({"applicable-policies": listed})).policy
    assert policy.enabled
    assert policy.maintenance.expire.enabled
    assert policy.rewrite.target_file_size_bytes == 128 * MIB
    with pytest.raises(errors.ConfigError, match="'views' is no type of policy"):
        policy_of(json.dumps({"policy-type": "system.views", "content": "{}"}))


@pytest.mark.parametrize("prefix", ["self-optimizing.", "self.optimizing."])
def test_a_table_that_is_configured_for_amoro(prefix: str) -> None:
    properties = {name.replace("self-optimizing.", prefix): value for name, value in AMORO.items()}
    effective = policy_of("", properties=properties)
    assert stated(effective) == {
        "target-file-size-bytes": 128 * MIB,
        "max-files-to-rewrite": 10_000,
        "enabled": True,
        "triggers.preset": "amoro",
        "maintenance.expire.enabled": True,
        "maintenance.expire.max-snapshot-age": 43_200,
        "triggers.fragment-size-divisor": 8,
        "triggers.minor-trigger-file-count": 12,
        "triggers.minor-trigger-interval": 3600.0,
        "triggers.major-trigger-duplicate-ratio": 0.1,
        "triggers.full-trigger-interval": "off",
    }
    ignored = {each.name: each.reason for each in effective.ignored}
    assert ignored == {
        f"{prefix}quota": "it is about Amoro's own server",
        "change.data.ttl.minutes": "it is for Amoro's own table format",
    }


def test_properties_of_iceberg_about_history() -> None:
    properties = {"history.expire.max-snapshot-age-ms": "86400000", "history.expire.min-snapshots-to-keep": "4"}
    expire = policy_of("", properties=properties).policy.maintenance.expire
    assert (expire.max_snapshot_age, expire.min_snapshots_to_keep, expire.enabled) == (86_400.0, 4, False)


def test_properties_that_are_not_about_policies_are_not_mentioned() -> None:
    effective = policy_of("", properties={"write.format.default": "parquet", "comment": "x", "owner": "somebody"})
    assert effective.settings == effective.ignored == ()


def test_a_property_of_ours_that_is_not_known_is_mentioned() -> None:
    (ignored,) = policy_of("", properties={"compaction.stratgy": "full"}).ignored
    assert ignored.reason == "it is not known; perhaps strategy is meant"


@pytest.mark.parametrize(
    ("profile", "target", "least", "files", "group"),
    [
        ("iceberg", None, None, 5, 100 * 1024 * MIB),
        ("nimtable", 1024 * MIB, 32 * MIB, 5, 50 * 1024 * MIB),
        ("amoro", 128 * MIB, 96 * MIB, 5, 100 * 1024 * MIB),
        ("guide", 128 * MIB, 64 * MIB, 3, 100 * 1024 * MIB),
    ],
)
def test_profiles_have_the_defaults_that_people_know(
    profile: str, target: int | None, least: int | None, files: int, group: int
) -> None:
    rewrite = policy_of(f"profile: {profile}").policy.rewrite
    assert rewrite.target_file_size_bytes == target
    assert rewrite.min_file_size_bytes == least
    assert rewrite.min_input_files == files
    assert rewrite.max_file_group_size_bytes == group


def test_a_profile_is_known_whole_and_a_property_may_choose_it() -> None:
    for name in profiles.NAMES:
        values = profiles.values(name, None)
        assert stated(policy_of(f"profile: {name}")) == dict(values)
    assert policy_of("profile: iceberg", properties={"compaction.profile": "guide"}).profile == "guide"
    guide = policy_of("profile: guide", environment="production").policy
    assert (guide.rewrite.min_input_files, guide.check_every_writes) == (20, 100)
    unused = {each.name: each.reason for each in policy_of("profile: nimtable").ignored}
    assert unused["max-record-batch-rows"].startswith("1024 there")


def test_a_file_extends_weaker_files(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("owner: base\ntenant: base\ntables: {db.events: {min_input_files: 4}}")
    (tmp_path / "team").mkdir()
    (tmp_path / "team" / "policy.yaml").write_text("extends: ../base.yaml\nowner: team\nmin_input_files: 9")
    document = load_file.load(tmp_path / "team" / "policy.yaml", SPELLINGS)
    effective = PolicyBook(document=document, spellings=SPELLINGS).for_table("db.events", {})
    assert (effective.policy.owner, effective.policy.rewrite.tenant) == ("team", "base")
    assert effective.policy.rewrite.min_input_files == 4, "an entry of the table is stronger, wherever it stands"
    assert effective.origin("tenant").source.endswith("base.yaml")
