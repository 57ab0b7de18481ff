"""The policies that a service follows while they change."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from iceberg_compaction import errors
from iceberg_compaction.interfaces.service.policy_shelf import PolicyShelf
from iceberg_compaction.record.entries.memory import MemoryEntries

if TYPE_CHECKING:
    from pathlib import Path


def strategy(shelf: PolicyShelf) -> str:
    return str(shelf.followed().effective("shop.events", {}).policy.rewrite.strategy.value)


def write(file: Path, text: str, moment: int) -> None:
    file.write_text(text)
    os.utime(file, (moment, moment))


def test_a_file_that_breaks_while_the_service_runs_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "policy.yaml"
    write(file, "strategy: full\n", 1)
    shelf = PolicyShelf(entries=MemoryEntries(), file=str(file))
    assert strategy(shelf) == "full"
    write(file, "strategy: [", 2)
    assert strategy(shelf) == "full"
    assert strategy(shelf) == "full"
    assert caplog.text.count("policies of before hold") == 1
    file.unlink()
    assert strategy(shelf) == "full"
    write(file, "strategy: delete-files\n", 3)
    assert strategy(shelf) == "delete-files"


def test_a_file_that_is_broken_from_the_start_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    write(file, "strategy: [", 1)
    shelf = PolicyShelf(entries=MemoryEntries(), file=str(file))
    with pytest.raises(errors.ConfigError, match=r"policy\.yaml"):
        shelf.followed()


def test_stored_documents_win_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    write(file, "tables: {shop.events: {strategy: full}}\n", 1)
    shelf = PolicyShelf(entries=MemoryEntries(), file=str(file))
    shelf.put("own", {"tables": {"shop.events": {"strategy": "delete-files"}}})
    assert strategy(shelf) == "delete-files"
    assert shelf.remove("own")
    assert not shelf.remove("own")
    assert strategy(shelf) == "full"
