"""Triggers as values: presets, spellings, units, and sentences about what cannot be meant."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_compaction import errors
from iceberg_compaction.interfaces import policy_options
from iceberg_compaction.model.policies import Policy
from iceberg_compaction.model.triggers import OFF, TriggerPreset, Triggers


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({"max_file_count_per_partition": 50}, "max_file_count_per_partition", 50),
        ({"max-file-count-per-partition": "50"}, "max_file_count_per_partition", 50),
        ({"small_file_threshold": "32MiB"}, "small_file_threshold", 32 * 2**20),
        ({"small_file_threshold_bytes": 7}, "small_file_threshold", 7),
        ({"max_delete_ratio": "0.25"}, "max_delete_ratio", 0.25),
        ({"rewrite_interval": "90m"}, "rewrite_interval", 5400.0),
        ({"rewrite_interval": 90}, "rewrite_interval", 90.0),
        ({"rewrite_interval": 0}, "rewrite_interval", 0.0),
        ({"self-optimizing.minor.trigger.interval": 3_600_000}, "minor_trigger_interval", 3600.0),
        ({"self.optimizing.minor.trigger.interval": "3600000ms"}, "minor_trigger_interval", 3600.0),
        ({"self-optimizing.full.trigger.interval": -1}, "full_trigger_interval", OFF),
        ({"self-optimizing.major.trigger.duplicate-ratio": "0.2"}, "major_trigger_duplicate_ratio", 0.2),
        ({"self-optimizing.fragment-ratio": 4}, "fragment_size_divisor", 4),
        ({"max_delete_ratio": "off"}, "max_delete_ratio", OFF),
        ("amoro", "preset", TriggerPreset.AMORO),
        ({"preset": "guide"}, "preset", TriggerPreset.GUIDE),
    ],
)
def test_every_spelling_means_one_thing(given: Any, name: str, value: Any) -> None:
    policy = Policy(triggers=given)
    assert getattr(policy.triggers, name) == value
    assert Policy.model_validate_json(policy.model_dump_json(by_alias=True)) == policy


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"fragment-ratio": 8}, "fragment-ratio has two meanings"),
        ({"max_delete_ration": 1}, "did you mean max_delete_ratio?"),
        ({"max_delete_ratio": -0.5}, "triggers.max_delete_ratio: it must be a number that is not negative, or off"),
        ({"max_delete_ratio": "nan"}, "it must be a number that is not negative"),
        ({"max_file_count_per_partition": 1.5}, "it must be a whole number, or off"),
        ({"max_file_count_per_partition": True}, "it must be a whole number, or off"),
        ({"max_file_count_per_partition": "9" * 40}, "it must be a whole number, or off"),
        ({"rewrite_interval": "soon"}, "'soon' is not a duration"),
        ({"rewrite_interval": [1]}, "is not a duration"),
        ({"small_file_threshold": "huge"}, "is not a size"),
        ({"fragment_size_divisor": 0}, "it must be at least 1"),
        ("guides", "it must be 'strategy', 'guide' or 'amoro'"),
        (7, "triggers"),
    ],
)
def test_what_cannot_be_meant_gets_one_sentence(given: Any, words: str) -> None:
    with pytest.raises(errors.ConfigError, match="Wrong value for triggers") as caught:
        policy_options.make_policy("small-files", None, {"triggers": given})
    assert words in str(caught.value)


def test_triggers_are_on_by_a_preset_or_by_one_threshold() -> None:
    assert not Triggers().active
    assert not Triggers(max_delete_ratio="off").active
    assert not Triggers(fragment_size_divisor=4).active
    assert Triggers(preset="guide").active
    assert Triggers(commits_since_rewrite=0).active
