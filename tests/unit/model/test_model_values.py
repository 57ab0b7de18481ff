"""The vocabulary: sizes as people write them, policies that refuse nonsense, proofs that name the difference."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.factories.examples import examples

from iceberg_compaction import errors
from iceberg_compaction.interfaces import policy_options
from iceberg_compaction.model import byte_size, policies, validation_words
from iceberg_compaction.model.proof import Proof, Side
from iceberg_compaction.model.rewrite_task import Effort


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("1GB", 10**9),
        ("512MiB", 512 * 2**20),
        ("512Mi", 512 * 2**20),
        ("1.5 GB", 1_500_000_000),
        ("17", 17),
        (17, 17),
        ("1k", 1000),
        ("2TiB", 2 * 2**40),
        ("10 b", 10),
        (2**63 - 1, 2**63 - 1),
        ("0009223372036854775806", 2**63 - 2),
    ],
)
def test_sizes(text: object, count: int) -> None:
    assert byte_size.parse_size(text) == count


HUGE = [2**63, 10**1999, "9999PB", "9" * 5000, "9" * 400 + ".5PB"]


@pytest.mark.parametrize("text", ["", "GB", "1XB", "-1", "1 000", None, True, 1.5, -3, "1e9", *HUGE])
def test_what_is_no_size_is_told(text: object) -> None:
    with pytest.raises(errors.ConfigError, match="size"):
        byte_size.parse_size(text)


def test_policy_takes_the_names_of_iceberg_and_of_python() -> None:
    by_alias = policies.Policy.model_validate({"target-file-size-bytes": "1GB", "min-input-files": "2"})
    by_name = policies.Policy(target_file_size_bytes=10**9, min_input_files=2)
    assert by_alias == by_name
    assert policies.Policy.model_validate_json(by_name.model_dump_json(by_alias=True)) == by_name


@pytest.mark.parametrize(
    ("options", "groups", "size"),
    [
        ({"partial-progress": True}, 1, 1),
        ({"partial-progress": True}, 7, 1),
        ({"partial-progress": True}, 11, 2),
        (
            {"partial-progress": True, "partial-progress-max-commits": 20},
            70,
            4,
        ),  # 18 commits, and none counts as failed
        ({"partial-progress": True, "partial-progress-max-commits": 1}, 70, 70),
        ({"partial-progress": False}, 70, 70),
    ],
)
def test_how_many_groups_are_committed_together(options: dict[str, object], groups: int, size: int) -> None:
    rule = policies.batch_rule(policies.Policy.model_validate(options), groups=groups, bytes=10**12)
    assert rule == policies.BatchRule(groups=size)


@pytest.mark.parametrize(
    ("seconds", "share", "due"),
    [(599.0, 1.0, False), (600.0, 0.1, True), (600.0, 0.09, False), (10_000.0, 0.0, False), (10_000.0, 0.5, True)],
)
def test_only_a_long_run_has_several_commits_by_default(seconds: float, share: float, due: bool) -> None:
    rule = policies.batch_rule(policies.Policy(), groups=1000, bytes=10**9)
    assert rule.is_due(groups=max(1, int(1000 * share)), bytes=int(10**9 * share), seconds=seconds) is due


def test_sizes_are_resolved_in_order() -> None:
    assert policies.resolve_sizes(policies.Policy(), {}).target == 512 * 2**20
    from_table = policies.resolve_sizes(policies.Policy(), {"write.target-file-size-bytes": "1000"})
    assert (from_table.min, from_table.target, from_table.max, from_table.write_max) == (750, 1000, 1800, 1400)
    assert (
        policies.resolve_sizes(policies.Policy(target_file_size_bytes=10), {"write.target-file-size-bytes": "9"}).target
        == 10
    )


@pytest.mark.parametrize("text", ["", "big", "-1", "1.5", "0", "9223372036854775808", "9" * 5000])
def test_a_target_of_the_table_that_is_none_is_told_in_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match="target-file-size-bytes") as raised:
        policies.resolve_sizes(policies.Policy(), {"write.target-file-size-bytes": text})
    assert len(str(raised.value)) < 200


@pytest.mark.parametrize(
    "wrong",
    [
        {"target-file-size-bytes": 100, "min-file-size-bytes": 100},
        {"target-file-size-bytes": 100, "max-file-size-bytes": 100},
        {"target-file-size-bytes": 0},
        {"min-input-files": 0},
        {"strategy": "no name"},
        {"strategy": 5},
        {"verify": "maybe"},
        {"surprise": 1},
    ],
)
def test_a_policy_refuses_nonsense(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        policies.Policy.model_validate(wrong)


def test_the_library_tells_wrong_options_in_a_sentence() -> None:
    with pytest.raises(
        errors.ConfigError, match=r"Unknown option min-input-file \(did you mean min-input-files\?\); the options are"
    ):
        policy_options.make_policy("small-files", None, {"min_input_file": 3})
    with pytest.raises(errors.ConfigError, match=r"Wrong value for target-file-size-bytes: .*'big' is not a size"):
        policy_options.make_policy("small-files", "big", {})


sides = st.builds(
    Side,
    rows=st.integers(0, 10**6),
    nulls=st.dictionaries(st.integers(1, 4), st.integers(0, 100)),
    checksums=st.dictionaries(st.integers(1, 4), st.integers(0, 2**64 - 1)),
    row_checksum=st.none() | st.integers(0, 2**64 - 1),
)


@examples()
@given(sides, sides, sides)
def test_sides_add_up_in_any_order(a: Side, b: Side, c: Side) -> None:
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert all(0 <= value < 2**64 for value in (a + b).checksums.values())


SOURCE = Side(rows=5, nulls={1: 0, 2: 3}, checksums={1: 7, 2: 8}, row_checksum=9)
FOOTERS = Side(rows=5, nulls={1: 0, 2: 3})


def proof(**changed: object) -> Proof:
    level = policies.ProofLevel.CHECKSUM
    return Proof(level=level, expected_rows=5, source=SOURCE, sink=SOURCE, footers=FOOTERS).model_copy(update=changed)


def test_a_proof_that_holds() -> None:
    assert proof().failures == ()
    assert proof().sentence == "Proof (checksum): 5 rows in, 5 rows out, checksum 0000000000000009 equal."
    assert (proof() + proof()).source.rows == 10
    assert (proof() + proof()).failures == ()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"expected_rows": 6}, "manifests promise 6 rows, 5 were read"),
        ({"sink": SOURCE.model_copy(update={"rows": 4})}, "5 rows were read but the writer got 4"),
        ({"sink": SOURCE.model_copy(update={"nulls": {1: 1, 2: 3}})}, "null counts of field ids [1] differ"),
        ({"sink": SOURCE.model_copy(update={"checksums": {1: 7, 2: 9}})}, "checksums of field ids [2] differ"),
        ({"sink": SOURCE.model_copy(update={"row_checksum": 1})}, "the row checksum differs"),
        ({"footers": Side(rows=6)}, "5 rows were read but the footers got 6"),
        ({"level": policies.ProofLevel.DEEP}, "5 rows were read but storage got 0"),
    ],
)
def test_a_proof_that_fails_tells_why(changed: dict[str, object], words: str) -> None:
    assert any(words in failure for failure in proof(**changed).failures)
    assert proof(**changed).sentence.startswith("Proof failed")


def test_a_sink_that_was_never_measured_is_no_proof() -> None:
    unmeasured = Side(rows=5)
    assert proof(sink=unmeasured).failures


@pytest.mark.parametrize(
    ("effort", "words"),
    [
        (Effort(), ""),
        (
            Effort(copied_groups=72, copied_bytes=1504 * 2**20),
            "100% of 1.5 GiB was copied as bytes, 72 row groups.",
        ),
        (
            Effort(encoded_groups=1, encoded_bytes=3 * 2**20, kept_from_copying={"has deleted rows": 1}),
            "Nothing of 3.0 MiB was copied, 1 row group encoded: has deleted rows (1).",
        ),
        (
            Effort(encoded_groups=1200, encoded_bytes=3 * 2**20, kept_from_copying={"too small": 1200}),
            "Nothing of 3.0 MiB was copied, 1,200 row groups encoded: too small (1,200).",
        ),
        (
            Effort(
                copied_groups=3,
                copied_bytes=30 * 2**20,
                encoded_groups=5,
                encoded_bytes=10 * 2**20,
                kept_from_copying={"has deleted rows": 1, "too small": 4},
            ),
            "75% of 40.0 MiB was copied as bytes, 3 row groups; 5 row groups encoded: too small (4), "
            "has deleted rows (1).",
        ),
    ],
)
def test_an_effort_in_words(effort: Effort, words: str) -> None:
    assert effort.sentence == words


@pytest.mark.parametrize(
    ("pydantic_words", "ours"),
    [
        ("String should match pattern '^https?://.'", "it must begin with http:// or https://"),
        ("String should match pattern '^(json|slack)$'", "it must be one of json, slack"),
        ("String should match pattern '^[a-z]+$'", "it does not fit ^[a-z]+$"),
        ("String should have at least 1 character", "it must have at least 1 character"),
        ("Input should be a valid dictionary or instance of Some", "it must be a mapping of names to values"),
        ("Value error, it is too old.", "it is too old"),
    ],
)
def test_what_is_refused_is_said_in_plain_words(pydantic_words: str, ours: str) -> None:
    assert validation_words.text(pydantic_words) == ours
