"""Plans as files: what is read is what was written, and whatever else a file may be is told in one sentence."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.factories import inventories

from iceberg_compaction import errors, load_plan, save_plan
from iceberg_compaction.model.policy import Policy
from iceberg_compaction.plan import build
from iceberg_compaction.workflow import plan_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from iceberg_compaction.model.plan import Plan

MIB = 2**20
DAYS = ['{"day":"2026-01-01"}', '{"day":"2026-01-02"}']


def planned(count: int = 12, **policy: Any) -> Plan:
    rows = inventories.files([MIB] * count, partitions=[DAYS[number % 2] for number in range(count)])
    return build.build(inventories.inventory(rows), Policy(**policy), plan_id="p", now_ms=1)


@settings(derandomize=True, database=None, deadline=None, max_examples=30)
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
    told = json.loads("\n".join(lines))
    assert list(told)[:2] == ["format", "checksum"]
    assert told["policy"]["min-input-files"] == 5
    assert sum(line.strip().startswith('"f-') for line in lines) == 12  # a line for each file
    assert sum('"copy_sentence"' in line for line in lines) == 2  # and for each group


def test_a_formatter_does_no_harm() -> None:
    plan = planned()
    told = json.loads(plan_file.dump(plan))
    for text in (json.dumps(told, indent=8, sort_keys=True), json.dumps(dict(reversed(told.items())))):
        assert plan_file.load(text.encode()) == plan


def edited(change: Callable[[dict[str, Any]], object]) -> bytes:
    told = json.loads(plan_file.dump(planned()))
    change(told)
    return json.dumps(told).encode()


def signed(**change: Any) -> bytes:
    """A file of which only the content is wrong."""
    told = json.loads(plan_file.dump(planned())) | change
    del told["checksum"]
    return json.dumps(told | {"checksum": plan_file._checksum(told)}).encode()


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "cannot be read as JSON"),
        (b"PAR1 and more", "cannot be read as JSON"),
        (b"\xff\xfe\x00", "cannot be read as JSON"),
        (b"[" * 100_000, "cannot be read as JSON"),
        (plan_file.dump(planned())[:-20], "cannot be read as JSON"),
        (plan_file.dump(planned(), packed=True)[:-20], "cannot be read as JSON"),
        (b"\x1f\x8b" + b"\x00" * 40, "cannot be read as JSON"),
        (b"[]", "is not a plan: `iceberg-compact plan --out FILE` writes one"),
        (b'{"format": 5}', "is not a plan: "),
        (planned().model_dump_json().encode(), "is not a plan: "),
        (edited(lambda told: told.update(format=4)), "has format 4, and this version reads 5; make a new plan"),
        (edited(lambda told: told.update(table="shop.other")), "checksum differs"),
        (edited(lambda told: told["policy"].update({"where": "id > 3"})), "checksum differs"),
        (edited(lambda told: told["files"]["file_path"].reverse()), "checksum differs"),
        (edited(lambda told: told["groups"].pop()), "checksum differs"),
        (edited(lambda told: told.update(surprise=1)), "checksum differs"),
        (edited(lambda told: told.update(checksum=None)), "checksum differs"),
        (signed(surprise=1), "makes no sense: Extra inputs are not permitted"),
        (signed(groups=[]), "makes no sense: .* the groups hold"),
    ],
)
def test_whatever_else_a_file_is_it_is_told_in_a_sentence(data: bytes, told: str) -> None:
    with pytest.raises(errors.ConfigError, match=told) as caught:
        plan_file.load(data, name="that.json")
    assert "that.json" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_damaged_byte_is_noticed() -> None:
    data = plan_file.dump(planned(6))
    plan = plan_file.load(data)
    for place in range(0, len(data), 7):
        damaged = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        try:
            assert plan_file.load(damaged) == plan  # white space is no part of the plan
        except errors.ConfigError:
            continue
        assert data[place : place + 1].isspace()


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(errors.ConfigError, match=r"nothing\.json cannot be read: No such file"):
        load_plan(tmp_path / "nothing.json")
    with pytest.raises(errors.ConfigError, match="cannot be read: Is a directory"):
        load_plan(tmp_path)
    with pytest.raises(errors.ConfigError, match="cannot be written"):
        save_plan(planned(), tmp_path / "no" / "plan.json")
