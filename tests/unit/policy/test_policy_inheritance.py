"""The most specific source wins, value by value, in whatever order sources say something."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.factories.examples import examples
from tests.factories.policies import SPELLINGS, policy_of, stated

from iceberg_compaction import errors
from iceberg_compaction.model.policy_origin import OriginKind, PolicyOrigin
from iceberg_compaction.policy.policy_book import PolicyBook
from iceberg_compaction.policy.policy_sections import Setting
from iceberg_compaction.policy.sources import load_file

NAME = "min-input-files"
# From the weakest to the strongest. Each level says a number of its own.
LEVELS = (
    "profile",
    "catalog",
    "namespace",
    "deeper namespace",
    "pattern",
    "closer pattern",
    "property",
    "table",
    "flag",
)


def build(levels: set[str], seed: int) -> int:
    """The number of files that counts for `a.b.c` if these levels say something, in a random order."""
    number = {level: 10 + rank for rank, level in enumerate(LEVELS)}
    document: dict[str, Any] = {"namespaces": {}, "tables": {"zz": {}}}
    if "profile" in levels:
        document["profile"] = "guide"
    if "catalog" in levels:
        document[NAME] = number["catalog"]
    for level, pattern in (("namespace", "a"), ("deeper namespace", "a.b")):
        if level in levels:
            document["namespaces"][pattern] = {NAME: number[level]}
    for level, pattern in (("pattern", "a*"), ("closer pattern", "a.b.?"), ("table", "a.b.c")):
        if level in levels:
            document["tables"][pattern] = {NAME: number[level]}
    chance = random.Random(seed)
    text = json.dumps(shuffled(document, chance))
    flags = ()
    if "flag" in levels:
        origin = PolicyOrigin(kind=OriginKind.FLAG, source="--min-input-files")
        flags = (Setting(key=SPELLINGS.keys[NAME], value=number["flag"], origin=origin, spelling=NAME),)
    properties = {"compaction.min-input-files": str(number["property"])} if "property" in levels else {}
    return policy_of(text, "a.b.c", properties, flags=flags).policy.rewrite.min_input_files


def shuffled(document: Any, chance: random.Random) -> Any:
    if not isinstance(document, dict):
        return document
    names = list(document)
    chance.shuffle(names)
    return {name: shuffled(document[name], chance) for name in names}


@given(levels=st.sets(st.sampled_from(LEVELS)), seed=st.integers(0, 2**32))
@examples(80)
def test_the_most_specific_level_wins_in_any_order(levels: set[str], seed: int) -> None:
    strongest = max((LEVELS.index(level) for level in levels), default=None)
    expected = {None: 5, 0: 3}.get(strongest, 10 + (strongest or 0))  # our default, and the guide's
    assert build(levels, seed) == expected


@given(
    patterns=st.lists(
        st.sampled_from(["*", "db.*", "d*", "db.e*", "*.events", "db.event?", "*s"]), unique=True, min_size=1
    ),
    seed=st.integers(0, 2**32),
)
@examples(60)
def test_the_order_of_patterns_in_a_file_does_not_matter(patterns: list[str], seed: int) -> None:
    entries = [{"name": pattern, NAME: 2 + rank} for rank, pattern in enumerate(patterns)]
    first = policy_of(json.dumps({"tables": entries}))
    random.Random(seed).shuffle(entries)
    second = policy_of(json.dumps({"tables": entries}))
    assert first.policy == second.policy
    longest = max(len(pattern.replace("*", "").replace("?", "")) for pattern in patterns)
    winner = patterns[first.policy.rewrite.min_input_files - 2]
    assert len(winner.replace("*", "").replace("?", "")) == longest


def test_each_value_has_its_own_origin_and_what_it_overrides() -> None:
    text = "profile: guide\nmin_input_files: 7\nnamespaces:\n  db:\n    min_input_files: 8\n    owner: us\n"
    effective = policy_of(text, properties={"compaction.target-file-size": "1GiB"})
    assert effective.origin("min-input-files").words == "policy.yaml:5, namespace db"
    setting = effective.setting("min-input-files")
    assert setting is not None
    assert [origin.words for origin in setting.overrides] == ["policy.yaml:2", "profile guide"]
    assert effective.origin("target-file-size-bytes").words == "table property compaction.target-file-size"
    assert effective.origin("max-files-to-rewrite").words == "profile guide"
    assert effective.origin("verify").words == "default"


def test_an_entry_of_the_table_wins_over_its_properties_and_a_pattern_does_not() -> None:
    properties = {"compaction.strategy": "full"}
    by_pattern = policy_of("tables: {'db.*': {strategy: delete-files}}", properties=properties)
    by_name = policy_of("tables: {db.events: {strategy: delete-files}}", properties=properties)
    assert by_pattern.policy.rewrite.strategy.value == "full"
    assert by_name.policy.rewrite.strategy.value == "delete-files"


def test_our_properties_win_over_those_of_others() -> None:
    properties = {
        "write.target-file-size-bytes": "1000000",
        "self-optimizing.target-size": "2000000",
        "compaction.target-file-size": "3MB",
    }
    assert policy_of("", properties=properties).policy.rewrite.target_file_size_bytes == 3_000_000
    del properties["compaction.target-file-size"]
    assert policy_of("", properties=properties).policy.rewrite.target_file_size_bytes == 2_000_000
    del properties["self-optimizing.target-size"]
    effective = policy_of("target_file_size: 1GB", properties=properties)
    assert effective.policy.rewrite.target_file_size_bytes is None, "planning reads Iceberg's own property by itself"
    assert stated(effective)["target-file-size-bytes"] == 1_000_000


def test_a_table_without_its_namespace_is_of_any_or_of_the_one_that_is_stated() -> None:
    assert policy_of("tables: {events: {owner: a}}", "x.events").policy.owner == "a"
    text = "namespace: prod\ntables: {events: {owner: a}}"
    assert policy_of(text, "prod.events").policy.owner == "a"
    assert policy_of(text, "x.events").policy.owner is None


def test_tables_within_a_namespace_are_of_it_and_of_no_other() -> None:
    text = "namespaces: {shop: {tables: {'e*': {owner: a}}}}"
    assert policy_of(text, "shop.events").policy.owner == "a"
    assert policy_of(text, "shop.eu.events").policy.owner == "a", "a star stands for dots, too"
    assert policy_of(text, "other.events").policy.owner is None


def test_names_with_dots_of_their_own_are_quoted() -> None:
    text = """tables: {'db."a.b"': {owner: a}}"""
    assert policy_of(text, 'db."a.b"').policy.owner == "a"
    assert policy_of(text, "db.a.b").policy.owner is None


def test_an_environment_counts_when_it_is_chosen() -> None:
    text = (
        "min_input_files: 3\nstaging: {min_input_files: 15}\nenvironments: {production: {tables: {'*': {owner: ops}}}}"
    )
    assert policy_of(text).policy.rewrite.min_input_files == 3
    assert policy_of(text, environment="staging").policy.rewrite.min_input_files == 15
    assert policy_of(text, environment="production").policy.owner == "ops"
    assert policy_of(f"environment: staging\n{text}").policy.rewrite.min_input_files == 15
    document = load_file.parse(text, "policy.yaml", SPELLINGS)
    book = PolicyBook(document=document, environment="prdo", spellings=SPELLINGS)
    with pytest.raises(errors.ConfigError, match="has no environment 'prdo'; it has staging, production"):
        book.check_environment()


def test_values_that_contradict_each_other_name_their_origins() -> None:
    with pytest.raises(
        errors.ConfigError, match=r"target-file-size-bytes from policy.yaml:1; min-file-size-bytes from"
    ):
        policy_of("target_file_size: 1MB\ntables: {db.events: {min_file_size: 2MB}}")
    with pytest.raises(errors.MetadataError, match=r"Table property compaction\.min-input-files: .* cannot be 'many'"):
        policy_of("", properties={"compaction.min-input-files": "many"})


def test_sizes_of_a_profile_give_way_to_another_target() -> None:
    effective = policy_of("profile: guide\ntarget_file_size: 32MiB")
    assert effective.policy.rewrite.min_file_size_bytes is None
    assert "the target size is another, from policy.yaml:2" in effective.ignored[0].reason


def test_ten_thousand_tables_share_what_was_made_before() -> None:
    document = load_file.parse("profile: guide\nnamespaces: {db: {owner: us}}", "policy.yaml", SPELLINGS)
    book = PolicyBook(document=document, spellings=SPELLINGS)
    policies = [book.for_table(f"db.t{number}", {}) for number in range(10_000)]
    assert {each.table for each in policies} == {f"db.t{number}" for number in range(10_000)}
    assert len({id(each.policy) for each in policies}) == 1
