"""Policy files of enemies, and of people in a hurry: each gets one sentence with file and line, soon, and no
traceback."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.factories.examples import examples
from tests.factories.policies import GUIDE, SPELLINGS, policy_of

from iceberg_compaction import errors
from iceberg_compaction.policy import review
from iceberg_compaction.policy.sources import load_file

if TYPE_CHECKING:
    from pathlib import Path

BOMB = "a: &a [x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
HOSTILE = {
    "bomb": (BOMB, r"line 1: anchors and aliases are not read"),
    "alias": ("owner: &me x\ntenant: *me", "line 1: anchors and aliases are not read"),
    "merge": ("base: {owner: x}\ntables:\n  a.b:\n    <<: *base", "line 4: anchors and aliases|not known|neither YAML"),
    "tag": ("owner: !!python/object/apply:os.system [ls]", "line 1: the tag .* is not read"),
    "deep list": ("owner: " + "[" * 5000, "line 1: it is nested deeper than 24 levels"),
    "deep mapping": ("\n".join("  " * depth + "a:" for depth in range(200)), r"line 2\d: it is nested deeper than 24"),
    "open": ("tables: [a, b", r"line \d: it is neither YAML nor JSON"),
    "tab": ("owner: x\n\ttenant: y", "line 2: it is neither YAML nor JSON"),
    "twice": ("owner: a\nstrategy: full\nowner: b", "line 3: 'owner' is there twice, first in line 1"),
    "same table": ("tables:\n  - {name: a.b}\n  - {name: a.b, owner: x}", "line 3: table a.b is there twice"),
    "list": ("- owner: a", "line 1: a policy file is a mapping"),
    "text": ("hello", "line 1: a policy file is a mapping"),
    "two documents": ("owner: a\n---\nowner: b", "line 2: a second document begins here"),
    "key of a list": ("? [a, b]\n: 1", "line 1: the name of a setting must be text"),
    "nothing": ("owner: a\0b", "line 1: it is not text"),
    "bell": ("owner: a\x07b", "line 1: it is not text that YAML allows"),
    "tables": ("tables: 3", "line 1: tables must be a mapping"),
    "table": ("tables:\n  a.b: 3", "line 2: a.b must be a mapping of settings"),
    "unnamed": ("tables:\n  - owner: a", "line 2: each of tables needs a name"),
    "empty name": ("tables:\n  a..b: {}", "line 2: 'a..b' is not a table name"),
    "number": ("owner: x\nmin_input_files: [1, 2]", "line 2: min_input_files cannot be"),
    "mapping": ("min_input_files: {a: 1}", "line 1: min_input_files.a is not known"),
    "negative": ("min_input_files: -4", "line 1: min_input_files cannot be -4: it must be at least 1"),
    "many digits": ("min_input_files: " + "9" * 6000, "line 1: min_input_files cannot be"),
    "huge size": ("target_file_size: 999999999999PB", "line 1: target_file_size cannot be"),
    "infinite": ("target_file_size_mb: 1e300", "line 1: target_file_size_mb cannot be 1"),
    "beyond floats": ("target_file_size_mb: 1e999", "line 1: target_file_size_mb cannot be '1e999'"),
    "truth": ("enabled: perhaps", "line 1: enabled cannot be 'perhaps': it must be true or false"),
    "profile": ("profile: [guide]", r"line 1: \['guide'\] is no profile"),
    "preset": ("triggers: mine", "line 1: triggers cannot be 'mine': it must be 'strategy', 'guide' or 'amoro'"),
    "hours": ("quiet_hours: [25:00-26:00]", "line 1: quiet_hours cannot be"),
    "day": ("quiet_hours: nonday 8:00-9:00", "line 1: quiet_hours cannot be"),
    "extends": ("extends: {a: 1}", "line 1: extends must be the path of a file"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_gets_one_sentence_with_its_line(name: str, tmp_path: Path) -> None:
    text, words = HOSTILE[name]
    file = tmp_path / "policy.yaml"
    file.write_bytes(text.encode())
    begun = time.process_time()
    reviewed = review.check(file, SPELLINGS)
    assert time.process_time() - begun < 2
    assert not reviewed.ok
    first = reviewed.problems[0]
    assert first.startswith(str(file))
    with pytest.raises(errors.ConfigError, match=words):
        raise errors.ConfigError(first)
    assert "\n" not in first
    assert len(first) < len(str(file)) + 400


def test_a_schedule_and_a_time_zone_are_checked_with_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text('owner: a\nschedule: "99 * * * *"')
    assert "line 2: '99 * * * *' is no schedule: Bad minute" in review.check(file, SPELLINGS).problems[0]
    file.write_text("quiet_hours: 1:00-2:00 Mars/Phobos")
    assert "line 1: 'Mars/Phobos' is no time zone" in review.check(file, SPELLINGS).problems[0]
    file.write_text("quiet_hours: 1:00-2:00 ../../etc/passwd")
    assert "is no time zone" in review.check(file, SPELLINGS).problems[0]


def test_a_strategy_that_nobody_has_is_a_problem_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("owner: a\ntables: {shop.a: {strategy: full},\n shop.b: {strategy: smal-files}}")
    (problem,) = review.check(file, SPELLINGS).problems
    assert "line 3: 'smal-files' is not a strategy (did you mean small-files?); choose one of" in problem


def test_a_file_of_ten_megabytes_is_not_read_to_its_end(tmp_path: Path) -> None:
    file = tmp_path / "large.yaml"
    file.write_text("# nothing\n" * 1_000_000)
    begun = time.process_time()
    with pytest.raises(errors.ConfigError, match=r"large.yaml, line \d+: the file goes on beyond 2 MiB"):
        load_file.load(file, SPELLINGS)
    assert time.process_time() - begun < 1


def test_a_file_with_very_many_values_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "many.yaml"
    file.write_text("tables: [" + "a," * 300_000 + "]")
    with pytest.raises(errors.ConfigError, match="line 1: it has more than 200,000 values"):
        load_file.load(file, SPELLINGS)


def test_bytes_that_are_no_text_name_their_line(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_bytes(b"owner: a\n\xff\xfe: b")
    with pytest.raises(errors.ConfigError, match=r"policy\.yaml, line 2: it is not text in UTF-8"):
        load_file.load(file, SPELLINGS)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(errors.ConfigError, match="There is no policy file"):
        load_file.load(tmp_path / "nothing.yaml", SPELLINGS)
    with pytest.raises(errors.ConfigError, match="is not a file"):
        load_file.load(tmp_path, SPELLINGS)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(errors.ConfigError, match="is not a file"):
        load_file.load(tmp_path / "pipe", SPELLINGS)


def test_a_circle_of_files_is_named_with_its_line(tmp_path: Path) -> None:
    for name, other in (("a", "b"), ("b", "c"), ("c", "a")):
        (tmp_path / f"{name}.yaml").write_text(f"owner: x\nextends: {other}.yaml")
    words = (
        "c.yaml, line 2: the files extend each other in a circle: a.yaml extends b.yaml extends c.yaml extends a.yaml"
    )
    with pytest.raises(errors.ConfigError, match=words):
        load_file.load(tmp_path / "a.yaml", SPELLINGS)
    (tmp_path / "self.yaml").write_text("extends: self.yaml")
    with pytest.raises(errors.ConfigError, match=r"self\.yaml, line 1: the files extend each other in a circle"):
        load_file.load(tmp_path / "self.yaml", SPELLINGS)


def test_a_file_that_extends_a_missing_one_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("extends: missing.yaml")
    with pytest.raises(errors.ConfigError, match=r"There is no policy file .*missing.yaml"):
        load_file.load(tmp_path / "a.yaml", SPELLINGS)


def sentence_about(text: str) -> str:
    """What is wrong with a text; empty: it is a policy."""
    try:
        policy_of(text)
    except errors.CompactionError as error:
        return str(error)
    return ""


@given(st.text(max_size=200))
@examples(100)
def test_any_text_is_a_policy_or_one_sentence(text: str) -> None:
    assert "\n" not in sentence_about(text)


@given(at=st.integers(0, len(GUIDE) - 1), with_=st.sampled_from(list('{}[]:,"\\/\t#&*!%@`|>\n\0é0-')))
@examples(100)
def test_a_damaged_file_is_a_policy_or_one_sentence(at: int, with_: str) -> None:
    assert "\n" not in sentence_about(GUIDE[:at] + with_ + GUIDE[at + 1 :])
