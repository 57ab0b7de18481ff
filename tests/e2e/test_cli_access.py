"""`token` and `usage` as a user calls them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from iceberg_compaction.interfaces.cli.app import app

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "runs.db"
    monkeypatch.setenv("STORE_URL", str(file))
    return file


def call(*words: str, ends: int = 0) -> str:
    result = CliRunner().invoke(app, list(words), env={"COLUMNS": "200"})
    assert result.exit_code == ends, result.output
    return result.output


def test_a_token_is_made_listed_and_revoked(store: Path) -> None:
    made = json.loads(call("token", "create", "airflow", "--role", "operator", "--tenant", "shop", "--output", "json"))
    assert made["secret"].startswith("ict_")
    assert made["secret"].encode() not in store.read_bytes()
    listed = call("token", "list")
    assert "airflow" in listed
    assert "operator" in listed
    assert made["secret"] not in listed
    assert "revoked" in call("token", "revoke", made["token"]["token_id"])
    shown = call("token", "create", "ann", "--role", "admin", "--expires", "never")
    assert "never ends" in shown
    assert "Copy it now" in shown


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["token", "create"], "token create takes a name"),
        (["token", "list", "x"], "token list takes nothing else"),
        (["token", "revoke"], "token revoke takes the id"),
        (["token", "create", "x", "--role", "boss"], "'boss' is no role; choose one of viewer, operator, admin"),
        (["token", "create", "x", "--expires", "soon"], "'soon' is not a duration"),
        (["token", "revoke", "nope"], "There is no token with the id 'nope'"),
        (["usage", "show", "--month", "May"], "'May' is no month"),
        (["usage", "show", "--settings", "nothing.yaml"], "The settings nothing.yaml cannot be read"),
    ],
)
def test_wrong_words_get_a_sentence(words: list[str], sentence: str) -> None:
    assert sentence in call(*words, ends=2)


def test_usage_of_an_empty_store() -> None:
    assert "No run began in 2026-01." in call("usage", "show", "--month", "2026-01")
    assert call("usage", "export", "--month", "2026-01").startswith("month,tenant,runs")
    assert json.loads(call("usage", "export", "--month", "2026-01", "--output", "json")) == []
