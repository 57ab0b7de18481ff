"""The contract suites that ship for authors of strategies and engines: our own pass them, broken ones do not, and a
strategy and an engine of another package are found by their entry points."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.factories import lake as lakes

from iceberg_compaction import Compactor, Kind, errors
from iceberg_compaction.execute.engines.inline_engine import InlineEngine, InlineWork
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.model import extensions
from iceberg_compaction.model.policies import Policy, Strategy
from iceberg_compaction.model.rewrite_plan import GroupReason
from iceberg_compaction.plan.strategies import registry, small_files
from iceberg_compaction.plan.strategies.rewrite_strategy import Choice, Verdict
from iceberg_compaction.testing import check_engine, check_strategy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from iceberg_compaction.plan.strategies.rewrite_strategy import RewriteStrategy


@pytest.mark.parametrize("strategy", list(Strategy))
def test_our_own_strategies_keep_the_contract(strategy: Strategy) -> None:
    check_strategy(registry.STRATEGIES[strategy], tables=16)


def test_a_policy_may_go_with_a_strategy() -> None:
    policy = Policy(strategy=Strategy.SORT, target_file_size_bytes=10**6, sort_order="k desc", max_sort_bytes=10**7)
    check_strategy(registry.choose(policy), policy, tables=8)


def _none(files: Any, _request: Any) -> Choice:
    return Choice(candidates=np.zeros(len(files.rows), np.bool_), left_out={})


def _always(bins: Any, _request: Any) -> Verdict:
    return Verdict(rewritten={GroupReason.NOT_OPTIMAL: bins.count > 0}, left_out={})


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (replace(small_files.STRATEGY, choose=_none), "choose has .* in no mask"),
        (replace(small_files.STRATEGY, judge=_always), "a second plan is not empty"),
        (replace(small_files.STRATEGY, order=lambda _packing, kept, _request: kept[:1]), "order adds, drops"),
        (replace(small_files.STRATEGY, explain=lambda *_: "ends.\n"), "several lines, or end with a full stop"),
    ],
)
def test_broken_strategies_are_told_apart(broken: RewriteStrategy, words: str) -> None:
    with pytest.raises(AssertionError, match=rf"On table \d+ of the suite: .*{words}"):
        check_strategy(broken)


class _Forgetful(InlineWork):
    """Stages nothing."""

    def results(self) -> Iterator[Any]:
        yield from super().results()
        self.staged = []


class _ForgetfulEngine(InlineEngine):
    def start(self, job: Any, *, cancel: Any) -> _Forgetful:
        return _Forgetful(job, cancel, self._rewrite)


def test_engines_keep_their_contract(tmp_path: Path) -> None:
    check_engine(InlineEngine, tmp_path / "inline")
    check_engine(lambda: wiring.engine_factory("inline")(), tmp_path / "as context")
    with pytest.raises(AssertionError, match="staged has other results"):
        check_engine(_ForgetfulEngine, tmp_path / "forgetful")


PACKAGE = """
from dataclasses import replace
from iceberg_compaction.execute.engines.inline_engine import InlineEngine
from iceberg_compaction.plan.strategies.rewrite_strategy import RewriteStrategy
from iceberg_compaction.plan.strategies import full

EAGER = full.STRATEGY
engine = InlineEngine
NOTHING = 5
"""
POINTS = """[iceberg_compaction.strategies]
eager = author_of_strategies:EAGER
nothing = author_of_strategies:NOTHING
missing = author_of_strategies:ABSENT
gone = no_such_module_anywhere:X

[iceberg_compaction.engines]
here = author_of_strategies:engine
nothing = author_of_strategies:NOTHING
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with entry points, as an installer leaves it."""
    site = tmp_path / "site"
    info = site / "author_of_strategies-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: author-of-strategies\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    (site / "author_of_strategies.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delitem(sys.modules, "author_of_strategies", raising=False)
    return site


def test_a_strategy_and_an_engine_of_another_package_do_the_work(installed: Path, local_lake: lakes.Lake) -> None:
    table = lakes.make_table(local_lake.catalog, "db.t")
    lakes.append_small_files(table, 6)
    check_strategy(registry.named("eager"), tables=10)
    compactor = Compactor(local_lake.settings, "eager", engine="here")
    plan = compactor.plan_table("db.t")
    assert plan.policy.strategy == "eager"
    assert type(plan).model_validate_json(plan.model_dump_json()) == plan
    outcome = compactor.apply(plan)
    assert (outcome.kind, outcome.strategy) == (Kind.COMPACTED, "eager"), outcome.sentence
    assert type(outcome).model_validate_json(outcome.model_dump_json()) == outcome
    summary = table.refresh().current_snapshot().summary
    assert summary["compaction.strategy"] == "eager"
    assert compactor.compact_table("db.t").kind is Kind.HEALTHY


@pytest.mark.parametrize(
    ("find", "words"),
    [
        (lambda: registry.named("eagre"), r"'eagre' is not a strategy \(did you mean eager\?\); choose one of small"),
        (lambda: registry.named("nothing"), "The strategy 'nothing' is a int, not a RewriteStrategy"),
        (lambda: registry.named("missing"), "of the package author-of-strategies, which cannot be loaded from"),
        (lambda: registry.named("gone"), "ModuleNotFoundError"),
        (lambda: wiring.engine_factory("nothing"), "The engine 'nothing' is a int, not a factory"),
        (
            lambda: wiring.engine_factory("duck"),
            "'duck' is not an engine; choose one of spark, inline, auto, here, nothing",
        ),
    ],
)
def test_what_cannot_be_had_gets_a_sentence(installed: Path, find: Callable[[], Any], words: str) -> None:
    with pytest.raises(errors.ConfigError, match=words):
        find()
    assert extensions.names(extensions.ENGINES) == ["here", "nothing"]
