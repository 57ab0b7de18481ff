"""Prices under all their names, from texts and files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from iceberg_compaction import errors, settings
from iceberg_compaction.interfaces import policy_options
from iceberg_compaction.model import plan_cost
from iceberg_compaction.model.policies import Policy
from iceberg_compaction.model.prices import Prices, parse_prices
from iceberg_compaction.model.storage_requests import StorageRequests

if TYPE_CHECKING:
    from pathlib import Path


def test_prices_are_given_by_name() -> None:
    prices = parse_prices("task-hour=3.6, thousand-writes=1", variable="P")
    assert prices.compute(10) == pytest.approx(0.01)
    assert prices.thousand_reads == Prices().thousand_reads


def test_the_three_names_of_the_guide_are_known() -> None:
    text = "api_cost_per_1000: 0.005\ncompute_cost_per_second: 0.0001 # a core\nstorage_cost_per_gb: 0.02\n"
    prices = parse_prices(text, variable="P")
    assert prices == Prices(thousand_reads=0.005, thousand_writes=0.005, task_hour=0.0001 * 3600, gb_month=0.02)
    assert prices.requests(StorageRequests(gets=1000, puts=1000)) == pytest.approx(0.01)
    assert prices.storage(5 * 10**9, 15) == pytest.approx(0.05)


@pytest.mark.parametrize(
    "text",
    ["hour=1", "task-hour", "task-hour=x", "task-hour=-1", "task-hour=nan", '{"task-hour": [1]}', "{1}", '{"a": true}'],
)
def test_a_price_that_cannot_be_meant_is_refused(text: str) -> None:
    with pytest.raises(errors.ConfigError, match=r"^P: "):
        parse_prices(text, variable="P")


def test_a_wrong_line_of_a_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text("# ours\ntask-hour: 0.04\nthousand-reads\n")
    with pytest.raises(errors.ConfigError, match=r"prices\.yaml, line 3: 'thousand-reads' is not a price"):
        settings.read_prices(str(file), origin="--prices")


def test_files_are_yaml_or_json_and_a_policy_takes_them(tmp_path: Path) -> None:
    for name, text in (("p.yaml", "---\nprices:\n  task-hour: 0.04\n"), ("p.json", '{"compute-hour": 0.04}')):
        (tmp_path / name).write_text(text)
        policy = policy_options.make_policy("small-files", None, {"prices": str(tmp_path / name)})
        assert policy.prices == Prices(task_hour=0.04)
        assert Policy.model_validate_json(policy.model_dump_json()) == policy
    assert settings.load_prices({"ICEBERG_COMPACTION_PRICES": str(tmp_path / "p.json")}) == Prices(task_hour=0.04)
    with pytest.raises(errors.ConfigError, match=r"cannot be read: No such file"):
        policy_options.make_policy("small-files", None, {"prices": str(tmp_path / "none")})


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("max_cost", "max_cost"),
        ("max_bytes", "max_bytes_to_rewrite"),
        ("max-files", "max_files_to_rewrite"),
        ("costLimit.hourly", "hourly_cost_limit"),
        ("cost-limit.hourly", "hourly_cost_limit"),
    ],
)
def test_budgets_have_the_names_of_the_guides(name: str, field: str) -> None:
    assert getattr(policy_options.make_policy("small-files", None, {name: 7}), field) == 7


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "$0.00"), (12.5, "$12.50"), (0.0031, "$0.0031"), (0.00006, "$0.000060"), (-0.5, "-$0.5"), (1234, "$1,234.00")],
)
def test_dollars_have_the_digits_they_need(amount: float, text: str) -> None:
    assert plan_cost.dollars(amount) == text
