"""Plans as files: a plan survives writing and reading, and any other file is refused in one sentence."""

from __future__ import annotations

import copy
import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.factories import inventories
from tests.factories.examples import examples

from iceberg_compaction import errors, load_plan, save_plan
from iceberg_compaction.model import rewrite_plan
from iceberg_compaction.model.policies import Policy
from iceberg_compaction.operations.rewrite_files import plan_file
from iceberg_compaction.plan import build

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from iceberg_compaction.model.rewrite_plan import Plan

MIB = 2**20
DAYS = ['{"day":"2026-01-01"}', '{"day":"2026-01-02"}']


def planned(count: int = 12, **policy: Any) -> Plan:
    rows = inventories.files([MIB] * count, partitions=[DAYS[number % 2] for number in range(count)])
    return build.build(inventories.view(rows), Policy(**policy), plan_id="p", now_ms=1)


@examples(30)
@given(
    st.integers(0, 40),
    st.text(st.characters(blacklist_categories=["Cs"]), max_size=9),
    st.floats(0.001, 1),
    st.booleans(),
)
def test_a_plan_comes_back_as_it_was(count: int, where: str, ratio: float, packed: bool) -> None:
    plan = planned(count, where=where, delete_ratio_threshold=ratio)
    data = plan_file.dump(plan, packed=packed)
    assert plan_file.load(data) == plan
    assert plan_file.dump(plan_file.load(data), packed=packed) == data
    assert data.startswith(b"\x1f\x8b") is packed


@pytest.mark.parametrize("part", [1, 2, 5, 12, 13])
def test_lists_of_any_length_are_whole(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned()
    whole = plan_file.dump(plan)
    monkeypatch.setattr(plan_file, "_PART", part)
    assert plan_file.dump(plan) == whole


def test_the_name_says_whether_it_is_packed(tmp_path: Path) -> None:
    plan = planned()
    for name in ("plan.json", "plan.json.gz"):
        save_plan(plan, tmp_path / name)
        assert load_plan(tmp_path / name) == plan
    assert gzip.decompress((tmp_path / "plan.json.gz").read_bytes()) == (tmp_path / "plan.json").read_bytes()


def test_people_can_read_it() -> None:
    lines = plan_file.dump(planned()).decode().splitlines()
    stored = json.loads("\n".join(lines))
    assert list(stored)[:2] == ["format", "checksum"]
    assert stored["policy"]["min-input-files"] == 5
    assert sum(line.strip().startswith('"f-') for line in lines) == 12  # a line for each file
    assert sum('"copy_sentence"' in line for line in lines) == 2  # and for each group


def test_a_formatter_does_no_harm() -> None:
    plan = planned()
    stored = json.loads(plan_file.dump(plan))
    for text in (json.dumps(stored, indent=8, sort_keys=True), json.dumps(dict(reversed(stored.items())))):
        assert plan_file.load(text.encode()) == plan


def edited(change: Callable[[dict[str, Any]], object]) -> bytes:
    stored = json.loads(plan_file.dump(planned()))
    change(stored)
    return json.dumps(stored).encode()


def signed(**change: Any) -> bytes:
    """A file of which only the content is wrong."""
    stored = json.loads(plan_file.dump(planned())) | change
    del stored["checksum"]
    return json.dumps(stored | {"checksum": plan_file._checksum(stored)}).encode()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "it is not JSON"),
        (b"PAR1 and more", "it is not JSON"),
        (b"\xff\xfe\x00", "it is not JSON"),
        (b"[" * 100_000, "it is not JSON"),
        (plan_file.dump(planned())[:-20], "it is not JSON"),
        (plan_file.dump(planned(), packed=True)[:-20], "it is not JSON"),
        (b"\x1f\x8b" + b"\x00" * 40, "it is not JSON"),
        (b"[]", "is not a plan: `iceberg-compact plan --out FILE` writes one"),
        (b'{"format": 5}', "is not a plan: "),
        (planned().model_dump_json().encode(), "is not a plan: "),
        (edited(lambda stored: stored.update(format=4)), "has format 4, but this version reads 5; make a new plan"),
        (edited(lambda stored: stored.update(table="shop.other")), "checksum differs"),
        (edited(lambda stored: stored["policy"].update({"where": "id > 3"})), "checksum differs"),
        (edited(lambda stored: stored["files"]["file_path"].reverse()), "checksum differs"),
        (edited(lambda stored: stored["groups"].pop()), "checksum differs"),
        (edited(lambda stored: stored.update(surprise=1)), "checksum differs"),
        (edited(lambda stored: stored.update(checksum=None)), "checksum differs"),
        (signed(surprise=1), "is not valid: surprise: it is not known; make a new plan"),
        (signed(groups=[]), "is not valid: the groups hold"),
        (signed(files={"file_path": ["a"], "file_size_in_bytes": [1, 2], "record_count": [1]}), "and of one length"),
        (signed(pin=None), "is not valid: it has groups, but no snapshot"),
        (signed(table="\ud800"), "it has half of a character"),
    ],
)
def test_a_file_that_is_no_plan_is_refused_in_one_sentence(data: bytes, words: str) -> None:
    with pytest.raises(errors.ConfigError, match=words) as caught:
        plan_file.load(data, name="that.json")
    assert "that.json" in str(caught.value)
    assert "\n" not in str(caught.value)


WRONG: list[Any] = [
    *(None, True, -1, 0, 1, 2**63 - 1, 2**63, 2**70, 1e308, float("nan"), 1.5, "", "x", "\x00", "\U0001f600", "\ud800"),
    *("9" * 400, [], {}, [1], {"a": 1}, ["x"] * 3, [[]], "gone", "twice"),
]


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every field of a plan, and of lists the first two items."""
    yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, one in inside:
        yield from paths(one, (*path, key))


def changed(stored: dict[str, Any], path: tuple[Any, ...], wrong: Any) -> dict[str, Any]:
    stored = copy.deepcopy(stored)
    inside: Any = stored
    for key in path[:-1]:
        inside = inside[key]
    if wrong == "gone":
        del inside[path[-1]]
    elif wrong == "twice" and isinstance(inside, list):
        inside.append(inside[path[-1]])
    else:
        inside[path[-1]] = wrong
    return stored


def test_whatever_stands_in_a_field_is_read_or_told_in_a_sentence() -> None:
    """The checksum is right each time: somebody else wrote the file, or another version."""
    stored = json.loads(plan_file.dump(planned(4, min_input_files=2, where="id > 3")))
    read = 0
    for number, path in enumerate(paths(stored)):
        for wrong in WRONG[number % 3 :: 3] if path and path[0] not in ("format", "checksum") else []:
            change = changed(stored, path, wrong)
            del change["checksum"]
            try:
                plan_file.load(
                    json.dumps(change | {"checksum": plan_file._checksum(change)}).encode(), name="that.json"
                )
            except errors.ConfigError as error:
                assert is_sentence(str(error)), error  # noqa: PT017 - it need not be raised
            else:
                read += 1
    assert 0 < read < 400  # of 1,600: what a field may say


def is_sentence(text: str) -> bool:
    return "that.json" in text and text.endswith(".") and "\n" not in text and len(text) < 500


@pytest.mark.parametrize(
    ("path", "wrong", "why"),
    [
        (("files", "file_path", 1), "f-00000", "files: a file is listed twice"),
        (("files", "file_path", 0), None, "files: file_path of a file is null"),
        (("groups", 1, "id"), 0, "two groups have the same id"),
        (("groups", 0, "partition"), "[1]", r"'\[1\]' is not a partition"),
        (("groups", 0, "first"), 1, "group 0 does not begin where the files before it end"),
        (("groups", 0, "files"), -2, "groups.0.files: it must be at least 0"),
        (("groups", 0, "small_files"), 3, "a group has more small_files than files"),
        (("groups", 0, "sections"), [{"spec_id": 0, "partition": "{}", "files": 9}], "the sections of group 0 do not"),
        (("groups", 0, "spec_id"), 2**31, "the id of a partition spec is too large"),
        (("groups", 0, "reason"), "boredom", "groups.0.reason: it must be 'small-files'"),
        (("sizes", "target"), 0, "sizes: the target 0 must be above the minimum"),
        (("copying", "rates", "copying", "bytes_per_second"), float("inf"), "must be a finite number"),
    ],
)
def test_a_wrong_value_is_named_by_its_path(path: tuple[Any, ...], wrong: Any, why: str) -> None:
    stored = json.loads(plan_file.dump(planned(4, min_input_files=2)))
    if isinstance(wrong, str) and wrong.startswith("f-"):
        wrong = stored["files"]["file_path"][0]
    with pytest.raises(errors.ConfigError, match=f"is not valid: .*{why}.*; make a new plan"):
        plan_file.load(signed(**changed(stored, path, wrong)))


def test_every_damaged_byte_is_noticed() -> None:
    data = plan_file.dump(planned(6))
    plan = plan_file.load(data)
    for offset in range(0, len(data), 7):
        damaged = data[:offset] + bytes([data[offset] ^ 1]) + data[offset + 1 :]
        try:
            assert plan_file.load(damaged) == plan  # white space is no part of the plan
        except errors.ConfigError:
            continue
        assert data[offset : offset + 1].isspace()


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(errors.ConfigError, match=r"nothing\.json cannot be read: No such file"):
        load_plan(tmp_path / "nothing.json")
    with pytest.raises(errors.ConfigError, match="cannot be read: Is a directory"):
        load_plan(tmp_path)
    with pytest.raises(errors.ConfigError, match="cannot be written"):
        save_plan(planned(), tmp_path / "no" / "plan.json")


def test_a_file_without_work_is_an_empty_plan() -> None:
    empty = build.build(inventories.view(inventories.files([])), Policy(), plan_id="p", now_ms=0)
    assert isinstance(empty, rewrite_plan.EmptyPlan)
    assert plan_file.load(plan_file.dump(empty)) == empty
    with pytest.raises(ValidationError, match="it has nothing to do"):
        rewrite_plan.Plan.model_validate(empty.model_dump(mode="json"))
